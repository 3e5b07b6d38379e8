"""The join client: finds a coordinator and asks to join; where there is none, decides which joiner begins a group.

    SEARCHING -> a coordinator was found: ASKING it, again and again, for join_timeout since it last showed progress
              -> members but no coordinator: search again, they will elect one
              -> only other joiners: the lowest address installs the first view, the others search again
              -> nobody: this member installs the first view; but where others are known to run it searches again
    ASKING    -> a view is installed; or the coordinator does not answer: search again

After max_join_attempts the joiner installs a view of its own; MERGE3 unites it with others later.
"""
from __future__ import annotations

import enum

from jgroups_py.model.address import Address, PhysicalAddress
from jgroups_py.model.batch import Batch
from jgroups_py.model.events import AddressesKnown, Connect, FindMembers, MembersFound
from jgroups_py.model.units import millis
from jgroups_py.model.version import MANUAL, misfit
from jgroups_py.protocols.gms.config import GmsConfig
from jgroups_py.protocols.gms.headers import CoordinatorHint, JoinChallenge, JoinRefused, JoinRequest
from jgroups_py.protocols.gms.ports import AcceptorPort, GmsPort
from jgroups_py.protocols.gms.state import GroupState, Lifecycle
from jgroups_py.stack.component import Component, on, receives, timer
from jgroups_py.wire import releases_in

REPEAT_NS = millis(150)


class JoinPhase(enum.Enum):
    """What a joiner does at present."""

    OFF = "off"
    SEARCHING = "searching"
    ASKING = "asking"


class JoinClient(Component):
    """A joiner's way into a group.

    coordinator: the one that was asked last, whose ballots alone are answered while joining; token: of its challenge, 0
    before; waited_ns: since it last showed progress; attempts: searches that led nowhere; refused: a coordinator
    refused this release, and this member has begun no group meanwhile; expected: see Connect.
    """

    config: GmsConfig
    layer: GmsPort
    acceptor: AcceptorPort              # set by Gms.assemble

    def __init__(self, layer: GmsPort, group: GroupState) -> None:
        super().__init__(layer)
        self.group = group
        self.phase = JoinPhase.OFF
        self.coordinator: Address | None = None
        self.token = 0
        self.waited_ns = 0
        self.attempts = 0
        self.refused = False
        self.expected = False

    @on(Connect)
    def on_connect(self, event: Connect) -> None:
        """The channel connects."""
        assert self.group.lifecycle is Lifecycle.IDLE, "a stack connects once"
        self.group.become(Lifecycle.JOINING)
        self.expected = event.expected
        self.later(self.search)                # the transport must know the cluster first

    def search(self) -> None:
        """Ask discovery for members."""
        if self.group.lifecycle is Lifecycle.JOINING:
            self.phase = JoinPhase.SEARCHING
            self.cancel_timer("seek")
            self.pass_down(FindMembers(self.config.join_timeout_ns))

    @on(MembersFound)
    def on_members_found(self, event: MembersFound) -> None:
        """Discovery's answer. It also measures round trips, at any time: see the merge coordinator."""
        if self.phase is not JoinPhase.SEARCHING:
            return
        found = [one for one in event.found if not self.layer.contradiction(one.member)]
        coordinators = [one for one in found if one.is_coordinator]
        if coordinators:
            # A random one: where a group is split, the coordinators of its halves share the joiners.
            chosen = self.rng.choice(coordinators)
            self.phase, self.waited_ns = JoinPhase.ASKING, 0
            self.ask(chosen.member, chosen.physical)
        elif any(one.view_id is not None for one in found) or (self.expected and not found):
            # A group whose coordinator did not answer, or none of it has yet. Beginning a second group beside it would
            # only need a merge, and that begins once MERGE3 searches.
            self.attempt_failed()
        elif min((one.member for one in found), default=self.me) >= self.me:
            # Only joiners, which all apply this rule: the lowest address begins the group, the others find it.
            self.layer.install_alone()
        else:
            self.attempt_failed()

    def attempt_failed(self) -> None:
        """This attempt led nowhere."""
        self.attempts += 1
        limit = self.config.max_join_attempts
        if limit and self.attempts >= limit and not self.refused:
            self.count("joins_given_up")
            self.layer.install_alone()
        else:
            self.search()

    def ask(self, coordinator: Address, physical: PhysicalAddress | None) -> None:
        """Send a JoinRequest to `coordinator`; physical: None if the transport knows its physical address."""
        if coordinator != self.coordinator:
            self.coordinator, self.token = coordinator, 0
            # Promises to the former coordinator are void: a late Install of that group must not be followed.
            self.acceptor.forget_promises()
        if physical is not None:
            self.pass_down(AddressesKnown({coordinator: physical}))
        mine = self.layer.addresses.my_physical()
        assert mine is not None, "the sockets stand before we connect"
        self.send(JoinRequest(self.me, mine, self.token), coordinator)
        self.set_timer("seek", REPEAT_NS)

    @timer("seek")
    def on_repeat(self) -> None:
        """Repeat the request, or give this coordinator up after join_timeout without progress."""
        if self.phase is not JoinPhase.ASKING or self.coordinator is None:
            return
        self.waited_ns += REPEAT_NS
        if self.waited_ns >= self.config.join_timeout_ns:
            self.attempt_failed()
        else:
            self.ask(self.coordinator, None)

    @receives(CoordinatorHint)
    def on_coordinator_hint(self, header: CoordinatorHint, batch: Batch) -> None:
        """The member that was asked names the acting coordinator. Hints of others are ignored."""
        if self.phase is JoinPhase.ASKING and batch.src == self.coordinator:
            self.ask(header.coordinator, header.physical)

    @receives(JoinChallenge)
    def on_join_challenge(self, header: JoinChallenge, batch: Batch) -> None:
        """The coordinator wants its token back, as proof that this joiner receives at its physical address."""
        if self.phase is JoinPhase.ASKING and batch.src == self.coordinator and header.token != self.token:
            self.token, self.waited_ns = header.token, 0       # the way there and back is open
            self.ask(batch.src, None)

    @receives(JoinRefused)
    def on_join_refused(self, header: JoinRefused, batch: Batch) -> None:
        """A member of the group may not run beside this release. The group may be upgraded, so this member goes on
        asking, until the channel's own time for that is over; but it begins no group beside that one."""
        src, told = batch.src, releases_in(batch)
        if self.phase is not JoinPhase.ASKING or src != self.coordinator:
            return
        releases = self.layer.releases
        why = misfit([releases.own], told.values(), f"coordinator {src}", "this member") or (
            f"a member of the group of coordinator {src} may not run beside version {releases.own} ({MANUAL})")
        self.refused = True
        self.drop("releases_refused", batch, why, header)
        self.warn(f"is not let into the group: {why}")

    def expect_progress(self) -> None:
        """See JoinPort."""
        self.waited_ns = 0

    def stop(self) -> None:
        """A view is installed, or the channel wants to be in none."""
        self.refused = False
        self.phase = JoinPhase.OFF
        self.cancel_timer("seek")
