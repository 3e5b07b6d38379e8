"""Encryption: members with the key exchange messages; without it frames can be neither read nor forged."""
from __future__ import annotations

from base64 import b64encode
from itertools import count
from random import Random

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from jgroups_py.model.errors import ConfigError, WireError
from jgroups_py.protocols.swim.headers import ProbeAck, PushPull
from jgroups_py.protocols.swim.memberlist.messages import ENCRYPTED, CodecContext, write_message
from jgroups_py.protocols.swim.memberlist.packet import read_packet, write_packet
from jgroups_py.protocols.swim.memberlist.sealing import Key, Keyring, parse_keys
from jgroups_py.protocols.swim.memberlist.stream import StreamReader, write_stream
from tests.unit.protocols.memberlist.town import Town

OLD, NEW = Key(b"o" * 16), Key(b"n" * 32)
SEED = "10.0.0.1[7946]"


def in_base64(*keys: Key) -> str:
    return ",".join(b64encode(key).decode() for key in keys)


def keyring(*keys: Key) -> Keyring:
    numbers = count(1)
    return Keyring(keys, lambda: next(numbers).to_bytes(12, "big"))


def test_what_is_sealed_with_one_key_is_opened_by_a_ring_that_has_it():
    sealed = keyring(OLD).sealed(b"secret", b"known")
    assert keyring(NEW, OLD).opened(sealed, b"known") == b"secret"
    assert b"secret" not in sealed
    with pytest.raises(WireError, match="none of the keys"):
        keyring(NEW).opened(sealed, b"known")
    with pytest.raises(WireError, match="none of the keys"):
        keyring(OLD).opened(sealed, b"something else")


def test_the_padded_form_of_the_first_version_is_read_too():
    nonce = bytes(12)
    padded = b"\x00" + nonce + AESGCM(OLD).encrypt(nonce, b"secret" + bytes([10]) * 10, b"")
    assert keyring(OLD).opened(padded) == b"secret"
    wrong = b"\x00" + nonce + AESGCM(OLD).encrypt(nonce, b"secret" + bytes([99]) * 10, b"")
    with pytest.raises(WireError, match="wrong padding"):
        keyring(OLD).opened(wrong)


def test_any_bytes_are_opened_or_refused():
    random, ring = Random(5), keyring(OLD)
    sealed = ring.sealed(b"secret")
    for _ in range(500):
        data = bytearray(sealed)
        data[random.randrange(len(data))] ^= 1 << random.randrange(8)
        with pytest.raises(WireError):
            ring.opened(bytes(data[:random.choice((len(data), random.randrange(len(data))))]))


def test_datagrams_and_streams_are_sealed_and_plain_ones_refused():
    plain, sealed = CodecContext(), CodecContext(keyring=keyring(OLD))
    data = write_packet([write_message(ProbeAck(7, b""), plain)], compress=True, check=True)
    assert read_packet(sealed.keyring.sealed(data), sealed) == [ProbeAck(7, b"")]
    with pytest.raises(WireError, match="not encrypted"):
        read_packet(data, sealed)
    everything = PushPull(0, False, True, (), b"user" * 100)
    stream = write_stream(everything, sealed, compress=True)
    assert stream[0] == ENCRYPTED
    reader = StreamReader(sealed)
    assert [reader.feed(stream[at:at + 7]) for at in range(0, len(stream), 7)][-1] == everything
    with pytest.raises(WireError, match="a stream that is not encrypted"):
        StreamReader(sealed).feed(write_stream(everything, plain, compress=False))
    with pytest.raises(WireError, match="which is encrypted"):
        StreamReader(plain).feed(stream)
    with pytest.raises(WireError, match="more than 1000 bytes"):
        StreamReader(sealed, 1000).feed(bytes((ENCRYPTED,)) + (1 << 31).to_bytes(4, "big"))


def test_a_cluster_changes_its_key_member_by_member_and_members_without_a_key_stay_out():
    town = Town()
    for name, keys in (("a", (OLD, NEW)), ("b", (NEW, OLD)), ("c", (OLD, NEW))):
        town.start(name, SEED, encrypt=in_base64(*keys))
    town.start("without", SEED)
    town.start("another", SEED, encrypt=in_base64(Key(b"x" * 24)))
    town.run(15)
    for name in "abc":
        assert town.states(name) == dict.fromkeys("abc", "alive")
    assert town.states("without") == {"without": "alive"}
    assert town.states("another") == {"another": "alive"}


@pytest.mark.parametrize(("keys", "reason"), [
    ("no base64!", "not in base64"), (in_base64(Key(b"short")), "has 5 bytes; allowed are 16, 24 or 32"),
    (7, "base64")])
def test_a_malformed_key_is_refused_without_being_shown(keys, reason):
    with pytest.raises(ConfigError, match=reason) as caught:
        parse_keys(keys)
    assert str(keys) not in str(caught.value)
    assert repr(parse_keys([OLD])) == "(<key of 16 bytes>,)"
