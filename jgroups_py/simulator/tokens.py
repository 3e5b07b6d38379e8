"""Tokens of a simulated world: an issuer that gives them, the class that checks them, and a service that may fail.

A token is NAME SITE KEY UNTIL and a tag of the issuer over that. So a check is pure: what fails, or takes long, is the
service (TokenService), as the issuer's may be that an application asks.
"""
from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any

import attrs

from jgroups_py.model.token_check import TokenCheck
from jgroups_py.model.units import NS_PER_S, millis
from jgroups_py.sealing.identities import MEMBER, RELAY, Identity
from jgroups_py.sealing.primitives import KEY_BYTES, mac, same

CHECK = "jgroups_py.simulator.tokens:VirtualTokenCheck"
CHECK_NS = millis(20)                    # how long a check takes where nothing is wrong
_ISSUER = bytes(KEY_BYTES)               # known to all, as no attacker of the simulator looks for it


def issue(identity: Identity, until_ns: int) -> bytes:
    """The token of a member, for the key of its identity, until then by the wall clock."""
    text = f"{identity.name} {identity.site or '-'} {identity.key} {until_ns // NS_PER_S}"
    return f"{text} {mac(_ISSUER, text.encode()).hex()}".encode()


class VirtualTokenCheck(TokenCheck):
    """Verifies the tokens of `issue`."""

    def check(self, token: bytes, key: str) -> Mapping[str, Any] | None:
        text, _, tag = token.decode("utf-8", "replace").rpartition(" ")
        fields = text.split(" ")
        if len(fields) != 4 or not same(mac(_ISSUER, text.encode()).hex().encode(), tag.encode()):
            return None
        name, site, bound, until = fields
        if bound != key:
            return None
        return {"name": name, "site": "" if site == "-" else site, "roles": [MEMBER, RELAY], "until": int(until)}


@attrs.define
class TokenService:
    """How checks go. until_ns: the end of an outage; failing_ratio: how many of its checks fail, the others take up to
    `slow_ns`, which may be longer than a check may take."""

    rng: Random
    until_ns: int = 0
    failing_ratio: float = 0.0
    slow_ns: int = CHECK_NS

    def draw(self, now_ns: int) -> tuple[int, bool]:
        """(how long the next check takes, whether it fails)."""
        if now_ns >= self.until_ns:
            return CHECK_NS, False
        return self.rng.randrange(CHECK_NS, self.slow_ns + CHECK_NS), self.rng.random() < self.failing_ratio
