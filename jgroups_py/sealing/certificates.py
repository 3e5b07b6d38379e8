"""Certificates of members (X.509): which cluster, site and member one names, and whether a chain is valid.

**The name** is a URI among the subject's alternative names, one for each cluster that the member is in (the bridge of
sites is a cluster too), each part percent-encoded; a site that does not count is empty:

    jgroups://CLUSTER/SITE/MEMBER?roles=member,relay

Without `roles` it is a member only. A member's key is of ECDSA P-256: the verification of chains of `cryptography`
admits no Ed25519 (design/decisions/0020). Authorities may have keys of ECDSA (P-256, P-384, P-521) or RSA.

**A member's own file** (mode 0600) has its private key, its certificate, then those of intermediate authorities, in
PEM. **The authorities' file** has their certificates in PEM. **Revoked** certificates are in lists signed by an
authority of that file (CRL, PEM); keys may be revoked too (identities.py). Sources: RFC 5280; the form of the name
follows SPIFFE's IDs.
"""
from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final
from urllib.parse import parse_qs, quote, unquote, urlsplit

import attrs

from jgroups_py.model.errors import ConfigError, WireError
from jgroups_py.model.text import escaped
from jgroups_py.sealing.identities import MEMBER, Identity, checked_identity
from jgroups_py.sealing.primitives import KEY_BYTES, NOT_VERIFIED, digest

try:
    from cryptography import x509
    from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature, encode_dss_signature
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        NoEncryption,
        PrivateFormat,
        PublicFormat,
        load_pem_private_key,
    )
    from cryptography.x509.verification import PolicyBuilder, Store, VerificationError
except ImportError:                                          # `require_library` reports it where keys are needed
    x509 = None                                              # type: ignore[assignment]
    MALFORMED: tuple[type[Exception], ...] = (ValueError,)
    UNNAMED = SIGNED_BY_ANOTHER = MALFORMED
else:
    MALFORMED = (ValueError, TypeError, UnsupportedAlgorithm, x509.InvalidVersion, Warning)
    UNNAMED = (*MALFORMED, x509.ExtensionNotFound, x509.DuplicateExtension, x509.UnsupportedGeneralNameType)
    SIGNED_BY_ANOTHER = (*MALFORMED, InvalidSignature)

SCHEME: Final = "jgroups"
MOST_CERTIFICATES: Final = 4             # of a chain that is shown, the member's own included
MOST_CLUSTERS: Final = 8                 # that one certificate names
MOST_SERIALS: Final = 1 << 16            # of a list of revoked certificates
HALF: Final = 32                         # bytes of each of the two numbers of a signature
NS: Final = 1_000_000_000
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_PRIVATE_KEY: Final = re.compile(rb"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?-----END [A-Z ]*PRIVATE KEY-----", re.DOTALL)
_LENGTH: Final = struct.Struct(">H")
_MOST_P256: Final = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551


@attrs.frozen
class CertifiedIdentity(Identity):
    """The identity that a certificate has in one cluster. not_before_ns, not_after_ns: when the whole chain is valid,
    in ns since 1970; chain: its certificates in DER, the member's own first."""

    cluster: str = ""
    not_before_ns: int = 0
    not_after_ns: int = 0
    chain: tuple[bytes, ...] = attrs.field(default=(), repr=False)


class CertificateKey:
    """A private key of ECDSA P-256, of a member or an authority; not shown."""

    __slots__ = ("_key", "public")

    def __init__(self, key: ec.EllipticCurvePrivateKey) -> None:
        self._key = key
        self.public = key.public_key()

    def __repr__(self) -> str:
        return "<CertificateKey>"

    def sign(self, text: bytes) -> bytes:
        """The signature of a text, 64 bytes; the same for the same text (RFC 6979), so that it needs no entropy."""
        first, second = decode_dss_signature(self._key.sign(text, ec.ECDSA(SHA256(), deterministic_signing=True)))
        return first.to_bytes(HALF, "big") + second.to_bytes(HALF, "big")

    def pem(self) -> str:
        """PKCS #8, not encrypted. This is secret."""
        return self._key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()

    def certificate(self, made: x509.CertificateBuilder) -> str:
        """A certificate that this key signs, in PEM."""
        return made.sign(self._key, SHA256(), ecdsa_deterministic=True).public_bytes(Encoding.PEM).decode()

    def revocations(self, made: x509.CertificateRevocationListBuilder) -> str:
        """A list of revoked certificates that this key signs, in PEM."""
        return made.sign(self._key, SHA256(), ecdsa_deterministic=True).public_bytes(Encoding.PEM).decode()

    def request(self, uris: Iterable[str]) -> str:
        """A request for a certificate with these names (PKCS #10, PEM), which holds nothing secret."""
        names = x509.SubjectAlternativeName([x509.UniformResourceIdentifier(uri) for uri in uris])
        made = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([])).add_extension(names, critical=True)
        return made.sign(self._key, SHA256(), ecdsa_deterministic=True).public_bytes(Encoding.PEM).decode()


