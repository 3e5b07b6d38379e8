"""A small certificate authority: it signs certificates for requests, and lists of those that it revoked."""
from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Final

from jgroups_py.model.errors import ConfigError
from jgroups_py.sealing.certificates import (
    MALFORMED,
    NS,
    CertificateKey,
    identity_uri,
    names_of,
    new_certificate_key,
    ns_of,
    time_of,
)
from jgroups_py.sealing.primitives import digest

try:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID
except ImportError:                                          # `require_library` reports it where keys are needed
    x509 = None                                              # type: ignore[assignment]

BACKDATED: Final = timedelta(minutes=5)
"""A certificate is valid from this long before it is made, as clocks of hosts differ."""
DAY_NS: Final = 86400 * NS
SERIAL_BYTES: Final = 19                 # of a serial number, which RFC 5280 bounds to 20


def new_authority(seed: bytes, name: str, wall_ns: int, days: int) -> tuple[CertificateKey, str]:
    """A new authority: its key, and its certificate in PEM, signed by itself."""
    key = new_certificate_key(seed)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    made = _certificate(subject, subject, key.public, digest(seed), wall_ns, wall_ns + days * DAY_NS)
    made = made.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    made = made.add_extension(x509.KeyUsage(
        digital_signature=False, content_commitment=False, key_encipherment=False, data_encipherment=False,
        key_agreement=False, key_cert_sign=True, crl_sign=True, encipher_only=False, decipher_only=False),
        critical=True)
    made = made.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public), critical=False)
    return key, key.certificate(made)


def parse_request(pem: bytes) -> x509.CertificateSigningRequest:
    """A request for a certificate, which its own key has signed.

    Raises:
        ConfigError: it is malformed, or not signed by its key, or its key is of another kind.
    """
    try:
        found = x509.load_pem_x509_csr(pem)
        valid = found.is_signature_valid
        public = found.public_key()
    except MALFORMED:
        raise ConfigError("not a request for a certificate in PEM (jgroups keys request makes one)") from None
    if not valid or not isinstance(public, ec.EllipticCurvePublicKey) or not isinstance(public.curve, ec.SECP256R1):
        raise ConfigError("the request is not signed by its own key of ECDSA P-256")
    return found


def sign_request(
    authority: CertificateKey, certificate: x509.Certificate, request: x509.CertificateSigningRequest,
    roles: Iterable[str], serial: bytes, wall_ns: int, until_ns: int,
) -> str:
    """The certificate, in PEM, that an authority signs for a request, with roles of its choice. serial: random bytes;
    wall_ns, until_ns: now and when it ends, by the wall clock, to the second.

    Raises:
        ConfigError: the request has no name of a member.
    """
    uris = [identity_uri(each.cluster, each.name, each.site, roles) for each in names_of(request)]
    made = _certificate(x509.Name([]), certificate.subject, request.public_key(), serial, wall_ns, until_ns)
    made = made.add_extension(x509.SubjectAlternativeName([x509.UniformResourceIdentifier(uri) for uri in uris]),
                              critical=True)
    made = made.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    made = made.add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.public), critical=False)
    return authority.certificate(made)


def parse_list(data: bytes) -> dict[int, int]:
    """The entries of a list of revoked certificates (CRL, PEM), without a check of its signature: serial number -> when
    it was revoked, in ns since 1970.

    Raises:
        ConfigError: it is malformed.
    """
    try:
        return {each.serial_number: ns_of(each.revocation_date_utc) for each in x509.load_pem_x509_crl(data)}
    except MALFORMED:
        raise ConfigError("not a list of revoked certificates (CRL) in PEM") from None


def sign_list(authority: CertificateKey, certificate: x509.Certificate, serials: Iterable[int], wall_ns: int,
              days: int) -> str:
    """A list of revoked certificates (CRL) in PEM."""
    made = x509.CertificateRevocationListBuilder().issuer_name(certificate.subject).last_update(
        time_of(wall_ns) - BACKDATED).next_update(time_of(wall_ns) + timedelta(days=days))
    for serial in sorted(set(serials)):
        made = made.add_revoked_certificate(x509.RevokedCertificateBuilder().serial_number(serial).revocation_date(
            time_of(wall_ns)).build())
    return authority.revocations(made)


def _certificate(subject: x509.Name, issuer: x509.Name, public: object, serial: bytes, wall_ns: int,
                 until_ns: int) -> x509.CertificateBuilder:
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer)
    return (builder.public_key(public)                       # type: ignore[arg-type]
            .serial_number(1 + int.from_bytes(serial[:SERIAL_BYTES], "big")).not_valid_before(
                min(time_of(wall_ns), time_of(until_ns)) - BACKDATED)
            .not_valid_after(time_of(until_ns)))
