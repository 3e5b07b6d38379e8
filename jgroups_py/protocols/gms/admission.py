"""Admission: which of those that ask to be let in take part in the next view change.

A view change waits for its joiners, and nobody delivers meanwhile, so a joiner that does not exist costs the whole
group more than a second. So a joiner first shows that it receives where it says (ComeBack, and JoinMe again with that
token), which keeps nothing for those that never come back. One that shows it and is silent in a ballot nevertheless
closes the door for a while, for longer each time in a row, so that the group spends most of its time delivering.
"""
from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from typing import TYPE_CHECKING

from jgroups_py.address import Address
from jgroups_py.protocols.gms.headers import ComeBack, JoinMe
from jgroups_py.view import View

if TYPE_CHECKING:
    from jgroups_py.protocols.gms.gms import Gms

MAX_WAITING = 1024         # joiners that have shown that they exist and wait; more have to ask again later
MAX_AT_ONCE = 256          # joiners of one ballot
MAX_DOUBLINGS = 4          # of the pause after a ballot with a silent joiner
TOKEN_BYTES = 7            # fits the wire's integers, and is never 0 in effect: see `token`


class Admission:
    """The door of the group, at the acting coordinator."""

    def __init__(self, gms: Gms) -> None:
        self.gms = gms
        self.key = blake2b(f"{gms.rng_seed}/admission".encode()).digest()
        self.closed_until_ns = 0
        self.failures = 0                      # ballots in a row in which a joiner was silent

    def token(self, header: JoinMe) -> int:
        """What only somebody who receives at `header.physical` can know. Nothing is kept for it."""
        text = f"{header.member.raw.hex()} {header.physical}".encode()
        return 1 + int.from_bytes(blake2b(text, digest_size=TOKEN_BYTES, key=self.key).digest(), "big")

    def asked(self, header: JoinMe, src: Address) -> None:
        """Somebody asks to be let in."""
        gms = self.gms
        if src not in gms.joiners:
            token = self.token(header)
            if header.token != token:
                gms.count("joiners_challenged")
                return gms.send(ComeBack(token), src)
            if len(gms.joiners) >= MAX_WAITING:
                return gms.count("joiners_refused")
            gms.joiners[src] = None
        return gms.chair.consider()

    def next_ones(self) -> tuple[Address, ...]:
        """Whom a ballot that begins now lets in."""
        if self.gms.now_ns < self.closed_until_ns:
            return ()
        return tuple(self.gms.joiners)[:MAX_AT_ONCE]

    def silent(self, joiners: Iterable[Address]) -> None:
        """They held a ballot up: go on without them, and without others for a while."""
        gms = self.gms
        for joiner in joiners:
            gms.count("silent_joiners")
            gms.joiners.pop(joiner, None)
        pause_ns = gms.config.join_pause_ns << min(self.failures, MAX_DOUBLINGS)
        self.failures += 1
        self.closed_until_ns = gms.now_ns + pause_ns
        if pause_ns:
            gms.set_timer("admit", pause_ns)

    def decided(self, view: View) -> None:
        """A view was decided; if it lets somebody in, the door is open again."""
        if any(member in self.gms.joiners for member in view.members):
            self.failures = 0
