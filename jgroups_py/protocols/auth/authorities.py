"""Authorities: how a member proves its identity, and how others verify it. Pure: files come in as bytes.

A proof covers a *transcript*: a digest of both senders, the challenge, the keys of this exchange and the credential
itself (protocols/encrypt/handshake.py). So a proof is invalid in any other exchange, and no secret is ever sent.
"""
from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Final, TypeVar

from jgroups_py.model.errors import ConfigError, WireError
from jgroups_py.model.secrets import Secrets
from jgroups_py.model.text import escaped, is_name
from jgroups_py.protocols.auth.config import AuthConfig
from jgroups_py.sealing.certificates import (
    Authorities,
    CertifiedIdentity,
    OwnCertificate,
    decode_chain,
    encode_chain,
    parse_certificates,
    parse_own_certificate,
    shown,
    validity_problem,
    verify_certified,
)
from jgroups_py.sealing.identities import (
    ROLES,
    Identity,
    KnownMembers,
    RevokedKeys,
    parse_identity,
    parse_known_members,
    parse_revoked_keys,
)
from jgroups_py.sealing.keyring import GroupKeyring, parse_keyring
from jgroups_py.sealing.primitives import KEY_ID_BYTES, NOT_VERIFIED, PUBLIC_BYTES, derive, mac, same, verify

Value = TypeVar("Value")
NOT_PROVEN: Final = "its proof is not of the key that it shows"
PSK: Final = "psk"
MAX_VERIFIED: Final = 4000               # verified chains that are remembered
FileSpec = tuple[str, str, bool]
"""A file: path, what it is, whether it is private (see `Secrets.file`)."""


class Authority(ABC):
    """own: this member's identity; files: those on which it depends."""

    own: Identity
    files: tuple[FileSpec, ...]

    @abstractmethod
    def __init__(self, config: AuthConfig, secrets: Secrets, name: str) -> None:
        """name: of this member. Raises ConfigError: a file cannot be used."""

    @abstractmethod
    def credential(self) -> bytes:
        """What this member sends of its identity: its public key, its name, ..."""

    @abstractmethod
    def prove(self, transcript: bytes) -> bytes:
        """The proof that this member holds the secret behind its credential."""

    @abstractmethod
    def verify(self, credential: bytes, proof: bytes, transcript: bytes) -> Identity | str:
        """The identity of a credential, or why it is refused. Any bytes are valid input."""

    @abstractmethod
    def changed(self, path: str, data: bytes) -> None:
        """A file has changed; one that cannot be used changes nothing.

        Raises:
            ConfigError: it cannot be used.
        """

    @abstractmethod
    def revoked(self, identity: Identity) -> str:
        """Why an identity that was verified is not accepted any more; "": it is."""

    def outdated(self, identity: Identity) -> str:
        """Why a process that is in no view with this member has to prove itself anew; "": it has not."""
        return ""

    def ends_ns(self, identity: Identity) -> int | None:
        """When an identity that was verified ends, by the wall clock, unless it is shown anew; None: never."""
        return None

    def connected(self, cluster: str) -> str:
        """The stack connects to a cluster. Returns why this member's identity is not valid there; "": it is."""
        return ""

    def clock(self, wall_ns: int) -> str:
        """The time of the wall clock, each time that the files are checked. Returns a warning for the operator about
        this member's own identity; "": none."""
        return ""


class PskAuthority(Authority):
    """All members share a secret, and each names itself: they cannot be distinguished from each other."""

    def __init__(self, config: AuthConfig, secrets: Secrets, name: str) -> None:
        self.files = ((config.secret, "keyring", True),)
        self.own = Identity(name, "", ROLES, PSK)
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
        return Identity(name, "", ROLES, f"{PSK}:{credential[:KEY_ID_BYTES].hex()}") if is_name(name) else \
            "its name is malformed"

    def revoked(self, identity: Identity) -> str:
        return ""                                # a secret that is retired excludes no member of the view

    def outdated(self, identity: Identity) -> str:
        # Or a former member, which had proven the former secret, could come back without the new one.
        usable = any(identity.key == f"{PSK}:{key.hex()}" for key in self.usable)
        return "" if usable else "it has proven a secret that is retired"


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
        # Others use this member's entry of the list, so it is used here. A member without an entry may start; the
        # others refuse it with the reason.
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