def new_certificate_key(seed: bytes) -> CertificateKey:
    """The key that follows from `seed`, 32 random bytes."""
    assert len(seed) == KEY_BYTES, "P-256 takes 32 bytes"
    return CertificateKey(ec.derive_private_key(1 + int.from_bytes(seed, "big") % (_MOST_P256 - 1), ec.SECP256R1()))


# --- names ------------------------------------------------------------------------------------------------------------

def identity_uri(cluster: str, name: str, site: str = "", roles: Iterable[str] = (MEMBER,)) -> str:
    """The name of a member in a certificate.

    Raises:
        ConfigError: a name or role that is not allowed.
    """
    checked_identity(cluster, "", [MEMBER], "", "cluster")
    checked = checked_identity(name, site, tuple(roles), "", "certificate")
    parts = "/".join(quote(part, safe="") for part in (cluster, checked.site, checked.name))
    return f"{SCHEME}://{parts}?roles={','.join(checked.roles)}"


def parse_uri(uri: str, key: str) -> CertifiedIdentity:
    """The identity in a name of a certificate.

    Raises:
        ConfigError: it has another form.
    """
    form = f'a name of a certificate has the form "{SCHEME}://CLUSTER/SITE/MEMBER?roles=member,relay"'
    try:
        found = urlsplit(uri)
        path = found.path.split("/")
        query = parse_qs(found.query, keep_blank_values=True, max_num_fields=1)
    except ValueError:
        raise ConfigError(f"{form}, not {escaped(uri)!r}") from None
    if found.scheme != SCHEME or len(path) != 3 or path[0] or found.fragment or set(query) - {"roles"}:
        raise ConfigError(f"{form}, not {escaped(uri)!r}")
    cluster, site, name = (unquote(part) for part in (found.netloc, path[1], path[2]))
    checked_identity(cluster, "", [MEMBER], "", form)
    roles = query.get("roles", [MEMBER])[-1].split(",")
    checked = checked_identity(name, site, roles, key, form)
    return CertifiedIdentity(checked.name, checked.site, checked.roles, key, cluster)


def key_text_of(public: object) -> str:
    """The text of a public key that is not Ed25519, as in files and reports."""
    der = public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)   # type: ignore[attr-defined]
    return f"sha256:{digest(der).hex()}"


def names_of(certificate: x509.Certificate | x509.CertificateSigningRequest) -> tuple[CertifiedIdentity, ...]:
    """The identities in a certificate, or in a request for one; names of other forms are ignored.

    Raises:
        ConfigError: none, too many, or one of another form.
    """
    try:
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        uris = found.get_values_for_type(x509.UniformResourceIdentifier)
        key = key_text_of(certificate.public_key())
    except UNNAMED:
        uris, key = [], ""
    named = [uri for uri in uris if uri.startswith(f"{SCHEME}:")]
    if not 0 < len(named) <= MOST_CLUSTERS:
        raise ConfigError(f"it has {len(named)} names {SCHEME}://CLUSTER/SITE/MEMBER; it must have 1 to "
                          f"{MOST_CLUSTERS}")
    return tuple(parse_uri(uri, key) for uri in named)


# --- files ------------------------------------------------------------------------------------------------------------

@attrs.frozen
class OwnCertificate:
    """The contents of a member's own file. names: the identities in its certificate; chain: in DER, its own first."""

    names: tuple[CertifiedIdentity, ...]
    signer: CertificateKey = attrs.field(repr=False, eq=False)
    chain: tuple[bytes, ...] = attrs.field(repr=False)
    not_before_ns: int
    not_after_ns: int


