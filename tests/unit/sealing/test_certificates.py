"""Certificates of members: names, files, chains, times, lists of revoked ones; bad input."""
from __future__ import annotations

from random import Random

import pytest
from cryptography import x509

from jgroups_py.model.errors import ConfigError, WireError
from jgroups_py.sealing.certificate_authority import new_authority, parse_request, sign_list, sign_request
from jgroups_py.sealing.certificates import (
    NS,
    Authorities,
    CertificateKey,
    certificate_key_of,
    decode_chain,
    encode_chain,
    identity_uri,
    names_of,
    new_certificate_key,
    parse_certificates,
    parse_own_certificate,
    parse_uri,
    verify_certified,
)

NOW_NS = 1_790_000_000 * NS
DAY_NS = 86400 * NS


def authority(name: str = "CA") -> tuple[CertificateKey, x509.Certificate]:
    key, pem = new_authority(Random(name).randbytes(32), name, NOW_NS, 3650)
    return key, parse_certificates(pem.encode())[0]


KEY, CERTIFICATE = authority()


def member(name: str, *clusters: str, site: str = "NYC", roles: tuple[str, ...] = ("member",), days: int = 90,
           by: tuple[CertificateKey, x509.Certificate] = (KEY, CERTIFICATE)) -> bytes:
    """A member's own file."""
    key = new_certificate_key(Random(name).randbytes(32))
    request = parse_request(key.request([identity_uri(each, name, site) for each in clusters or ("chat",)]).encode())
    return (key.pem() + sign_request(*by, request, roles, Random(f"{name} serial").randbytes(19), NOW_NS,
                                     NOW_NS + days * DAY_NS)).encode()


@pytest.mark.parametrize(("cluster", "site", "name"), [
    ("chat", "NYC", "A"), ("a/b c", "", "ä?#%&="), ("x" * 60, "s:t@u", "日本"), ("[", "//", "..")])
def test_a_name_in_a_certificate_is_read_as_it_was_written(cluster, site, name):
    found = parse_uri(identity_uri(cluster, name, site, ("operator", "member")), "k")
    assert (found.cluster, found.site, found.name, found.roles) == (cluster, site, name, ("member", "operator"))


@pytest.mark.parametrize("uri", [
    "http://chat/NYC/A", "jgroups://chat/A", "jgroups://chat/NYC/A/B", "jgroups:///NYC/A", "jgroups://chat/NYC/",
    "jgroups://chat/NYC/A?roles=king", "jgroups://chat/NYC/A?roles=", "jgroups://chat/NYC/A?roles=member&x=1",
    "jgroups://chat/NYC/A?x=1", "jgroups://chat/NYC/A#x", "jgroups://[/NYC/A", "jgroups://chat/NYC/%00",
    "jgroups://chat/NYC/" + "A" * 300])
def test_a_name_of_another_form_is_refused_with_the_form(uri):
    with pytest.raises(ConfigError, match=r'"jgroups://CLUSTER/SITE/MEMBER\?roles=member,relay"'):
        parse_uri(uri, "")


def test_a_chain_of_an_authority_names_its_member_and_its_signature_counts():
    own = parse_own_certificate(member("A", "chat", "bridge", roles=("member", "relay")))
    chain = decode_chain(encode_chain(own.chain))
    found = Authorities([CERTIFICATE]).verified(chain, NOW_NS)
    assert [(str(each), each.cluster, each.roles) for each in found] == [
        ("A@NYC", "chat", ("member", "relay")), ("A@NYC", "bridge", ("member", "relay"))]
    signature = own.signer.sign(b"text")
    verify_certified(chain, signature, b"text")
    assert own.signer.sign(b"text") == signature, "signatures need no entropy"
    for changed in (signature[:-1], bytes(64), signature[:1] + bytes(63)):
        with pytest.raises(WireError, match="not verified"):
            verify_certified(chain, changed, b"text")
    with pytest.raises(WireError, match="not verified"):
        verify_certified(chain, signature, b"other")


@pytest.mark.parametrize(("days", "reason"), [(91, "has expired, at .* UTC; the clock here is"),
                                              (-1, "does not count before .* UTC; the clock here is")])
def test_a_certificate_counts_for_its_time_only(days, reason):
    chain = parse_own_certificate(member("A")).chain
    with pytest.raises(WireError, match=reason):
        Authorities([CERTIFICATE]).verified(chain, NOW_NS + days * DAY_NS)
    # Clocks that differ by less than five minutes do no harm.
    assert Authorities([CERTIFICATE]).verified(chain, NOW_NS - 299 * NS)


