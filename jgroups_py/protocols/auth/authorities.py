"""Authorities: how a member shows who it is, and how others verify it. Pure: files come in as bytes.

What is proven is a *transcript*: a digest of both senders, the challenge, the keys of this exchange and the credential
itself (protocols/encrypt/handshake.py). So a proof is of no use in any other exchange, and no secret is ever sent.
"""
from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Final, TypeVar

from jgroups_py.model.errors import ConfigError, WireError
from jgroups_py.model.secrets import Secrets
from jgroups_py.model.text import is_name
from jgroups_py.protocols.auth.config import AuthConfig
from jgroups_py.sealing.identities import (
    MEMBER,
    RELAY,
    Identity,
    KnownMembers,
    RevokedKeys,
    parse_identity,
    parse_known_members,
    parse_revoked_keys,
)
from jgroups_py.sealing.keyring import GroupKeyring, parse_keyring
from jgroups_py.sealing.primitives import KEY_ID_BYTES, PUBLIC_BYTES, derive, mac, same, verify

Value = TypeVar("Value")
NOT_PROVEN: Final = "its proof is not of the key that it shows"
PSK: Final = "psk"
FileSpec = tuple[str, str, bool]
"""A file: path, what it is, whether it is private (see `Secrets.file`)."""


class Authority(ABC):
    """own: this member's identity; files: those on which it depends."""

    own: Identity
    files: tuple[FileSpec, ...]

    @abstractmethod
    def credential(self) -> bytes:
        """What this member shows: its public key, its name, ..."""

    @abstractmethod
    def prove(self, transcript: bytes) -> bytes:
        """The proof that this member holds the secret behind its credential."""

    @abstractmethod
    def verify(self, credential: bytes, proof: bytes, transcript: bytes) -> Identity | str:
        """Whose credential it is, or why it is refused. Any bytes are input."""

    @abstractmethod
    def changed(self, path: str, data: bytes) -> None:
        """A file has changed; one that cannot be used changes nothing.

        Raises:
            ConfigError: it cannot be used.
        """

    @abstractmethod
    def revoked(self, identity: Identity) -> str:
        """Why an identity that was verified is not believed any more; "": it is."""


class PskAuthority(Authority):
    """All members share a secret; each names itself, so that only holders of the secret are kept apart from others."""

    def __init__(self, config: AuthConfig, secrets: Secrets, name: str) -> None:
        self.files = ((config.secret, "keyring", True),)
        self.own = Identity(name, "", (MEMBER, RELAY), PSK)
        self.changed(config.secret, secrets.file(*self.files[0][:2], private=True))

    def changed(self, path: str, data: bytes) -> None:
        self.keyring: GroupKeyring = parse_keyring(data)
        self.usable = {key: derive(found.secret, b"jgroups_py psk") for key, found in self.keyring.usable().items()}

    def credential(self) -> bytes:
        return self.keyring.active.id + self.own.name.encode()

    def prove(self, transcript: bytes) -> bytes:
        return mac(self.usable[self.keyring.active.id], transcript)

    def verify(self, credential: bytes, proof: bytes, transcript: bytes) -> Identity | str:
        key = self.usable.get(credential[:KEY_ID_BYTES])
        name = credential[KEY_ID_BYTES:].decode("utf-8", "replace")
        if key is None:
            return "its secret is another one, or is retired"
        if not same(mac(key, transcript), proof):
            return NOT_PROVEN
        return Identity(name, "", (MEMBER, RELAY), PSK) if is_name(name) else "its name is malformed"

    def revoked(self, identity: Identity) -> str:
        return ""                                # a secret that is retired keeps out those that prove it anew


class KeysAuthority(Authority):
    """Each member has a key of Ed25519; the list of known members has the names, sites and roles."""

    def __init__(self, config: AuthConfig, secrets: Secrets, name: str) -> None:
        self._trust, self._revoked = config.trust, config.revoked
        found = named(config.identity, parse_identity, secrets.file(config.identity, "identity", private=True))
        self._signer = found.signer
        self.files = ((config.trust, "known members", False),
                      *([(config.revoked, "revoked keys", False)] if config.revoked else []))
        self.known, self.denied = KnownMembers(), RevokedKeys()
        for path, what, private in self.files:
            self.changed(path, secrets.file(path, what, private=private))
        # What the list says of this member counts for others, so it counts here: a member that is not in it yet may
        # start, and is refused by the others with the reason.
        self.own = self.known.find(self._signer.public) or found.identity

    def changed(self, path: str, data: bytes) -> None:
        if path == self._trust:
            self.known = named(path, parse_known_members, data)
        else:
            self.denied = named(path, parse_revoked_keys, data)

    def credential(self) -> bytes:
        return self._signer.public

    def prove(self, transcript: bytes) -> bytes:
        return self._signer.sign(transcript)

    def verify(self, credential: bytes, proof: bytes, transcript: bytes) -> Identity | str:
        identity = self.known.find(credential) if len(credential) == PUBLIC_BYTES else None
        if identity is None:
            return "its key is not among the known members"
        reason = self.revoked(identity)
        if reason:
            return reason
        try:
            verify(credential, proof, transcript)
        except WireError:
            return NOT_PROVEN
        return identity

    def revoked(self, identity: Identity) -> str:
        if identity.key in self.denied:
            return f"the key of {identity} is revoked"
        if self.known.members.get(identity.key) != identity:
            return f"{identity} is not among the known members any more, or not as it was"
        return ""


def named(path: str, parse: Callable[[bytes], Value], data: bytes) -> Value:
    """The contents of a file, parsed; an error names the file."""
    try:
        return parse(data)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None


AUTHORITIES: Final[dict[str, type[PskAuthority | KeysAuthority]]] = {"psk": PskAuthority, "keys": KeysAuthority}
