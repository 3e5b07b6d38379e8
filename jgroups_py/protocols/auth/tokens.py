"""Authority "token": the application checks tokens and returns their identities, off the loop and within a budget.

A member sends its token and the public key of its own file, which the token must name, and signs the exchange with that
key. So a token alone is of no use. The signature is verified first; only then the application is called, on another
thread, for a few tokens at a time and per second. Meanwhile the exchange waits: frames that are held of the sender stay
held, and the sender is challenged again when the verdict is there. Verdicts are remembered.
"""
from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import attrs

from jgroups_py.model.errors import ConfigError, WireError
from jgroups_py.model.plugins import plugin
from jgroups_py.model.ports import WAITING
from jgroups_py.model.secrets import Secrets
from jgroups_py.model.text import escaped
from jgroups_py.model.token_check import ENTRY_POINTS, MAX_TOKEN_BYTES, TokenCheck
from jgroups_py.model.units import seconds
from jgroups_py.protocols.auth.authorities import NOT_PROVEN, Authority, named
from jgroups_py.protocols.auth.config import AuthConfig
from jgroups_py.sealing.identities import (
    MEMBER,
    Identity,
    RevokedKeys,
    checked_identity,
    key_text,
    parse_identity,
    parse_revoked_keys,
)
from jgroups_py.sealing.primitives import PUBLIC_BYTES, digest, verify

MAX_WAITING: Final = 16                  # tokens that the application checks at a time
CHECKS_A_SECOND: Final = 20
MAX_VERDICTS: Final = 4000               # that are remembered; the oldest are forgotten
REFUSED_NS: Final = seconds(5)           # for which a refusal is remembered
VERDICT_NS: Final = seconds(3600)        # for which an identity is remembered whose token has no end
BUSY: Final = "too many tokens are being checked"


@attrs.frozen
class TokenIdentity(Identity):
    """until_ns: when the verdict ends, by the wall clock; token: the digest of token and key."""

    until_ns: int = 0
    token: bytes = attrs.field(default=b"", repr=False)


@attrs.define
class Verdict:
    """identity: None: refused, for `reason`; until_ns: how long this counts, again_ns: from when on the application is
    asked again, both by the wall clock."""

    identity: TokenIdentity | None
    reason: str
    until_ns: int
    again_ns: int


