"""Which member a call goes to, and what follows when it fails. Pure: time comes in as an argument.

The directory has the members, what each offers, how soon it answers, and how many calls are under way to it. A CallPlan
is one call: it names the member to ask next, and decides after a failure whether another one may be asked.
"""
from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

import attrs

from jgroups_py.blocks.placement.draws import exponential, hash_member, hash_partition, pair
from jgroups_py.blocks.service.interface import MethodSpec
from jgroups_py.blocks.service.messages import Offered
from jgroups_py.model.address import Address
from jgroups_py.model.errors import (
    ChannelError,
    ConfigError,
    MemberLeftError,
    NoMemberError,
    NoMethodError,
    NoServiceError,
    OverloadedError,
    RequestError,
    RequestTimeoutError,
)
from jgroups_py.model.units import millis

NEVER_RAN = (NoMemberError, NoMethodError, OverloadedError)
PAUSE_NS = millis(100)                      # until the members that failed are asked again
SHARES = 3                                  # into which the time of an idempotent call is cut, an attempt each
MAX_STRANGERS = 256                         # members that are in no view and whose offers are kept
RTT_WEIGHT = 8                              # a new time counts an eighth
HASH = "hash:"


class Reach(enum.Enum):
    """Which members a stub asks."""

    AT = enum.auto()                        # that one
    ANY = enum.auto()                       # one of the own group
    SITE = enum.auto()                      # one of a site
    NEAREST = enum.auto()                   # one of the own group; without any, of the site that answers soonest


@attrs.frozen
class Choice:
    """How a stub chooses. prefer: "least", "local" or "hash:KEY"; member, site: see Reach."""

    reach: Reach
    prefer: str = "least"
    member: Address | None = None
    site: str = ""

    def __attrs_post_init__(self) -> None:
        if self.prefer not in ("least", "local") and not self.prefer.startswith(HASH):
            raise ConfigError(f"prefer={self.prefer!r}: it is 'least', 'local' or 'hash:KEY'")


class Directory:
    """See the module. With threads, views come on one and offers on another: what both change is copied when read.

    me: this member; site: the name of its own, "" without RELAY; known: the members of all sites.
    """

    def __init__(self) -> None:
        self.me: Address | None = None
        self.site = ""
        self.members: tuple[Address, ...] = ()
        self.sites: dict[str, tuple[Address, ...]] = {}      # of other sites
        self.offers: dict[Address, tuple[Offered, ...]] = {}
        self._keys: dict[Address, frozenset[bytes]] = {}
        self.under_way: Counter[Address] = Counter()
        self.rtt_ns: dict[Address, int] = {}
        self.known: dict[Address, None] = {}
        self._turn = 0

    def view(self, members: Iterable[Address]) -> bool:
        """The own group; whether there are members that were not in it before."""
        known = dict.fromkeys(self.members)
        self.members = tuple(members)
        self._forget()
        return any(member not in known for member in self.members)

    def global_view(self, sites: Mapping[str, Sequence[Address]], own: str) -> bool:
        """All sites; whether there are members that were not in them before."""
        known = dict.fromkeys(member for members in self.sites.values() for member in members)
        self.site = own
        self.sites = {site: tuple(members) for site, members in sites.items() if site != own}
        self._forget()
        return any(member not in known for members in self.sites.values() for member in members)

    def offered(self, member: Address, offers: tuple[Offered, ...]) -> None:
        """A member offers exactly this."""
        self.offers[member] = offers
        self._keys[member] = frozenset(key for offer in offers for key in offer.keys)

    def present(self, member: Address) -> bool:
        """Whether it is in the own group, or known at another site."""
        return member in self.known

    def began(self, member: Address) -> None:
        """A call to it begins."""
        self.under_way[member] += 1

    def ended(self, member: Address, rtt_ns: int | None) -> None:
        """A call to it has ended; rtt_ns: with a result, after so long."""
        self.under_way[member] -= 1
        if self.under_way[member] <= 0:
            del self.under_way[member]
        if rtt_ns is not None and self.present(member):
            old = self.rtt_ns.get(member)
            self.rtt_ns[member] = rtt_ns if old is None else old + (rtt_ns - old) // RTT_WEIGHT

    def candidates(self, key: bytes, choice: Choice) -> list[Address]:
        """The members that a stub may ask and that offer the method, the best first."""
        if choice.reach is Reach.AT:
            return [] if choice.member is None else [choice.member]
        if choice.reach is Reach.SITE:
            near = self.members if choice.site == self.site else self.sites.get(choice.site, ())
            return self._ranked(near, key, choice.prefer)
        found = self._ranked(self.members, key, choice.prefer)
        if found or choice.reach is Reach.ANY:
            return found
        far = [self._ranked(members, key, choice.prefer) for members in self.sites.values()]
        far.sort(key=lambda members: min((self.rtt_ns.get(member, 0) for member in members), default=0))
        return [member for members in far for member in members]

    def _ranked(self, members: Iterable[Address], key: bytes, prefer: str) -> list[Address]:
        offering = [member for member in members if key in self._keys.get(member, ())]
        if prefer.startswith(HASH):
            part = hash_partition(prefer, b"")
            return sorted(offering, key=lambda one: exponential(
                pair(part, hash_member(one.name or one.raw.hex(), b""))))
        self._turn += 1
        turn = self._turn % len(offering) if offering else 0
        rotated = offering[turn:] + offering[:turn]
        local = prefer == "local"
        return sorted(rotated, key=lambda one: (not (local and one == self.me), self.under_way[one]))

    def _forget(self) -> None:
        self.known = dict.fromkeys((*self.members, *(one for members in self.sites.values() for one in members)))
        for member in [member for member in list(self.rtt_ns) if member not in self.known]:
            self.rtt_ns.pop(member, None)
        # An offer may come before the view of all sites has its member.
        strangers = [member for member in list(self.offers) if member not in self.known]
        for member in strangers[:-MAX_STRANGERS]:
            self.offers.pop(member, None)
            self._keys.pop(member, None)


