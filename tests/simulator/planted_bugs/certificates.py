"""Safeguards of certificates and roles, shown by profile certificates."""
from __future__ import annotations

from collections.abc import Sequence

import attrs
from cryptography import x509

from jgroups_py.model.address import Address
from jgroups_py.protocols.auth import authorities
from jgroups_py.protocols.auth.authorities import X509Authority
from jgroups_py.protocols.relay.protocol import Relay
from jgroups_py.sealing.certificates import NS, Authorities, CertifiedIdentity, names_of, ns_of
from jgroups_py.sealing.identities import Identity
from tests.simulator.planted_bugs.safeguard import Patch, Safeguard

verified, counts = Authorities.verified, X509Authority.counts
FOR_EVER_NS = 1 << 61


def of_anybody(self: Authorities, chain: Sequence[bytes], wall_ns: int) -> tuple[CertifiedIdentity, ...]:
    """Names and times are read, and the chain is not verified."""
    found = x509.load_der_x509_certificate(chain[0])
    return tuple(attrs.evolve(name, chain=tuple(chain), not_before_ns=ns_of(found.not_valid_before_utc),
                              not_after_ns=ns_of(found.not_valid_after_utc)) for name in names_of(found))


def at_any_time(self: Authorities, chain: Sequence[bytes], wall_ns: int) -> tuple[CertifiedIdentity, ...]:
    """A chain counts if it did when its first certificate ended."""
    found = x509.load_der_x509_certificate(chain[0])
    then = verified(self, chain, ns_of(found.not_valid_after_utc) - NS)
    return tuple(attrs.evolve(name, not_after_ns=FOR_EVER_NS) for name in then)


def any_cluster(self: X509Authority, chain: tuple[bytes, ...]) -> Identity | str:
    """The first name counts, whatever its cluster."""
    mine = self.cluster
    names = names_of(x509.load_der_x509_certificate(chain[0]))
    try:
        self.cluster = names[0].cluster
        return counts(self, chain)
    finally:
        self.cluster = mine


def any_signature(chain: Sequence[bytes], signature: bytes, text: bytes) -> None:
    """A certificate is enough, without its key."""


def for_ever(self: X509Authority, identity: Identity) -> str:
    """Who was let in stays."""
    return ""


def any_order(self: Relay, member: Address) -> str:
    """Orders of all members are obeyed."""
    return ""


CERTIFICATE_SAFEGUARDS = (
    Safeguard("certificates are of an authority", "AUTH", "the chain of a certificate is not verified",
              (Patch(Authorities, "verified", of_anybody),), "certificates", "K4"),
    Safeguard("certificates expire", "AUTH", "their times are not looked at",
              (Patch(Authorities, "verified", at_any_time),), "certificates", "K4"),
    Safeguard("certificates are for a cluster", "AUTH", "one for another cluster counts",
              (Patch(X509Authority, "counts", any_cluster),), "certificates", "K4"),
    Safeguard("a certificate is proven", "AUTH", "a certificate is enough, without its private key",
              (Patch(authorities, "verify_certified", any_signature),), "certificates", "K4"),
    Safeguard("members are verified again", "AUTH", "revocation and expiry count for newcomers only",
              (Patch(X509Authority, "revoked", for_ever),), "certificates", "K4"),
    Safeguard("orders are of operators", "roles", "orders of all members are obeyed",
              (Patch(Relay, "operator_refusal", any_order),), "certificates", "K2"),
)