class TokenAuthority(Authority):
    """See the module. asked: digest of each token that is being checked -> since when; to_ask: checks that AUTH has
    still to start."""

    def __init__(self, config: AuthConfig, secrets: Secrets, name: str) -> None:
        plugin(config.check, ENTRY_POINTS, TokenCheck)
        self._token, self._revoked = config.token, config.revoked
        own = named(config.identity, parse_identity, secrets.file(config.identity, "identity", private=True))
        self._signer, self.own = own.signer, own.identity
        self.files = ((config.token, "token", True), *([(config.revoked, "revoked keys", False)] if config.revoked
                                                       else []))
        self.denied = RevokedKeys()
        self.wall_ns = 0
        self.verdicts: dict[bytes, Verdict] = {}
        self.asked: dict[bytes, int] = {}
        self.to_ask: list[tuple[bytes, bytes, str]] = []
        self.second = self.checks = 0
        for path, what, private in self.files:
            self.changed(path, secrets.file(path, what, private=private))

    def changed(self, path: str, data: bytes) -> None:
        if path == self._token:
            if not 0 < len(data) <= MAX_TOKEN_BYTES:
                raise ConfigError(f"{path}: a token has 1 to {MAX_TOKEN_BYTES} bytes, not {len(data)}")
            self.token = data.rstrip(b"\r\n")
        else:
            self.denied = named(path, parse_revoked_keys, data)

    def clock(self, wall_ns: int) -> str:
        self.wall_ns = wall_ns
        return ""

    def credential(self) -> bytes:
        return self._signer.public + self.token

    def prove(self, transcript: bytes) -> bytes:
        return self._signer.sign(transcript)

    def verify(self, credential: bytes, proof: bytes, transcript: bytes) -> Identity | str:
        public, token = credential[:PUBLIC_BYTES], credential[PUBLIC_BYTES:]
        if not self.wall_ns:
            return "the time is not known yet"
        if not 0 < len(token) <= MAX_TOKEN_BYTES:
            return "it shows no token, or one that is too long"
        try:
            verify(public, proof, transcript)
        except WireError:
            return NOT_PROVEN
        if key_text(public) in self.denied:
            return f"key {key_text(public)} is revoked"
        which = digest(credential)
        verdict = self.verdicts.get(which)
        if verdict is None or self.wall_ns >= verdict.until_ns:
            return self.ask(which, token, key_text(public))
        if verdict.identity is not None and self.wall_ns >= verdict.again_ns and which not in self.asked:
            # Ask again in time: a token that still counts must not end at every member at once.
            verdict.again_ns = self.wall_ns + max((verdict.until_ns - self.wall_ns) // 10, seconds(1))
            found = self.ask(which, token, key_text(public))
            if found == WAITING:
                return WAITING
        return verdict.identity or verdict.reason

    def ask(self, which: bytes, token: bytes, key: str) -> str:
        """Have the application check a token, if fewer than MAX_WAITING are being checked."""
        if which in self.asked:
            return WAITING
        second = self.wall_ns // seconds(1)
        if second != self.second:
            self.second, self.checks = second, 0
        if len(self.asked) >= MAX_WAITING or self.checks >= CHECKS_A_SECOND:
            return BUSY
        self.checks += 1
        self.asked[which] = self.wall_ns
        self.to_ask.append((which, token, key))
        return WAITING

    def decided(self, which: bytes, key: str, answer: Mapping[str, Any] | None, problem: str) -> None:
        """The application has checked a token, or could not."""
        if self.asked.pop(which, None) is None:
            return
        former = self.verdicts.get(which)
        if problem and former is not None and former.identity is not None and self.wall_ns < former.until_ns:
            return                               # the application could not decide: what it said before still counts
        identity, reason = None, problem or "its token is refused"
        until_ns = self.wall_ns + REFUSED_NS
        if answer is not None:
            try:
                identity, until_ns = self.identity_of(which, key, answer)
            except ConfigError as error:
                reason = str(error)
        if len(self.verdicts) >= MAX_VERDICTS:
            del self.verdicts[next(iter(self.verdicts))]
        self.verdicts[which] = Verdict(identity, reason, until_ns, (self.wall_ns + until_ns) // 2)

    def identity_of(self, which: bytes, key: str, answer: Mapping[str, Any]) -> tuple[TokenIdentity, int]:
        """The identity in an answer of the application, and until when it counts.

        Raises:
            ConfigError: the answer is malformed, or over.
        """
        until = answer.get("until", self.wall_ns / seconds(1) + VERDICT_NS / seconds(1))
        if isinstance(until, bool) or not isinstance(until, int | float) or not 0 <= until < 1 << 40:
            raise ConfigError(f"until is in seconds since 1970, not {until!r}")
        until_ns = min(int(until * seconds(1)), self.wall_ns + VERDICT_NS)
        if until_ns <= self.wall_ns:
            raise ConfigError("its token has expired")
        found = checked_identity(answer.get("name"), answer.get("site", ""), answer.get("roles", [MEMBER]), key,
                                 "the answer about its token")
        return TokenIdentity(found.name, found.site, found.roles, key, until_ns, which), until_ns

    def ends_ns(self, identity: Identity) -> int | None:
        assert isinstance(identity, TokenIdentity), "verify made it"
        return identity.until_ns

    def revoked(self, identity: Identity) -> str:
        assert isinstance(identity, TokenIdentity), "verify made it"
        if identity.key in self.denied:
            return f"the key of {escaped(str(identity))} is revoked"
        # An hour after it was checked a token must be shown again: it may have been withdrawn.
        return "" if self.wall_ns < identity.until_ns else "its token has expired, or is to be checked again"
