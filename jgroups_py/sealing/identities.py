"""Identities of members, and the three files that AUTH reads: a member's own, the known members, the revoked keys.

**A member's own file** (mode 0600; property `identity`) is a private key of Ed25519 in PEM (PKCS #8) behind lines of
text, so that tools that read PEM read it too. `site` may be empty; roles are any of member, relay, operator:

    jgroups identity 1
    name: A
    site: NYC
    roles: member relay
    -----BEGIN PRIVATE KEY-----
    ...
    -----END PRIVATE KEY-----

**The known members** (property `trust`; not secret, but only this user or root may write it) are the public keys that
are accepted, with the name, site and roles of each. These count, not those in a member's own file:

    {"format": "jgroups known members 1",
     "members": [{"name": "A", "site": "NYC", "roles": ["member", "relay"], "key": "ed25519:64 hex digits"}, ...]}

**The revoked keys** (property `revoked`; as above) are refused even if the other files have them. The text of a key
that is not Ed25519 is the SHA-256 of its public key (SubjectPublicKeyInfo in DER):

    {"format": "jgroups revoked keys 1", "keys": ["ed25519:64 hex digits", "sha256:64 hex digits", ...]}
"""
from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Final

import attrs

from jgroups_py.model.address import Address
from jgroups_py.model.errors import ConfigError
from jgroups_py.model.ports import Identities
from jgroups_py.model.text import MAX_NAME_BYTES, escaped, is_name
from jgroups_py.sealing.primitives import PUBLIC_BYTES, SigningKey, signing_key_of

IDENTITY_FORMAT: Final = "jgroups identity 1"
KNOWN_FORMAT: Final = "jgroups known members 1"
REVOKED_FORMAT: Final = "jgroups revoked keys 1"
MEMBER, RELAY, OPERATOR = "member", "relay", "operator"
ROLES: Final = (MEMBER, RELAY, OPERATOR)
KEY_KINDS: Final = ("ed25519", "sha256")
_BEGIN: Final = b"-----BEGIN "


@attrs.frozen
class Identity:
    """The identity of a member, as AUTH has verified it. name: its logical name; site: "" for any; roles: of ROLES;
    key: the text of its public key ("psk", and the id of the secret, where all share one)."""

    name: str
    site: str = ""
    roles: tuple[str, ...] = (MEMBER,)
    key: str = ""

    def __str__(self) -> str:
        return f"{self.name}@{self.site}" if self.site else self.name


@attrs.frozen
class OwnIdentity:
    """The contents of a member's own file. signer: its private key, not in its repr."""

    identity: Identity
    signer: SigningKey = attrs.field(repr=False, eq=False)

    def as_text(self) -> str:
        """The contents of its file. This is secret."""
        return (f"{IDENTITY_FORMAT}\nname: {self.identity.name}\nsite: {self.identity.site}\n"
                f"roles: {' '.join(self.identity.roles)}\n{self.signer.pem()}")


def operator_refusal(identities: Identities | None, member: Address) -> str:
    """Why the orders of a member of a group are not obeyed; "": they are. Without AUTH all members are alike."""
    if identities is None:
        return ""
    identity: Identity | None = identities.identity_of(member)
    if identity is None:
        return f"{escaped(str(member))} has not proven its identity"
    return "" if OPERATOR in identity.roles else f"{escaped(str(identity))} has not the role {OPERATOR!r}"


def key_text(public: bytes) -> str:
    """The text of a public key of Ed25519, as in files and reports."""
    return f"ed25519:{public.hex()}"


def new_identity(seed: bytes, name: str, site: str = "", roles: Iterable[str] = (MEMBER,)) -> OwnIdentity:
    """The identity whose private key is `seed`, 32 random bytes.

    Raises:
        ConfigError: a name or role that is not allowed.
    """
    signer = SigningKey(seed)
    return OwnIdentity(checked_identity(name, site, tuple(roles), key_text(signer.public), "identity"), signer)


def checked_identity(name: Any, site: Any, roles: Any, key: str, where: str) -> Identity:
    """An identity, made of values from a file. where: for errors.

    Raises:
        ConfigError: what is wrong, and what is allowed.
    """
    if not isinstance(name, str) or not is_name(name):
        raise ConfigError(f"{where}: name must be a text of 1 to {MAX_NAME_BYTES} bytes without control characters")
    if site != "" and not (isinstance(site, str) and is_name(site)):
        raise ConfigError(f"{where}: site must be empty, or a text of at most {MAX_NAME_BYTES} bytes without control "
                          "characters")
    if not isinstance(roles, list | tuple) or not roles or any(role not in ROLES for role in roles):
        raise ConfigError(f"{where}: roles must be some of {', '.join(ROLES)}")
    return Identity(name, site, tuple(role for role in ROLES if role in roles), key)