def certificate_key_of(pem: bytes) -> CertificateKey:
    """The private key in a PEM text. No error shows a part of it.

    Raises:
        ConfigError: there is none, or another one than ECDSA P-256.
    """
    found = _PRIVATE_KEY.search(pem)
    try:
        key = load_pem_private_key(found.group(0), None) if found else None
    except MALFORMED:
        key = None
    if not isinstance(key, ec.EllipticCurvePrivateKey) or not isinstance(key.curve, ec.SECP256R1):
        raise ConfigError("it must have a private key of ECDSA P-256, in PEM, not encrypted (jgroups keys request "
                          "makes one)")
    return CertificateKey(key)


def parse_certificates(data: bytes) -> list[x509.Certificate]:
    """The certificates in a PEM text, at least one.

    Raises:
        ConfigError: there is none, or a malformed one.
    """
    try:
        found = x509.load_pem_x509_certificates(_PRIVATE_KEY.sub(b"", data))
    except MALFORMED:
        raise ConfigError("it has no certificate in PEM, or a malformed one (jgroups keys sign makes one)") from None
    return found


def parse_own_certificate(data: bytes) -> OwnCertificate:
    """The private key and the chain in a member's own file.

    Raises:
        ConfigError: what is wrong, and what is allowed.
    """
    signer, found = certificate_key_of(data), parse_certificates(data)
    if key_text_of(found[0].public_key()) != key_text_of(signer.public):
        raise ConfigError("its first certificate is not of its private key")
    if len(found) > MOST_CERTIFICATES:
        raise ConfigError(f"it has {len(found)} certificates; the most is {MOST_CERTIFICATES}, without the "
                          "authority's own")
    return OwnCertificate(names_of(found[0]), signer, tuple(each.public_bytes(Encoding.DER) for each in found),
                          max(ns_of(each.not_valid_before_utc) for each in found),
                          min(ns_of(each.not_valid_after_utc) for each in found))


def encode_chain(chain: Sequence[bytes]) -> bytes:
    """The bytes of a chain in a credential."""
    return b"".join(_LENGTH.pack(len(each)) + each for each in chain)


def decode_chain(data: bytes) -> tuple[bytes, ...]:
    """The chain in the bytes of a credential.

    Raises:
        WireError: it is malformed, or too long.
    """
    chain: list[bytes] = []
    while data:
        length = _LENGTH.unpack_from(data)[0] if len(data) >= _LENGTH.size else 0
        rest = data[_LENGTH.size:]
        if not 0 < length <= len(rest) or len(chain) >= MOST_CERTIFICATES:
            raise WireError("its certificates are malformed")
        chain.append(rest[:length])
        data = rest[length:]
    if not chain:
        raise WireError("it shows no certificate")
    return tuple(chain)


@attrs.frozen
class CertificateFacts:
    """The facts of a certificate for reports. authority: its name, if it is an authority's; names: else the identities
    in it; key: the text of its public key; the times in ns since 1970."""

    authority: str
    names: tuple[CertifiedIdentity, ...]
    key: str
    serial: int
    issued_by: str
    not_before_ns: int
    not_after_ns: int


def facts_of(certificate: x509.Certificate) -> CertificateFacts:
    """The facts of a certificate.

    Raises:
        ConfigError: it is neither an authority's nor does it name a member.
    """
    try:
        found = certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
        key, subject, issuer = key_text_of(certificate.public_key()), certificate.subject, certificate.issuer
    except UNNAMED:
        raise ConfigError("a certificate without basic constraints, or with a key that is not known here") from None
    return CertificateFacts(
        subject.rfc4514_string() if found else "", () if found else names_of(certificate), key,
        certificate.serial_number, issuer.rfc4514_string(), ns_of(certificate.not_valid_before_utc),
        ns_of(certificate.not_valid_after_utc))


# --- verification -----------------------------------------------------------------------------------------------------

