"""Between ENCRYPT, the transport below it, and the environment."""
from __future__ import annotations

from typing import Any

import attrs

from jgroups_py.model.address import Address, PhysicalAddress
from jgroups_py.model.events.base import Event


@attrs.frozen
class SenderProven(Event):
    """Down, from ENCRYPT: these frames were held until their sender had proven itself; the transport takes them now."""

    frames: tuple[tuple[bytes, PhysicalAddress | None], ...] = attrs.field(repr=False)


@attrs.frozen
class TrustRead(Event):
    """Up, from the environment: an answer to the output ReadTrust.

    files: those that have changed since they were read last: path, contents (None if it cannot be used), and then why.
    wall_ns: the time of the wall clock, in ns since 1970.
    """

    files: tuple[tuple[str, bytes | None, str], ...] = attrs.field(repr=False)
    wall_ns: int


@attrs.frozen
class ChallengeMember(Event):
    """Down, to ENCRYPT: challenge the process that is said to be `member` and to receive at `physical`."""

    member: Address
    physical: PhysicalAddress


@attrs.frozen
class ViewKeyChosen(Event):
    """Down, from GMS to ENCRYPT in mode "view", before ViewChange: the key of the view that follows, 32 bytes."""

    secret: bytes = attrs.field(repr=False)


@attrs.frozen
class RenewViewKey(Event):
    """Down, from the channel: an operator orders a new key of the view, with the same members. number: chosen by the
    caller, for the answer, output ViewKeyRenewed. bridge: of the view of RELAY's bridge."""

    number: int
    bridge: bool = False


@attrs.frozen
class IdentityRevoked(Event):
    """Down, from AUTH: these processes are not believed any more; ENCRYPT forgets them."""

    members: tuple[Address, ...]


@attrs.frozen
class IdentityDecided(Event):
    """Down, from AUTH: it is decided now whether these senders (address and salt) are believed; challenge them."""

    senders: tuple[bytes, ...] = attrs.field(repr=False)


@attrs.frozen
class TokenChecked(Event):
    """Up, from the environment: an answer to the output CheckToken.

    answer: of `TokenCheck.check`; problem: why there is none, "" if the token is refused.
    """

    number: int
    answer: Any
    problem: str = ""


@attrs.frozen
class KeyringRead(Event):
    """Up, from the environment: the keyring in the file `path` has changed.

    keyring: a sealing.keyring.GroupKeyring, None if the file cannot be used: then `problem` says why.
    """

    path: str
    keyring: Any
    problem: str = ""