class CallPlan:
    """One call: which member is asked next, until when, and whether a failure ends it.

    number: called for that of a call that is sent for the first time (once=True). may_have_run: some member may have
    run it. again: for once=True, the member that is asked again.
    """

    def __init__(
        self, directory: Directory, spec: MethodSpec, choice: Choice, deadline_ns: int, number: Callable[[], int],
    ) -> None:
        self.may_have_run = False
        self.number = 0
        self.again: Address | None = None
        self.deadline_ns = deadline_ns
        self._directory = directory
        self._number = number
        self._spec = spec
        self._choice = choice
        self._failed: dict[Address, None] = {}
        self._error: RequestError | None = None
        self._pauses = False
        self._others = False                                 # another member could be asked if this one is late

    def next(self, now_ns: int) -> Address | None:
        """The member to ask now; None: wait until the directory changes, or PAUSE_NS.

        Raises:
            RequestError: the time is over.
        """
        if now_ns >= self.deadline_ns:
            raise self._over()
        if self.again is not None:
            pauses, self._pauses = self._pauses, False
            return self.again if self._directory.present(self.again) and not pauses else None
        found = self._directory.candidates(self._spec.key, self._choice)
        left = [member for member in found if member not in self._failed]
        if left:
            self._others = len(found) > 1
            self.number = self._number()
            return left[0]
        self._failed.clear()
        return None

    def attempt_ends_ns(self, now_ns: int) -> int:
        """Until when the member that was chosen last may take."""
        if self._spec.options.idempotent and self._others:
            return now_ns + max(1, (self.deadline_ns - now_ns) // SHARES)
        return self.deadline_ns

    def failed(self, member: Address, error: RequestError) -> None:
        """The member was asked in vain; returns if another attempt may follow.

        Raises:
            RequestError: `error`, which ends the call; it is not definite if an earlier attempt may have run.
        """
        options, pinned = self._spec.options, self._choice.reach is Reach.AT
        self._error = error
        never_ran, gone = isinstance(error, NEVER_RAN), isinstance(error, MemberLeftError)
        if never_ran and self.again is not None:             # an attempt before may have run
            self._pauses = True
            return
        if never_ran and not pinned:
            self._failed[member] = None
            return
        self.may_have_run = self.may_have_run or not error.definite
        if options.once and gone and not never_ran:
            self.again = member
        elif options.idempotent and not pinned and (gone or isinstance(error, RequestTimeoutError)):
            self._failed[member] = None
        else:
            self.ends(error)
            raise error

    def ends(self, error: ChannelError) -> None:
        """The call ends with an error of this member: it is not definite if an attempt before may have run."""
        if self.may_have_run:
            error.definite = False

    def _over(self) -> RequestError:
        if self.may_have_run:
            return RequestTimeoutError(f"{self._spec.label}: no answer in time; a member may have run it")
        if self._error is not None:
            return self._error
        where = {Reach.SITE: f" of site {self._choice.site}"}.get(self._choice.reach, "")
        return NoServiceError(f"no member{where} offered {self._spec.label}, with these parameters and this result, in "
                              "time")
