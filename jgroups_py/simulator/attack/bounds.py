"""K11 in a simulated world: what ENCRYPT keeps of senders that are no members is bounded.

Where the attacker has no key nothing may be kept of it at all: every sender that ENCRYPT knows, proven or not, is one
that a member was. Where it has one, its frames open, and the tables have the sizes that the code names.
"""
from __future__ import annotations

from collections.abc import Container, Iterator
from typing import TYPE_CHECKING

from jgroups_py.protocols.encrypt.protocol import HANDSHAKES_A_SECOND, MAX_EARLY, Encrypt
from jgroups_py.protocols.encrypt.senders import HELD_BYTES, MAX_NON_MEMBERS, MAX_UNPROVEN

if TYPE_CHECKING:
    from jgroups_py.simulator.world import World


def excesses(world: World, real: Container[bytes] | None) -> Iterator[str]:
    """What some member keeps, or does, beyond its bounds. real: the senders that members ever were; None: the attacker
    has keys."""
    for process in world.processes.values():
        for net in (0, 1):
            stack = process.stack(net) if process.running else None
            encrypt: Encrypt | None = stack.find(Encrypt) if stack is not None else None
            if encrypt is None:
                continue
            for what, number, limit in measured(encrypt):
                if number > limit:
                    yield f"{process.incarnation} has {number} {what}, more than {limit}"
            for name in (*encrypt.senders.unproven, *encrypt.senders.proven):
                if real is not None and name not in real:
                    yield f"{process.incarnation} keeps the sender {name.hex()}, which no member ever was"


def measured(encrypt: Encrypt) -> Iterator[tuple[str, int, int]]:
    """What is kept or was done, how much, and the limit."""
    senders = encrypt.senders
    yield "unproven senders", len(senders.unproven), MAX_UNPROVEN
    yield "bytes held of them", sum(len(data) for waiting in senders.unproven.values()
                                    for data, _ in waiting.held.values()), HELD_BYTES
    yield "proven senders", len(senders.proven), len(senders.members) + MAX_NON_MEMBERS + 1
    yield "frames that wait for their key", len(encrypt.early), MAX_EARLY
    yield "challenges to addresses", len(encrypt.address_challenges), MAX_UNPROVEN
    yield "handshake frames sent in a second", encrypt.handshakes_sent, HANDSHAKES_A_SECOND