def parse_identity(data: bytes) -> OwnIdentity:
    """The identity in a member's own file. No error shows a part of the file, which has a private key.

    Raises:
        ConfigError: what is wrong, and what is allowed.
    """
    head, begin, rest = data.partition(_BEGIN)
    lines = head.decode("utf-8", "replace").splitlines()
    if not begin or not lines or lines[0].strip() != IDENTITY_FORMAT:
        raise ConfigError(f'not an identity: its first line is "{IDENTITY_FORMAT}", and it has a private key in PEM')
    pairs = [line.partition(":") for line in lines[1:]]
    fields = {name.strip(): value.strip() for name, colon, value in pairs if colon}
    unknown = [name for name in fields if name not in ("name", "site", "roles")]
    if unknown or "name" not in fields:
        raise ConfigError("an identity has the lines name:, site: and roles: in front of its key, and no others")
    signer = signing_key_of(begin + rest)
    if signer is None:
        raise ConfigError("the private key of an identity must be of Ed25519, in PEM (PKCS #8), not encrypted")
    roles = fields.get("roles", MEMBER).split()
    return OwnIdentity(checked_identity(fields["name"], fields.get("site", ""), roles, key_text(signer.public),
                                        "identity"), signer)


@attrs.frozen
class KnownMembers:
    """The public keys that are accepted. members: text of the key -> identity."""

    members: dict[str, Identity] = attrs.field(factory=dict)

    def find(self, public: bytes) -> Identity | None:
        """The identity of a key; None: the key is not known."""
        return self.members.get(key_text(public))

    def with_member(self, identity: Identity) -> KnownMembers:
        """With one more key.

        Raises:
            ConfigError: the key is there.
        """
        if identity.key in self.members:
            raise ConfigError(f"key {identity.key} is that of {self.members[identity.key]} already")
        return KnownMembers({**self.members, identity.key: identity})

    def without(self, key: str) -> KnownMembers:
        """Without a key.

        Raises:
            ConfigError: it is not there.
        """
        if key not in self.members:
            raise ConfigError(f"key {key} is not among the known members")
        return KnownMembers({text: identity for text, identity in self.members.items() if text != key})

    def as_text(self) -> str:
        """The contents of the file."""
        members = [{"name": one.name, "site": one.site, "roles": list(one.roles), "key": one.key}
                   for one in self.members.values()]
        return json.dumps({"format": KNOWN_FORMAT, "members": members}, indent=1) + "\n"


def parse_known_members(data: bytes) -> KnownMembers:
    """The known members in a file.

    Raises:
        ConfigError: what is wrong, and what is allowed.
    """
    known = KnownMembers()
    for number, item in enumerate(_items(data, KNOWN_FORMAT, "members", "a file of known members"), 1):
        where = f"known member {number}"
        if not isinstance(item, dict):
            raise ConfigError(f'{where} is no object with "name", "site", "roles" and "key"')
        key = checked_key(item.get("key"), where, KEY_KINDS[:1])
        known = known.with_member(checked_identity(
            item.get("name"), item.get("site", ""), item.get("roles", [MEMBER]), key, where))
    return known


@attrs.frozen
class RevokedKeys:
    """Texts of public keys that are not accepted any more."""

    keys: frozenset[str] = frozenset()

    def __contains__(self, key: str) -> bool:
        return key in self.keys

    def with_key(self, key: str) -> RevokedKeys:
        """With one more.

        Raises:
            ConfigError: it is no key.
        """
        return RevokedKeys(self.keys | {checked_key(key, "key", KEY_KINDS)})

    def as_text(self) -> str:
        """The contents of the file."""
        return json.dumps({"format": REVOKED_FORMAT, "keys": sorted(self.keys)}, indent=1) + "\n"


def parse_revoked_keys(data: bytes) -> RevokedKeys:
    """The revoked keys in a file.

    Raises:
        ConfigError: what is wrong, and what is allowed.
    """
    items = _items(data, REVOKED_FORMAT, "keys", "a file of revoked keys")
    return RevokedKeys(frozenset(checked_key(item, f"revoked key {number}", KEY_KINDS)
                                 for number, item in enumerate(items, 1)))


def _items(data: bytes, form: str, name: str, what: str) -> list[Any]:
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        raise ConfigError(f"not {what}: not JSON") from None
    if not isinstance(value, dict) or value.get("format") != form or not isinstance(value.get(name), list):
        raise ConfigError(f'not {what}: an object with "format": "{form}" and a list "{name}"')
    items: list[Any] = value[name]
    return items


def checked_key(value: Any, where: str, kinds: tuple[str, ...]) -> str:
    """The text of a public key. kinds: of KEY_KINDS; where: for errors.

    Raises:
        ConfigError: it is none.
    """
    kind, _, digits = value.partition(":") if isinstance(value, str) else ("", "", "")
    try:
        raw = bytes.fromhex(digits)
    except ValueError:
        raw = b""
    if kind not in kinds or len(raw) != PUBLIC_BYTES:
        forms = " or ".join(f"{allowed}:" for allowed in kinds)
        raise ConfigError(f"{where}: key must be {forms} and {2 * PUBLIC_BYTES} hex digits")
    return f"{kind}:{raw.hex()}"