class X509Authority(Authority):
    """Each member has a certificate of one of the authorities in `trust`, which names it in its clusters
    (sealing/certificates.py). So a new member needs no change at other members."""

    def __init__(self, config: AuthConfig, secrets: Secrets, name: str) -> None:
        self._identity, self._trust, self._revoked = config.identity, config.trust, config.revoked
        self.files = ((config.identity, "identity", True), (config.trust, "certificates of authorities", False),
                      *([(config.revoked, "revoked keys", False)] if config.revoked else []))
        self.cluster = ""
        self.wall_ns = 0                         # of the wall clock; 0: not known yet
        self.generation = 0                      # changes with the files
        self.verified: dict[tuple[bytes, ...], int] = {}     # chain -> the generation in which it was verified last
        self.denied = RevokedKeys()
        self.authorities = Authorities(())
        self.own_file: OwnCertificate | None = None
        for path, what, private in self.files:
            self.changed(path, secrets.file(path, what, private=private))

    def changed(self, path: str, data: bytes) -> None:
        if path == self._identity:
            self.own_changed(named(path, parse_own_certificate, data))
        elif path == self._trust:
            made = Authorities(named(path, parse_certificates, data))
            made.serials, made.lists_until_ns = self.authorities.serials, self.authorities.lists_until_ns
            self.authorities = made
        elif data.lstrip().startswith(b"{"):
            self.denied, self.authorities.serials = named(path, parse_revoked_keys, data), {}
            self.authorities.lists_until_ns = None
        else:
            named(path, self.authorities.read_lists, data)
            self.denied = RevokedKeys()
        self.generation += 1
        self.verified.clear()

    def own_changed(self, own: OwnCertificate) -> None:
        """This member's own certificate, which is renewed without a restart; its name stays."""
        found = self.own_for(own, self.cluster)
        if found is None or (self.own_file is not None and found.name != self.own.name):
            raise ConfigError(f"{self._identity}: it is not for {self.own} in cluster {escaped(self.cluster)}")
        self.own_file, self.own = own, found

    @staticmethod
    def own_for(own: OwnCertificate, cluster: str) -> CertifiedIdentity | None:
        """The identity in the own certificate for a cluster; "": for any."""
        return next((each for each in own.names if cluster in ("", each.cluster)), None)

    def connected(self, cluster: str) -> str:
        assert self.own_file is not None, "it was read"
        found = self.own_for(self.own_file, cluster)
        self.cluster = cluster
        if found is None:
            return (f"its certificate {self._identity} is for {clusters(self.own_file.names)}, not for "
                    f"{escaped(cluster)!r}")
        self.own = found
        return ""

    def clock(self, wall_ns: int) -> str:
        first, self.wall_ns = self.wall_ns == 0, wall_ns
        own, until = self.own_file, self.authorities.lists_until_ns
        assert own is not None, "it was read"
        if not own.not_before_ns <= wall_ns <= own.not_after_ns:
            problem = f"{self._identity}: {validity_problem(own.not_before_ns, own.not_after_ns, wall_ns)}"
            if first:
                raise ConfigError(problem)
            return problem
        if wall_ns > own.not_after_ns - (own.not_after_ns - own.not_before_ns) // 10:
            return f"{self._identity}: this member's certificate expires at {shown(own.not_after_ns)}; replace the file"
        if until is not None and wall_ns > until:
            return (f"{self._revoked}: a list of revoked certificates was to be replaced at {shown(until)}; it still "
                    "counts")
        return ""

    def credential(self) -> bytes:
        assert self.own_file is not None, "it was read"
        return encode_chain(self.own_file.chain)

    def prove(self, transcript: bytes) -> bytes:
        assert self.own_file is not None, "it was read"
        return self.own_file.signer.sign(transcript)

    def verify(self, credential: bytes, proof: bytes, transcript: bytes) -> Identity | str:
        if not self.wall_ns:
            return "the time is not known yet"
        try:
            chain = decode_chain(credential)
            verify_certified(chain, proof, transcript)
        except WireError as error:
            return NOT_PROVEN if str(error) == NOT_VERIFIED else str(error)
        return self.counts(chain)

    def counts(self, chain: tuple[bytes, ...]) -> Identity | str:
        """The identity that a chain has in this cluster now, or why it is refused."""
        try:
            names = self.authorities.verified(chain, self.wall_ns)
        except WireError as error:
            return str(error)
        found = next((each for each in names if each.cluster == self.cluster), None)
        if found is None:
            return f"its certificate is for {clusters(names)}, not for {escaped(self.cluster)!r}"
        if found.key in self.denied:
            return f"the key of {found} is revoked"
        if len(self.verified) >= MAX_VERIFIED:
            del self.verified[next(iter(self.verified))]
        self.verified[chain] = self.generation
        return found

    def ends_ns(self, identity: Identity) -> int | None:
        assert isinstance(identity, CertifiedIdentity), "verify made it"
        return identity.not_after_ns

    def revoked(self, identity: Identity) -> str:
        assert isinstance(identity, CertifiedIdentity), "verify made it"
        if not identity.not_before_ns <= self.wall_ns <= identity.not_after_ns:
            return validity_problem(identity.not_before_ns, identity.not_after_ns, self.wall_ns)
        if self.verified.get(identity.chain) == self.generation:
            return ""
        found = self.counts(identity.chain)
        return found if isinstance(found, str) else ""


def clusters(names: tuple[CertifiedIdentity, ...]) -> str:
    """The clusters that a certificate names."""
    return " and ".join(repr(escaped(each.cluster)) for each in names)


def named(path: str, parse: Callable[[bytes], Value], data: bytes) -> Value:
    """The contents of a file, parsed; an error names the file."""
    try:
        return parse(data)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None


AUTHORITIES: Final[dict[str, type[PskAuthority | KeysAuthority | X509Authority]]] = {
    "psk": PskAuthority, "keys": KeysAuthority, "x509": X509Authority}
