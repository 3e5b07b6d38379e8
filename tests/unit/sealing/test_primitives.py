"""The primitives give the known answers of their standards, and nothing else opens."""
from __future__ import annotations

import pytest

from jgroups_py.model.errors import ConfigError, WireError
from jgroups_py.sealing import primitives
from jgroups_py.sealing.primitives import Cipher, derive, key_id, require_library

RFC_5869 = [
    ("0b" * 22, "000102030405060708090a0b0c", "f0f1f2f3f4f5f6f7f8f9", 42,
     "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b887185865"),
    ("0b" * 22, "", "", 42,
     "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d9d201395faa4b61a96c8"),
]
GCM = [                                      # McGrew, Viega: test cases 13 and 14, and one with clear bytes (16)
    ("00" * 32, "00" * 12, "", "", "530f8afbc74536b9a963b4f1c4cb738b"),
    ("00" * 32, "00" * 12, "00" * 16, "", "cea7403d4d606b6e074ec5d3baf39d18d0d1c8a799996bf0265b98b5d48ab919"),
    ("feffe9928665731c6d6a8f9467308308" * 2, "cafebabefacedbaddecaf888",
     "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a721c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba"
     "637b39", "feedfacedeadbeeffeedfacedeadbeefabaddad2",
     "522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa8cb08e48590dbb3da7b08b1056828838c5f61e6393ba7a0abc"
     "c9f66276fc6ece0f4e1768cddf8853bb2d551b"),
]


@pytest.mark.parametrize(("secret", "salt", "info", "length", "wanted"), RFC_5869)
def test_hkdf_gives_the_answers_of_rfc_5869(secret, salt, info, length, wanted):
    assert derive(bytes.fromhex(secret), bytes.fromhex(info), length, bytes.fromhex(salt)).hex() == wanted


@pytest.mark.parametrize(("key", "nonce", "text", "clear", "sealed"), GCM)
def test_gcm_gives_the_answers_of_its_authors_and_opens_nothing_else(key, nonce, text, clear, sealed):
    cipher = Cipher(bytes.fromhex(key))
    arguments = bytes.fromhex(nonce), bytes.fromhex(text), bytes.fromhex(clear)
    assert cipher.seal(*arguments).hex() == sealed
    made = bytes.fromhex(sealed)
    assert cipher.open(arguments[0], made, arguments[2]) == arguments[1]
    for bit in range(8 * len(made)):
        changed = bytearray(made)
        changed[bit // 8] ^= 1 << bit % 8
        with pytest.raises(WireError):
            cipher.open(arguments[0], bytes(changed), arguments[2])
    for stop in range(len(made)):
        with pytest.raises(WireError):
            cipher.open(arguments[0], made[:stop], arguments[2])
    with pytest.raises(WireError):
        cipher.open(arguments[0], made, arguments[2] + b"\0")


def test_the_id_of_a_key_follows_from_it_and_does_not_contain_it():
    one, other = b"k" * 32, b"l" * 32
    assert key_id(one) == key_id(one) != key_id(other)
    assert key_id(one) not in one


def test_without_the_library_the_error_names_the_extra(monkeypatch):
    monkeypatch.setattr(primitives, "AESGCM", None)
    with pytest.raises(ConfigError, match=r"ENCRYPT needs cryptography: pip install 'jgroups_py\[security\]'"):
        require_library("ENCRYPT")


def test_a_cipher_does_not_show_its_key():
    assert repr(Cipher(b"k" * 32)) == "<Cipher>"