class Authorities:
    """The trusted authorities, and what they have revoked. serials: name of an authority (DER) -> serial numbers."""

    def __init__(self, certificates: Sequence[x509.Certificate]) -> None:
        self.certificates = tuple(certificates)
        self.serials: dict[bytes, frozenset[int]] = {}
        self.lists_until_ns: int | None = None               # when the first list is to be replaced; None: never

    def read_lists(self, data: bytes) -> None:
        """Replace the lists of revoked certificates by those in a PEM text.

        Raises:
            ConfigError: one is malformed, too long, or signed by none of the authorities.
        """
        serials: dict[bytes, frozenset[int]] = {}
        until: list[int] = []
        for pem in re.findall(rb"-----BEGIN X509 CRL-----.*?-----END X509 CRL-----", data, re.DOTALL):
            try:
                found = x509.load_pem_x509_crl(pem)
                signed = any(found.issuer == each.subject and found.is_signature_valid(
                    each.public_key())  # type: ignore[arg-type]
                    for each in self.certificates)
            except MALFORMED:
                raise ConfigError("a list of revoked certificates (CRL) in it is malformed") from None
            if not signed:
                raise ConfigError("a list of revoked certificates (CRL) in it is signed by none of the authorities")
            if len(found) > MOST_SERIALS:
                raise ConfigError(f"a list of revoked certificates (CRL) has more than {MOST_SERIALS}")
            issuer = found.issuer.public_bytes()
            serials[issuer] = serials.get(issuer, frozenset()) | {each.serial_number for each in found}
            if found.next_update_utc is not None:
                until.append(ns_of(found.next_update_utc))
        self.serials, self.lists_until_ns = serials, min(until, default=None)

    def verified(self, chain: Sequence[bytes], wall_ns: int) -> tuple[CertifiedIdentity, ...]:
        """The identities of a chain that ends at one of the authorities, and is valid at this time of the wall clock.

        Raises:
            WireError: why it is not.
        """
        try:
            parsed = [x509.load_der_x509_certificate(each) for each in chain]
            names = names_of(parsed[0])
        except MALFORMED:
            raise WireError("its certificate is malformed") from None
        except ConfigError as error:
            raise WireError(f"its certificate does not name it: {error}") from None
        before, after = (max(ns_of(each.not_valid_before_utc) for each in parsed),
                         min(ns_of(each.not_valid_after_utc) for each in parsed))
        if not before <= wall_ns <= after:
            raise WireError(validity_problem(before, after, wall_ns))
        verifier = PolicyBuilder().store(Store(list(self.certificates))).time(time_of(wall_ns)).max_chain_depth(
            MOST_CERTIFICATES).build_client_verifier()
        try:
            verified = verifier.verify(parsed[0], parsed[1:]).chain
        except VerificationError:
            raise WireError("its certificate is not of an authority that counts here, or was made for another "
                            "use") from None
        except MALFORMED:
            raise WireError("its certificate is malformed") from None
        for each in verified:
            if each.serial_number in self.serials.get(each.issuer.public_bytes(), ()):
                raise WireError(f"the certificate of {names[0]} is revoked (serial number {each.serial_number:x})")
        return tuple(attrs.evolve(
            name, chain=tuple(chain), not_before_ns=max(ns_of(each.not_valid_before_utc) for each in verified),
            not_after_ns=min(ns_of(each.not_valid_after_utc) for each in verified)) for name in names)


def verify_certified(chain: Sequence[bytes], signature: bytes, text: bytes) -> None:
    """Check that the holder of the first certificate's key has signed a text.

    Raises:
        WireError: it has not.
    """
    try:
        public = x509.load_der_x509_certificate(chain[0]).public_key()
        if not isinstance(public, ec.EllipticCurvePublicKey) or not isinstance(public.curve, ec.SECP256R1) \
                or len(signature) != 2 * HALF:
            raise WireError(NOT_VERIFIED)
        first, second = (int.from_bytes(half, "big") for half in (signature[:HALF], signature[HALF:]))
        public.verify(encode_dss_signature(first, second), text, ec.ECDSA(SHA256()))
    except SIGNED_BY_ANOTHER:
        raise WireError(NOT_VERIFIED) from None


def validity_problem(not_before_ns: int, not_after_ns: int, wall_ns: int) -> str:
    """Why a certificate is not valid at this time, with the times that differ."""
    if wall_ns > not_after_ns:
        return f"its certificate has expired, at {shown(not_after_ns)}; the clock here is {shown(wall_ns)}"
    return f"its certificate does not count before {shown(not_before_ns)}; the clock here is {shown(wall_ns)}"


# --- times ------------------------------------------------------------------------------------------------------------

def time_of(wall_ns: int) -> datetime:
    """A time of the wall clock, to the second."""
    return _EPOCH + timedelta(seconds=wall_ns // NS)


def ns_of(time: datetime) -> int:
    """Nanoseconds since 1970 of a time."""
    return int((time - _EPOCH).total_seconds()) * NS


def shown(wall_ns: int) -> str:
    """A time as text, for errors and reports."""
    return time_of(wall_ns).strftime("%Y-%m-%d %H:%M:%S UTC")