def test_a_certificate_of_another_authority_of_the_same_name_does_not_count():
    other = new_authority(b"o" * 32, "CA", NOW_NS, 3650)
    by = (other[0], parse_certificates(other[1].encode())[0])
    chain = parse_own_certificate(member("A", by=by)).chain
    with pytest.raises(WireError, match="not of an authority that counts here"):
        Authorities([CERTIFICATE]).verified(chain, NOW_NS)


def test_a_member_is_no_authority():
    """A certificate that a member made for another one with its own key."""
    own = parse_own_certificate(member("A"))
    certificate = x509.load_der_x509_certificate(own.chain[0])
    chain = parse_own_certificate(member("B", by=(own.signer, certificate))).chain
    with pytest.raises(WireError, match="not of an authority"):
        Authorities([CERTIFICATE]).verified((*chain, *own.chain), NOW_NS)


def test_a_list_of_an_authority_revokes_by_serial_number():
    chain = parse_own_certificate(member("A")).chain
    authorities = Authorities([CERTIFICATE])
    serial = x509.load_der_x509_certificate(chain[0]).serial_number
    authorities.read_lists(sign_list(KEY, CERTIFICATE, [serial], NOW_NS, 30).encode())
    with pytest.raises(WireError, match="the certificate of A@NYC is revoked"):
        authorities.verified(chain, NOW_NS)
    authorities.read_lists(sign_list(KEY, CERTIFICATE, [serial + 1], NOW_NS, 30).encode())
    assert authorities.verified(chain, NOW_NS)
    assert authorities.lists_until_ns == NOW_NS + 30 * DAY_NS
    with pytest.raises(ConfigError, match="signed by none of the authorities"):
        authorities.read_lists(sign_list(*authority("other"), [serial], NOW_NS, 30).encode())
    with pytest.raises(ConfigError, match="malformed"):
        authorities.read_lists(b"-----BEGIN X509 CRL-----\nMAA=\n-----END X509 CRL-----\n")


@pytest.mark.parametrize(("data", "reason"), [
    (b"", "must have a private key of ECDSA P-256"),
    (new_certificate_key(b"k" * 32).pem().encode(), "has no certificate in PEM"),
    (new_certificate_key(b"k" * 32).pem().encode() + member("A").partition(b"-----END PRIVATE KEY-----\n")[2],
     "is not of its private key"),
    (member("A") * 5, "has 5 certificates; the most is 4"),
])
def test_a_file_that_is_no_identity_is_refused(data, reason):
    with pytest.raises(ConfigError, match=reason) as caught:
        parse_own_certificate(data)
    assert "PRIVATE" not in str(caught.value)


def test_a_request_that_its_key_has_not_signed_is_refused():
    pem = new_certificate_key(b"k" * 32).request([identity_uri("chat", "A")])
    assert [str(each) for each in names_of(parse_request(pem.encode()))] == ["A"]
    for bad in (b"", pem.encode()[:100], pem.replace("A", "B", 1).encode()):
        with pytest.raises(ConfigError, match=r"request"):
            parse_request(bad)


@pytest.mark.parametrize("data", [b"", b"\0", b"\0\0", b"\0\5abc", b"\0\1a" * 5])
def test_a_malformed_chain_is_a_wire_error(data):
    with pytest.raises(WireError):
        decode_chain(data)


def test_changed_bytes_of_a_chain_never_raise_anything_else():
    """What arrives from the network is input: each byte of a certificate changed, and cut."""
    chain = parse_own_certificate(member("A")).chain
    authorities, rng = Authorities([CERTIFICATE]), Random(1)
    for at in range(len(chain[0])):
        for bad in (chain[0][:at] + bytes([chain[0][at] ^ (1 << rng.randrange(8))]) + chain[0][at + 1:],
                    chain[0][:at]):
            with pytest.raises(WireError):
                authorities.verified((bad,), NOW_NS)
            with pytest.raises(WireError):
                verify_certified((bad,), bytes(64), b"text")


def test_no_private_key_is_shown():
    own = parse_own_certificate(member("A"))
    secret = own.signer.pem().splitlines()[1]
    assert secret not in repr(own) + repr(own.signer) + repr(certificate_key_of(member("A")))
