"""What members of a running group offer, compared: which interfaces of a service there are, and what does not fit.

An offer has the keys of methods (interface.py), not their names. The names of those that the member which is asked
serves are known; others are shown as their keys. Two members have the same *interface* of a service if they have the
same keys; its fingerprint is a hash of these. A service fits if all that offer it have one interface: otherwise callers
find some methods at some of its members only.
"""
from __future__ import annotations

from collections.abc import Iterable, Mapping
from hashlib import blake2b
from typing import Any

from jgroups_py.blocks.service.messages import Offered

FINGERPRINT_BYTES = 4


def fingerprint(keys: Iterable[bytes]) -> str:
    """Of the methods with these keys."""
    return blake2b(b"".join(sorted(keys)), digest_size=FINGERPRINT_BYTES, person=b"jgroups-iface").hexdigest()


def compared(offers: Mapping[str, Iterable[Offered]], labels: Mapping[bytes, str]) -> list[dict[str, Any]]:
    """The services in the order of their names. offers: member -> what it offers; labels: key -> name of the method.

    Each has "name", "fits", and "interfaces", those with most members first: "fingerprint", "versions" (version -> its
    members), "methods" (how many), and "lacks": what others of the service have and these have not.
    """
    services: dict[str, dict[tuple[bytes, ...], dict[str, list[str]]]] = {}
    for member in sorted(offers):
        for offer in offers[member]:
            versions = services.setdefault(offer.name, {}).setdefault(tuple(sorted(offer.keys)), {})
            versions.setdefault(offer.version, []).append(member)
    return [service(name, interfaces, labels) for name, interfaces in sorted(services.items())]


def service(
    name: str, interfaces: Mapping[tuple[bytes, ...], Mapping[str, list[str]]], labels: Mapping[bytes, str],
) -> dict[str, Any]:
    """One service."""
    every = dict.fromkeys(key for keys in interfaces for key in keys)

    def rank(keys: tuple[bytes, ...]) -> tuple[int, str]:
        return -sum(map(len, interfaces[keys].values())), fingerprint(keys)
    return {"name": name, "fits": len(interfaces) == 1, "interfaces": [
        {"fingerprint": fingerprint(keys), "versions": dict(sorted(interfaces[keys].items())), "methods": len(keys),
         "lacks": sorted(labels.get(key, key.hex()) for key in every if key not in keys)}
        for keys in sorted(interfaces, key=rank)]}
