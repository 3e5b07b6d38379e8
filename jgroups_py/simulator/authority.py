"""An authority of a simulated world, and the certificates that it gives: all follow from the seed of the world."""
from __future__ import annotations

from random import Random

import attrs

from jgroups_py.sealing.certificate_authority import SERIAL_BYTES, new_authority, parse_request, sign_request
from jgroups_py.sealing.certificates import (
    CertifiedIdentity,
    identity_uri,
    names_of,
    new_certificate_key,
    parse_certificates,
)
from jgroups_py.sealing.primitives import KEY_BYTES

BRIDGE = "bridge"
DAYS = 30


@attrs.frozen
class CertifiedMember:
    """A member with a certificate. file: its own file; identity: in its local group."""

    identity: CertifiedIdentity
    file: bytes = attrs.field(repr=False)


class VirtualAuthority:
    """certificate: its own, in PEM. name: two of one world have different ones, and different keys."""

    def __init__(self, seed: str, name: str, wall_ns: int) -> None:
        self.seed, self.wall_ns = f"{seed}/{name}", wall_ns
        self._key, self.certificate = new_authority(Random(f"{self.seed}/authority").randbytes(KEY_BYTES), name,
                                                    wall_ns, DAYS)

    def member(
        self, name: str, site: str, roles: tuple[str, ...], *, cluster: str = "", until_ns: int = 0,
    ) -> CertifiedMember:
        """A member's own file, with a certificate that counts until then, by the wall clock. cluster: another one than
        its local group's and the bridge's."""
        clusters = (cluster,) if cluster else (f"group of {site}", BRIDGE) if site else ("demo",)
        rng = Random(f"{self.seed}/member/{name}")
        key = new_certificate_key(rng.randbytes(KEY_BYTES))
        request = parse_request(key.request([identity_uri(cluster, name, site) for cluster in clusters]).encode())
        pem = sign_request(self._key, parse_certificates(self.certificate.encode())[0], request, roles,
                           rng.randbytes(SERIAL_BYTES), self.wall_ns, until_ns or self.wall_ns + DAYS * 86400 * 10**9)
        return CertifiedMember(names_of(parse_certificates(pem.encode())[0])[0], (key.pem() + pem).encode())
