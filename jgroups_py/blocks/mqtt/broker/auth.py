"""Passwords and access control from text files, or from a function of the application.

Passwords are kept as scrypt hashes (RFC 7914), one user a line:

    alice:scrypt:16384:8:1:SALT:HASH                     salt and hash in hexadecimal

To check one costs some 50 ms of processor time on purpose, so a right password is remembered by a cheap keyed digest:
a client that reconnects costs nothing, one that guesses pays each time.

Rules are tried from top to bottom, the first that fits decides, and if none fits the answer is no:

    allow alice publish sensors/alice/#                  user, or * for all, or ? for those without a name
    deny  *     subscribe private/#
    allow *     both %u/#                                %u: the user name, %c: the client id, each a whole level

A filter that is subscribed fits a rule's filter if all topics that it matches do (`a/+` fits `a/#`); it fits that of a
`deny` rule if any topic does.
"""
from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Mapping

import attrs

from jgroups_py.blocks.mqtt.broker.ports import Access
from jgroups_py.blocks.mqtt.codec.packets import ConnectPacket, ReasonCode
from jgroups_py.blocks.mqtt.codec.text import topic_filter_fault

COST = (16_384, 8, 1)
MAX_COST = (1 << 17, 16, 4)
MAX_REMEMBERED = 10_000


class AuthFileError(ValueError):
    """A line of a password or rule file is wrong; names the line and what is allowed."""


@attrs.frozen
class HashedPassword:
    """A scrypt hash with its parameters."""

    cost: tuple[int, int, int]                           # n, r, p
    salt: bytes
    hash: bytes

    def fits(self, password: bytes) -> bool:
        """Whether it is the password's; takes about 50 ms."""
        return hmac.compare_digest(_scrypt(password, self.salt, self.cost), self.hash)


@attrs.frozen
class FastPassword:
    """A password as other brokers' files have it. kind: plain, md5 or sha256; value: the password, or its hash in hex.

    Hashes without salt that are made in a microsecond are no protection of a file that is stolen.
    """

    kind: str
    value: bytes

    def fits(self, password: bytes) -> bool:
        """Whether it is the password's."""
        own = password if self.kind == "plain" else hashlib.new(
            self.kind, password, usedforsecurity=False).hexdigest().encode()
        return hmac.compare_digest(own, self.value)


Password = HashedPassword | FastPassword
NOT_A_USER = HashedPassword(COST, bytes(16), bytes(32))


def hash_password(password: bytes, salt: bytes) -> str:
    """What stands behind "user:" in the file. salt: 16 random bytes."""
    n, r, p = COST
    return f"scrypt:{n}:{r}:{p}:{salt.hex()}:{_scrypt(password, salt, COST).hex()}"


def read_passwords(text: str) -> dict[str, HashedPassword]:
    """User -> hash of a file. Raises AuthFileError."""
    found = {}
    for number, line in _lines(text):
        user, *parts = line.split(":")
        try:
            kind, n, r, p, salt, hashed = parts
            made = HashedPassword((int(n), int(r), int(p)), bytes.fromhex(salt), bytes.fromhex(hashed))
        except ValueError:
            raise AuthFileError(f"line {number}: USER:scrypt:N:R:P:SALT:HASH is wanted") from None
        if kind != "scrypt" or not user or not made.hash or any(
                not 1 <= each <= most for each, most in zip(made.cost, MAX_COST, strict=True)):
            raise AuthFileError(f"line {number}: a user, scrypt, and N, R, P of at most {MAX_COST} are wanted")
        if user in found:
            raise AuthFileError(f"line {number}: user {user!r} again")
        found[user] = made
    return found


@attrs.frozen
class AccessRule:
    """One line of a rule file. user: "*" for all, "?" for clients without a user name; access: None for both."""

    allows: bool
    user: str
    access: Access | None
    levels: tuple[str, ...]

    def decides(self, client_id: str, username: str | None, access: Access, topic: tuple[str, ...]) -> bool:
        """Whether the rule speaks of this."""
        if self.access not in (None, access) or self.user not in ("*", "?" if username is None else username):
            return False
        own = []
        for level in self.levels:
            # A name with a wildcard or a slash in it would open what is not its own.
            name = {"%u": username or "", "%c": client_id}.get(level, level)
            if level in ("%u", "%c") and (not name or any(each in name for each in "/+#")):
                return False
            own.append(name)
        return covers(own, topic) if self.allows else overlaps(own, topic)


def covers(rule: list[str], filter: tuple[str, ...]) -> bool:
    """Whether all topics of a filter match the rule's. A wildcard in the first level matches no "$" topic (4.7.2).

    >>> covers(["a", "#"], ("a", "+")), covers(["a", "+"], ("a", "#")), covers(["#"], ("$SYS", "x"))
    (True, False, False)
    """
    if rule[0] in ("+", "#") and filter[0].startswith("$"):
        return False
    if rule == ["+", "#"]:
        return True                                      # every topic has a first level
    for at, level in enumerate(rule):
        if level == "#":
            return True
        if at >= len(filter) or filter[at] == "#" or (level != "+" and level != filter[at]):
            return False
    return len(rule) == len(filter)


