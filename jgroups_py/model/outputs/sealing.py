"""Keys, for ENCRYPT, and files that are trusted."""
from __future__ import annotations

import attrs

from jgroups_py.model.outputs.base import Output


@attrs.frozen(eq=False)
class ReadKeyring(Output):
    """If the keyring file `path` has changed since it was read last, pass KeyringRead up the stack of `net`."""

    net: int
    path: str


@attrs.frozen(eq=False)
class ReadTrustedFile(Output):
    """If the file `path` has changed since it was read last, pass TrustedFileRead up the stack of `net`."""

    net: int
    path: str
