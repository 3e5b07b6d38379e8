"""Addresses: the identity of a member (a 128-bit UUID and a logical name) and its place (an IP address and port).

An Address is one *incarnation* of a member: every connect makes a new one. The logical name travels with views and
is not part of its identity. A ProxyUUID stands for a member of another site; it equals and hashes as the original,
so that an application may keep either in a dict. Source: JGroups UUID.java and, for ProxyUUID, RELAY.txt.
"""
from __future__ import annotations

from functools import lru_cache
from hashlib import blake2b
from typing import Any, Self

ADDRESS_BYTES = 16
SITE_DIGEST_BYTES = 6
"""The address of a member with RELAY ends with so many bytes that name its site; the others are random."""

PhysicalAddress = tuple[str, int]
"""Where a member receives: (IP address, port)."""


@lru_cache(maxsize=1024)
def site_digest(site: str) -> bytes:
    """How the addresses of a site's members end."""
    return blake2b(site.encode(), digest_size=SITE_DIGEST_BYTES).digest()


class Address(int):
    """A member's identity: 16 bytes, ordered by value, with the logical name where it is known. They are random, but
    with RELAY the last SITE_DIGEST_BYTES follow from the name of the site.

    An int, so that the dicts that every layer keeps by address hash and compare without a call into Python.
    """

    raw: bytes
    name: str

    def __new__(cls, raw: bytes, name: str = "") -> Self:
        assert len(raw) == ADDRESS_BYTES, "an address has 16 bytes"
        self = super().__new__(cls, int.from_bytes(raw, "big"))
        self.raw = raw
        self.name = name
        return self

    def __bool__(self) -> bool:
        return True

    def __str__(self) -> str:
        return self.name or self.raw.hex()[:8]

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self} {self.raw.hex()[:8]}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return (Address, (self.raw, self.name))


class ProxyUUID(Address):
    """A member of another site, seen from here; equals and hashes as `original`.

    original: the address of the member itself; relay: the local relay that brought the message, None where the
    proxy comes from a global view; site: the name of the member's site.
    """

    original: Address
    relay: Address | None
    site: str

    def __new__(cls, original: Address, relay: Address | None, site: str) -> Self:
        self = super().__new__(cls, original.raw, original.name)
        self.original = original
        self.relay = relay
        self.site = site
        return self

    def __str__(self) -> str:
        return f"{self.name or self.raw.hex()[:8]}@{self.site}"

    def __reduce__(self) -> tuple[Any, ...]:
        return (ProxyUUID, (self.original, self.relay, self.site))