def overlaps(rule: list[str], filter: tuple[str, ...]) -> bool:
    """Whether some topic matches both.

    >>> overlaps(["a", "b"], ("a", "+")), overlaps(["a", "b"], ("#",)), overlaps(["a", "b"], ("a",))
    (True, True, False)
    """
    wild = ("+", "#")
    if (rule[0] in wild and filter[0].startswith("$")) or (filter[0] in wild and rule[0].startswith("$")):
        return False
    for at, level in enumerate(rule):
        if level == "#":
            return True
        if at >= len(filter):
            return False
        if filter[at] == "#":
            return True
        if level != filter[at] and level != "+" and filter[at] != "+":
            return False
    return len(filter) == len(rule) or filter[len(rule):] == ("#",)


def read_rules(text: str) -> list[AccessRule]:
    """The rules of a file, in order. Raises AuthFileError."""
    found = []
    accesses = {"publish": Access.PUBLISH, "subscribe": Access.SUBSCRIBE, "both": None}
    for number, line in _lines(text):
        parts = line.split(None, 3)
        if len(parts) != 4 or parts[0] not in ("allow", "deny") or parts[2] not in accesses:
            raise AuthFileError(f"line {number}: allow|deny USER publish|subscribe|both FILTER is wanted")
        fault = topic_filter_fault(parts[3])
        if fault:
            raise AuthFileError(f"line {number}: filter: {fault}")
        found.append(AccessRule(parts[0] == "allow", parts[1], accesses[parts[2]], tuple(parts[3].split("/"))))
    return found


class FileAuthorizer:
    """By the content of files. passwords: None lets everybody in; rules: None allows everything."""

    def __init__(
        self, passwords: Mapping[str, Password] | None, rules: list[AccessRule] | None, key: bytes,
        allow_anonymous: bool = False,
    ) -> None:
        self.passwords = passwords
        self.rules = rules
        self.allow_anonymous = allow_anonymous
        self._key = key                                  # random bytes: of the digests that are remembered
        self._right: dict[str, bytes] = {}
        self._verdicts: dict[bytes, bool] = {}           # digest -> what a thread found out

    def work(self, connect: ConnectPacket) -> Callable[[], bool] | None:
        """The comparison, for a thread (see SlowAuthorizer). A user that does not exist takes as long."""
        user, password = connect.username, connect.password or b""
        if self.passwords is None or user is None:
            return None
        if hmac.compare_digest(self._right.get(user, b""), self._digest(user, password)):
            return None
        known = self.passwords.get(user, NOT_A_USER)
        if isinstance(known, FastPassword):
            return None
        return lambda: known.fits(password)

    def worked(self, connect: ConnectPacket, result: object) -> None:
        """What the thread found out."""
        self._verdicts[self._digest(connect.username or "", connect.password or b"")] = result is True

    def authenticate(self, connect: ConnectPacket, peer: str) -> ReasonCode:
        """Compare name and password."""
        if self.passwords is None or (connect.username is None and self.allow_anonymous):
            return ReasonCode.SUCCESS
        user, password = connect.username, connect.password or b""
        digest = self._digest(user or "", password)
        verdict = self._verdicts.pop(digest, None)
        known = None if user is None else self.passwords.get(user)
        if user is None or known is None:
            return ReasonCode.BAD_USER_NAME_OR_PASSWORD
        if hmac.compare_digest(self._right.get(user, b""), digest):
            return ReasonCode.SUCCESS
        if not (known.fits(password) if verdict is None else verdict):
            return ReasonCode.BAD_USER_NAME_OR_PASSWORD
        if len(self._right) < MAX_REMEMBERED:
            self._right[user] = digest
        return ReasonCode.SUCCESS

    def _digest(self, user: str, password: bytes) -> bytes:
        return hmac.digest(self._key, user.encode() + b"\0" + password, "sha256")

    def may(self, client_id: str, username: str | None, access: Access, topic: str) -> bool:
        """What the first rule that fits says."""
        if self.rules is None:
            return True
        levels = tuple(topic.split("/"))
        return next((rule.allows for rule in self.rules if rule.decides(client_id, username, access, levels)), False)


class CallableAuthorizer:
    """By functions of the application, with the arguments of Authorizer. None: everything is allowed."""

    def __init__(
        self, authenticate: Callable[[ConnectPacket, str], ReasonCode] | None = None,
        may: Callable[[str, str | None, Access, str], bool] | None = None,
    ) -> None:
        self._authenticate = authenticate
        self._may = may

    def authenticate(self, connect: ConnectPacket, peer: str) -> ReasonCode:
        return ReasonCode.SUCCESS if self._authenticate is None else self._authenticate(connect, peer)

    def may(self, client_id: str, username: str | None, access: Access, topic: str) -> bool:
        return self._may is None or self._may(client_id, username, access, topic)


def _scrypt(password: bytes, salt: bytes, cost: tuple[int, int, int]) -> bytes:
    n, r, p = cost
    return hashlib.scrypt(password, salt=salt, n=n, r=r, p=p, dklen=32, maxmem=128 * r * (n + p + 2) * 2)


def _lines(text: str) -> list[tuple[int, str]]:
    """(number, line) without comments and empty lines."""
    return [(number, line.strip()) for number, line in enumerate(text.splitlines(), 1)
            if line.strip() and not line.lstrip().startswith("#")]
