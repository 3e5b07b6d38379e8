"""The files of identities, known members and revoked keys: what is written is read, anything else has a clear error."""
from __future__ import annotations

import json

import pytest

from jgroups_py.model.errors import ConfigError, WireError
from jgroups_py.sealing.identities import (
    KNOWN_FORMAT,
    REVOKED_FORMAT,
    Identity,
    KnownMembers,
    RevokedKeys,
    new_identity,
    parse_identity,
    parse_known_members,
    parse_revoked_keys,
)
from jgroups_py.sealing.primitives import AgreementKey, SigningKey, mac, same, verify

SEED = bytes(range(32))


def test_an_identity_is_read_as_it_was_written_and_its_key_is_not_shown():
    made = new_identity(SEED, "A", "NYC", ("relay", "member"))
    read = parse_identity(made.as_text().encode())
    assert read.identity == made.identity == Identity("A", "NYC", ("member", "relay"), made.identity.key)
    assert read.signer.sign(b"x") == made.signer.sign(b"x")
    verify(read.signer.public, made.signer.sign(b"x"), b"x")
    assert SEED.hex() not in repr(made) + repr(read.signer)
    assert made.signer.pem() not in repr(made)


@pytest.mark.parametrize(("change", "error"), [
    (lambda text: text.replace("identity 1", "identity 2"), "not an identity"),
    (lambda text: text.replace("name: A", ""), "has the lines name:"),
    (lambda text: text.replace("name: A", "name: A\ncolour: red"), "has the lines name:"),
    (lambda text: text.replace("name: A", "name: " + "A" * 256), "1 to 255 bytes"),
    (lambda text: text.replace("name: A", "name: A\x1b[31m"), "control characters"),
    (lambda text: text.replace("roles: member", "roles: king"), "member, relay, operator"),
    (lambda text: text.replace("roles: member", "roles:"), "member, relay, operator"),
    (lambda text: text[:-60], "must be of Ed25519"),
    (lambda text: text.partition("-----BEGIN")[0], "not an identity"),
    (lambda text: "", "not an identity"),
])
def test_an_identity_that_is_damaged_has_an_error_that_does_not_show_its_key(change, error):
    text = new_identity(SEED, "A").as_text()
    with pytest.raises(ConfigError, match=error) as found:
        parse_identity(change(text).encode())
    assert not any(line in str(found.value) for line in text.splitlines()[5:6])


def test_known_members_are_read_as_they_were_written_and_found_by_their_key():
    one, other = new_identity(SEED, "A", "NYC"), new_identity(SEED[::-1], "B")
    known = KnownMembers().with_member(one.identity).with_member(other.identity)
    read = parse_known_members(known.as_text().encode())
    assert read == known
    assert read.find(one.signer.public) == one.identity
    assert read.find(bytes(32)) is None
    assert read.without(one.identity.key).find(one.signer.public) is None
    with pytest.raises(ConfigError, match="is that of A@NYC already"):
        known.with_member(new_identity(SEED, "C").identity)
    with pytest.raises(ConfigError, match="not among the known members"):
        KnownMembers().without(one.identity.key)


@pytest.mark.parametrize(("item", "error"), [
    (7, "known member 1 is no object"),
    ({"name": "A", "key": "ed25519:00"}, "known member 1: key must be ed25519: and 64 hex digits"),
    ({"name": "A", "key": "sha256:" + "00" * 32}, "key must be ed25519:"),
    ({"name": 3, "key": "ed25519:" + "00" * 32}, "name must be a text"),
    ({"name": "A", "site": 3, "key": "ed25519:" + "00" * 32}, "site must be empty"),
    ({"name": "A", "roles": "member", "key": "ed25519:" + "00" * 32}, "roles must be some of"),
])
def test_a_known_member_that_is_malformed_is_named_in_the_error(item, error):
    with pytest.raises(ConfigError, match=error):
        parse_known_members(json.dumps({"format": KNOWN_FORMAT, "members": [item]}).encode())


def test_revoked_keys_are_read_as_they_were_written():
    key = new_identity(SEED, "A").identity.key
    revoked = RevokedKeys().with_key(key).with_key("sha256:" + "AB" * 32)
    assert key in revoked
    assert parse_revoked_keys(revoked.as_text().encode()) == revoked
    for text in (b"[]", b"{", b'{"format": "jgroups revoked keys 1", "keys": 3}'):
        with pytest.raises(ConfigError, match="not a file of revoked keys"):
            parse_revoked_keys(text)
    with pytest.raises(ConfigError, match="revoked key 1: key must be ed25519: or sha256:"):
        parse_revoked_keys(json.dumps({"format": REVOKED_FORMAT, "keys": ["A"]}).encode())


def test_signatures_and_agreed_keys_are_those_of_their_standards():
    # RFC 8032 section 7.1, test 2; RFC 7748 section 6.1; RFC 4231, test case 1.
    signer = SigningKey(bytes.fromhex("4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb"))
    assert signer.public.hex() == "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c"
    assert signer.sign(b"\x72").hex() == (
        "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb0"
        "0d291612bb0c00")
    alice = AgreementKey(bytes.fromhex("77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a"))
    bob = AgreementKey(bytes.fromhex("5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb"))
    assert alice.agree(bob.public) == bob.agree(alice.public)
    assert alice.agree(bob.public).hex() == "4a5d9d5ba4ce2de1728e3bf480350f25e07e21c947d19e3376f09b3c1e161742"
    assert mac(b"\x0b" * 20, b"Hi There").hex() == "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"


def test_a_signature_of_another_text_or_key_and_a_key_of_low_order_are_refused():
    signer, other = SigningKey(SEED), SigningKey(SEED[::-1])
    signature = signer.sign(b"text")
    for public, made, text in ((signer.public, signature, b"texts"), (other.public, signature, b"text"),
                               (signer.public, signature[:-1], b"text"), (b"", signature, b"text")):
        with pytest.raises(WireError):
            verify(public, made, text)
    for low in (bytes(32), b"\1" + bytes(31), b""):
        with pytest.raises(WireError):
            AgreementKey(SEED).agree(low)
    assert same(b"ab", b"ab")
    assert not same(b"ab", b"ac")
