"""Our AES-256-GCM gives the answers that Project Wycheproof publishes, and refuses its kinds of changed tags.

Values: github.com/C2SP/wycheproof, testvectors_v1/aes_gcm_test.json, group keySize 256, ivSize 96, tagSize 128, tests
91 to 103.
"""
from __future__ import annotations

from collections.abc import Iterator

import pytest

from jgroups_py.model.errors import WireError
from jgroups_py.sealing.primitives import TAG_BYTES, Cipher

# (test, key, nonce, authenticated in clear, text, sealed text, tag)
WYCHEPROOF = [
    (91, "92ace3e348cd821092cd921aa3546374299ab46209691bc28b8752d17f123c20", "00112233445566778899aabb",
     "00000000ffffffff", "00010203040506070809", "e27abdd2d2a53d2f136b", "9a4a2579529301bcfb71c78d4060f52c"),
    (92, "29d3a44f8723dc640239100c365423a312934ac80239212ac3df3421a2098123", "00112233445566778899aabb",
     "aabbccddeeff", "", "", "2a7d77fa526b8250cb296078926b5020"),
    (93, "80ba3192c803ce965ea371d5ff073cf0f43b6a2ab576b208426e11409c09b9b0", "4da5bf8dfd5852c1ea12379d",
     "", "", "", "4771a7c404a472966cea8f73c8bfe17a"),
    (94, "cc56b680552eb75008f5484b4cb803fa5063ebd6eab91f6ab6aef4916a766273", "99e23ec48985bccdeeab60f1",
     "", "2a", "06", "633c1e9703ef744ffffb40edf9d14355"),
    (95, "51e4bf2bad92b7aff1a4bc05550ba81df4b96fabf41c12c7b00e60e48db7e152", "4f07afedfdc3b6c2361823d3",
     "", "be3308f72a2c6aed", "cf332a12fdee800b", "602e8d7c4799d62c140c9bb834876b09"),
    (96, "67119627bd988eda906219e08c0d0d779a07d208ce8a4fe0709af755eeec6dcb", "68ab7fdbf61901dad461d23c",
     "", "51f8c1f731ea14acdb210a6d973e07", "43fc101bff4b32bfadd3daf57a590e", "ec04aacb7148a8b8be44cb7eaf4efa69"),
    (97, "59d4eafb4de0cfc7d3db99a8f54b15d7b39f0acc8da69763b019c1699f87674a", "2fcb1b38a99e71b84740ad9b",
     "", "549b365af913f3b081131ccb6b825588", "f58c16690122d75356907fd96b570fca", "28752c20153092818faba2a334640d6e"),
    (98, "3b2458d8176e1621c0cc24c0c0e24c1e80d72f7ee9149a4b166176629616d011", "45aaa3e5d16d2d42dc03445d",
     "", "3ff1514b1c503915918f0c0c31094a6e1f", "73a6b6f45f6ccc5131e07f2caa1f2e2f56",
     "2d7379ec1db5952d4e95d30c340b1b1d"),
    (99, "0212a8de5007ed87b33f1a7090b6114f9e08cefd9607f2c276bdcfdbc5ce9cd7", "e6b1adf2fd58a8762c65f31b",
     "", "10f1ecf9c60584665d9ae5efe279e7f7377eea6916d2b111", "0843fff52d934fc7a071ea62c0bd351ce85678cde3ea2c9e",
     "7355fde599006715053813ce696237a8"),
    (100, "b279f57e19c8f53f2f963f5f2519fdb7c1779be2ca2b3ae8e1128b7d6c627fc4", "98bc2c7438d5cd7665d76f6e",
     "c0", "fcc515b294408c8645c9183e3f4ecee5127846d1", "eb5500e3825952866d911253f8de860c00831c81",
     "ecb660e1fb0541ec41e8d68a64141b3a"),
    (101, "cdccfe3f46d782ef47df4e72f0c02d9c7f774def970d23486f11a57f54247f17", "376187894605a8d45e30de51",
     "956846a209e087ed", "e28e0e9f9d22463ac0e42639b530f42102fded75", "feca44952447015b5df1f456df8ca4bb4eee2ce2",
     "082e91924deeb77880e1b1c84f9b8d30"),
    (102, "f32364b1d339d82e4f132d8f4a0ec1ff7e746517fa07ef1a7f422f4e25a48194", "5a86a50a0e8a179c734b996d",
     "ab2ac7c44c60bdf8228c7884adb20184", "43891bccb522b1e72a6b53cf31c074e9d6c2df8e",
     "43dda832e942e286da314daa99bef5071d9d2c78", "c3922583476ced575404ddb85dd8cd44"),
    (103, "ff0089ee870a4a39f645b0a5da774f7a5911e9696fc9cad646452c2aa8595a12", "bc2a7757d0ce2d8b1f14ccd9",
     "972ab4e06390caae8f99dd6e2187be6c7ff2c08a24be16ef", "748b28031621d95ee61812b4b4f47d04c6fc2ff3",
     "a929ee7e67c7a2f91bbcec6389a3caf43ab49305", "ebec6774b955e789591c822dab739e12"),
]
FLIPPED = (0, 1, 7, 8, 31, 32, 33, 63, 64, 71, 77, 80, 96, 97, 103, 120, 121, 126, 127)
"""The bits of a tag that Wycheproof's invalid tests flip, one at a time."""


def changed_tags(tag: bytes) -> Iterator[bytes]:
    """The tag changed as in Wycheproof's invalid tests: single bits, all bits, halves, all zero, all one."""
    for bit in FLIPPED:
        made = bytearray(tag)
        made[bit // 8] ^= 1 << bit % 8
        yield bytes(made)
    yield bytes(byte ^ 0xFF for byte in tag)
    yield bytes(byte ^ 0x80 for byte in tag)
    yield bytes(byte ^ 0x01 for byte in tag)
    yield bytes(TAG_BYTES)
    yield b"\xff" * TAG_BYTES
    yield tag[:8] + bytes(byte ^ 0xFF for byte in tag[8:])


@pytest.mark.parametrize(("number", "key", "nonce", "clear", "text", "sealed", "tag"), WYCHEPROOF,
                         ids=[str(row[0]) for row in WYCHEPROOF])
def test_gcm_gives_the_answers_of_wycheproof(number, key, nonce, clear, text, sealed, tag):
    cipher = Cipher(bytes.fromhex(key))
    raw_nonce, raw_clear, raw_sealed = bytes.fromhex(nonce), bytes.fromhex(clear), bytes.fromhex(sealed)
    assert cipher.seal(raw_nonce, bytes.fromhex(text), raw_clear).hex() == sealed + tag
    assert cipher.open(raw_nonce, raw_sealed + bytes.fromhex(tag), raw_clear).hex() == text
    for changed in changed_tags(bytes.fromhex(tag)):
        with pytest.raises(WireError):
            cipher.open(raw_nonce, raw_sealed + changed, raw_clear)
