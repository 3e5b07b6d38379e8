"""Joining: find a coordinator, ask it to be let in, and if there is none decide who becomes the first member.

Found a coordinator: ask it, repeatedly, for join_timeout since it last showed progress, then look again. Found only
other joiners: the lowest address becomes the first member, the others look again (its answer comes at once).
Found members but no coordinator: look again, they will elect one. After max_join_attempts we are alone; MERGE3 heals.
"""
from __future__ import annotations

from typing import TYPE_CHECKING

from jgroups_py.address import Address, PhysicalAddress
from jgroups_py.events import AddressesKnown, FindMembers, Found
from jgroups_py.protocols.gms.headers import AskThere, ComeBack, JoinMe
from jgroups_py.protocols.gms.participant import Participant
from jgroups_py.protocols.gms.states import JOINING
from jgroups_py.units import millis

if TYPE_CHECKING:
    from jgroups_py.protocols.gms.gms import Gms

REPEAT_NS = millis(150)
OFF, SEARCHING, ASKING = "off", "searching", "asking"


class Seeker:
    """A joiner's way into a group."""

    def __init__(self, gms: Gms) -> None:
        self.gms = gms
        self.phase = OFF
        self.attempts = 0
        self.coordinator: Address | None = None        # whom we asked last; only its ballots are answered
        self.token = 0                                 # what it wants to hear from us
        self.waited_ns = 0                             # since it last showed progress

    def begin(self) -> None:
        """Start looking."""
        self.attempts = 0
        self.search()

    def done(self) -> None:
        """We are in a view."""
        self.phase = OFF
        self.gms.cancel_timer("seek")

    def search(self) -> None:
        """Ask discovery who is there."""
        if self.gms.state == JOINING:
            self.phase = SEARCHING
            self.gms.cancel_timer("seek")
            self.gms.pass_down(FindMembers(self.gms.config.join_timeout_ns))

    def found(self, found: tuple[Found, ...]) -> None:
        """Discovery's answer."""
        if self.phase != SEARCHING:
            return
        coordinators = [one for one in found if one.is_coordinator]
        if coordinators:
            chosen = self.gms.rng.choice(coordinators)
            self.phase, self.waited_ns = ASKING, 0
            self.ask(chosen.member, chosen.physical)
        elif any(one.view_id is not None for one in found):
            self.failed()
        elif min((one.member for one in found), default=self.gms.me) >= self.gms.me:
            self.gms.alone()
        else:
            self.failed()

    def failed(self) -> None:
        """This attempt led nowhere."""
        self.attempts += 1
        limit = self.gms.config.max_join_attempts
        if limit and self.attempts >= limit:
            self.gms.count("joins_given_up")
            self.gms.alone()
        else:
            self.search()

    def ask(self, coordinator: Address, physical: PhysicalAddress | None) -> None:
        """Ask to be let in."""
        gms = self.gms
        if coordinator != self.coordinator:
            self.coordinator, self.token = coordinator, 0
            gms.mine = Participant(None)       # what the former coordinator does with us is void
        if physical is not None:
            gms.pass_down(AddressesKnown({coordinator: physical}))
        mine = gms.addresses.my_physical()
        assert mine is not None, "the sockets stand before we connect"
        gms.send(JoinMe(gms.me, mine, self.token), coordinator)
        gms.set_timer("seek", REPEAT_NS)

    def tick(self) -> None:
        """Ask again, or give this coordinator up."""
        if self.phase != ASKING or self.coordinator is None:
            return
        self.waited_ns += REPEAT_NS
        if self.waited_ns >= self.gms.config.join_timeout_ns:
            self.failed()
        else:
            self.ask(self.coordinator, None)

    def progressed(self) -> None:
        """The coordinator is busy letting us in."""
        self.waited_ns = 0

    def redirected(self, header: AskThere, src: Address) -> None:
        """`src` is not the coordinator."""
        if self.phase == ASKING and src == self.coordinator:
            self.ask(header.coordinator, header.physical)

    def challenged(self, header: ComeBack, src: Address) -> None:
        """`src` wants to see that we receive what it sends us."""
        if self.phase == ASKING and src == self.coordinator and header.token != self.token:
            self.token = header.token
            self.ask(src, None)
