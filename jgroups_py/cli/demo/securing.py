"""The demo with --secure: keys of its own, and stacks in which every frame is sealed and every member known.

Made in a folder for this user alone: a keyring for each site, one for the bridge, one for the archive; an identity for
each member, the list of them, the list of revoked keys; and the two stack files: the packaged ones with keys, with AUTH
added, and a key for each view (`mode="view"`). A program that does the same is docs/how-to/encrypt.md's.
"""
from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import attrs

from jgroups_py.config.load import stacks_folder
from jgroups_py.sealing.identities import MEMBER, RELAY, KnownMembers, RevokedKeys, new_identity
from jgroups_py.sealing.keyring import new_keyring
from jgroups_py.sealing.primitives import KEY_BYTES, require_library
from jgroups_py.system.filesystem import make_folder
from jgroups_py.system.secrets import SECRETS, write_checked, write_keyring

ARCHIVE_KEYS, BRIDGE_KEYS, KNOWN, REVOKED = "archive.keys", "bridge.keys", "known.json", "revoked.json"
SITE_STACK, BRIDGE_STACK = "site.xml", "bridge.xml"
ENCRYPT = re.compile(r"<ENCRYPT (keyring=\"[^\"]*\")/>")


@attrs.frozen
class DemoKeys:
    """Where the keys are."""

    folder: Path

    @property
    def archive(self) -> Path:
        """The keyring of the archive."""
        return self.folder / ARCHIVE_KEYS

    def stack(self) -> str:
        """The stack file of a site's members."""
        return str(self.folder / SITE_STACK)

    def properties(self, name: str, site: str) -> dict[str, str]:
        """What a member's stack needs. name: the member's logical name."""
        return {"keyring": str(self.folder / f"{site}.keys"), "bridge_keyring": str(self.folder / BRIDGE_KEYS),
                "identity": str(self.folder / f"{name}.pem"), "bridge_props": str(self.folder / BRIDGE_STACK)}


def make_keys(folder: Path, members: Iterable[tuple[str, str]]) -> DemoKeys:
    """Make all files for these members (name, site).

    Raises:
        ConfigError: `cryptography` is not installed, or a file cannot be written.
    """
    require_library("jgroups demo --secure")
    make_folder(folder)
    named = list(members)
    sites = dict.fromkeys(site for _, site in named)
    for name in (*(f"{site}.keys" for site in sites), BRIDGE_KEYS, ARCHIVE_KEYS):
        write_keyring(folder / name, new_keyring(SECRETS.draw(KEY_BYTES)), new=True)
    known = KnownMembers()
    for name, site in named:
        own = new_identity(SECRETS.draw(KEY_BYTES), name, site, (MEMBER, RELAY))
        write_checked(folder / f"{name}.pem", own.as_text(), "identity", new=True)
        known = known.with_member(own.identity)
    write_checked(folder / KNOWN, known.as_text(), "list of known members", new=True)
    write_checked(folder / REVOKED, RevokedKeys().as_text(), "list of revoked keys", new=True)
    for packaged, name in (("sealed-site.xml", SITE_STACK), ("sealed-bridge.xml", BRIDGE_STACK)):
        text = (stacks_folder() / packaged).read_text(encoding="utf-8")
        auth = (f'<AUTH authority="keys" identity="${{identity}}" trust="{folder / KNOWN}" '
                f'revoked="{folder / REVOKED}"/>')
        write_checked(folder / name, ENCRYPT.sub(rf'<ENCRYPT mode="view" sign="pair" \1/>\n    {auth}', text),
                      "stack file", new=True)
    return DemoKeys(folder)
