"""Between ENCRYPT, the transport below it, and the environment."""
from __future__ import annotations

from typing import Any

import attrs

from jgroups_py.model.address import PhysicalAddress
from jgroups_py.model.events.base import Event


@attrs.frozen
class SenderProven(Event):
    """Down, from ENCRYPT: these frames were held until their sender had proven itself; the transport takes them now."""

    frames: tuple[tuple[bytes, PhysicalAddress | None], ...] = attrs.field(repr=False)


@attrs.frozen
class KeyringRead(Event):
    """Up, from the environment: the keyring in the file `path` has changed.

    keyring: a sealing.keyring.GroupKeyring, None if the file cannot be used: then `problem` says why.
    """

    path: str
    keyring: Any
    problem: str = ""


@attrs.frozen
class TrustedFileRead(Event):
    """Up, from the environment: the file `path`, which no other user may change, has changed.

    text: its contents, None if it cannot be read: then `problem` says why.
    """

    path: str
    text: bytes | None = attrs.field(repr=False)
    problem: str = ""
