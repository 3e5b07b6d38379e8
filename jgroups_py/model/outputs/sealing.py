"""Keys, for ENCRYPT; what AUTH trusts."""
from __future__ import annotations

import attrs

from jgroups_py.model.outputs.base import Output


@attrs.frozen(eq=False)
class ReadKeyring(Output):
    """If the keyring file `path` has changed since it was read last, pass KeyringRead up the stack of `net`."""

    net: int
    path: str


@attrs.frozen(eq=False)
class ViewKeyRenewed(Output):
    """The event RenewViewKey `number` has ended: a view with a new key is installed here, or why not."""

    number: int
    error: str


@attrs.frozen(eq=False)
class CheckToken(Output):
    """Have the application's `check` (`package.module:Class`) decide whose a token is, on another thread and within
    `timeout_ns`; TokenChecked follows up the stack of `net`. key: the text of the public key whose holder shows it."""

    net: int
    number: int
    check: str
    token: bytes = attrs.field(repr=False)
    key: str
    timeout_ns: int


@attrs.frozen(eq=False)
class ReadTrust(Output):
    """Look at files that tell AUTH or RELAY what to trust, and at the wall clock; pass TrustRead up the stack of `net`.

    files: path, what it is, and whether it is private, as in `Secrets.file`.
    """

    net: int
    files: tuple[tuple[str, str, bool], ...]
