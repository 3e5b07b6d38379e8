"""Our Ed25519 and X25519 give the answers of RFC 8032 and RFC 7748, and what Project Wycheproof accepts and refuses.

Values of Wycheproof: github.com/C2SP/wycheproof, testvectors_v1/ed25519_test.json, tests 1 to 36; the points of low
order are those of its x25519_test.json. ChaCha20 is not used here.
"""
from __future__ import annotations

import pytest

from jgroups_py.model.errors import WireError
from jgroups_py.sealing.primitives import AgreementKey, SigningKey, verify

RFC_8032 = [                                 # section 7.1: tests 1 to 3: private key, public key, text, signature
    ("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
     "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a", "",
     "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe246"
     "55141438e7a100b"),
    ("4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
     "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c", "72",
     "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb"
     "00d291612bb0c00"),
    ("c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7",
     "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025", "af82",
     "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac18ff9b538d16f290ae67f760984dc6594a7c15e9716ed28dc"
     "027beceea1ec40a"),
]
WYCHEPROOF_KEY = "7d4d0e7f6153a69b6242b522abbee685fda4420f8834b108c3bdae369ef549fa"
VALID = [                                    # (test, text, signature)
    (1, "", "d4fbdb52bfa726b44d1786a8c0d171c3e62ca83c9e5bbe63de0bb2483f8fd6cc1429ab72cafc41ab56af02ff8fcc43b99bfe4"
     "c7ae940f60f38ebaa9d311c4007"),
    (3, "54657374", "7c38e026f29e14aabd059a0f2db8b0cd783040609a8be684db12f82a27774ab07a9155711ecfaf7f99f277bad0c6a"
     "e7e39d4eef676573336a5c51eb6f946b30d"),
    (6, "000000000000000000000000", "d46543bfb892f84ec124dcdfc847034c19363bf3fc2fa89b1267833a14856e52e60736918783f"
     "950b6f1dd8d40dc343247cd43ce054c2d68ef974f7ed0f3c60f"),
    (9, "ffffffffffffffffffffffffffffffff", "5dbd7360e55aa38e855d6ad48c34bd35b7871628508906861a7c4776765ed7d1e13d9"
     "10faabd689ec8618b78295c8ab8f0e19c8b4b43eb8685778499e943ae04"),
]
ZERO, ONE = bytes(32), b"\1" + bytes(31)
ORDER = bytes.fromhex("edd3f55c1a631258d69cf7a2def9de1400000000000000000000000000000010")
ORDER_LESS_1 = bytes.fromhex("ecd3f55c1a631258d69cf7a2def9de1400000000000000000000000000000010")
PRIME = bytes.fromhex("edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f")
SPECIAL_R = (ZERO, ONE, ORDER, PRIME)        # tests 10 to 29: each with each of SPECIAL_S
SPECIAL_S = (ZERO, ONE, ORDER_LESS_1, ORDER, PRIME)
RFC_7748 = (                                 # section 6.1
    "77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a",
    "8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a",
    "5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb",
    "de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882b4f",
    "4a5d9d5ba4ce2de1728e3bf480350f25e07e21c947d19e3376f09b3c1e161742")
LOW_ORDER = (
    ZERO.hex(), ONE.hex(), "e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800",
    "5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157",
    "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f", PRIME.hex(),
    "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f")


@pytest.mark.parametrize(("seed", "public", "text", "signature"), RFC_8032)
def test_ed25519_gives_the_answers_of_rfc_8032_and_no_flipped_bit_passes(seed, public, text, signature):
    key = SigningKey(bytes.fromhex(seed))
    assert key.public.hex() == public
    assert key.sign(bytes.fromhex(text)).hex() == signature
    made = bytes.fromhex(signature)
    verify(key.public, made, bytes.fromhex(text))
    for bit in range(8 * len(made)):
        changed = bytearray(made)
        changed[bit // 8] ^= 1 << bit % 8
        with pytest.raises(WireError):
            verify(key.public, bytes(changed), bytes.fromhex(text))


@pytest.mark.parametrize(("number", "text", "signature"), VALID, ids=[str(row[0]) for row in VALID])
def test_ed25519_accepts_what_wycheproof_calls_valid(number, text, signature):
    verify(bytes.fromhex(WYCHEPROOF_KEY), bytes.fromhex(signature), bytes.fromhex(text))


def test_ed25519_refuses_what_wycheproof_calls_invalid():
    public = bytes.fromhex(WYCHEPROOF_KEY)
    good, text = bytes.fromhex(VALID[1][2]), bytes.fromhex(VALID[1][1])
    special = [(r + s, b"?") for r in SPECIAL_R for s in SPECIAL_S]
    # Empty, s missing, short, long, with the public key, zeros in front of it, of s; and malleable: s + order.
    malleable = (int.from_bytes(good[32:], "little") + int.from_bytes(ORDER, "little")).to_bytes(32, "little")
    odd = [b"", good[:32], good[:62], good + b"  ", good + public, b"\0" + good, good[:32] + b"\0" + good[32:],
           good + b"\0", good[:32] + malleable]
    for signature, what in (*special, *((each, text) for each in odd)):
        with pytest.raises(WireError):
            verify(public, signature, what)


def test_x25519_gives_the_answers_of_rfc_7748():
    alice, alice_public, bob, bob_public, shared = map(bytes.fromhex, RFC_7748)
    one, other = AgreementKey(alice), AgreementKey(bob)
    assert (one.public, other.public) == (alice_public, bob_public)
    assert one.agree(bob_public) == other.agree(alice_public) == shared


@pytest.mark.parametrize("public", LOW_ORDER)
def test_x25519_refuses_points_of_low_order(public):
    with pytest.raises(WireError):
        AgreementKey(bytes(range(32))).agree(bytes.fromhex(public))


@pytest.mark.parametrize("length", [0, 31, 33, 64])
def test_keys_of_another_length_are_refused(length):
    with pytest.raises(WireError):
        AgreementKey(bytes(range(32))).agree(bytes(length))
    with pytest.raises(WireError):
        verify(bytes(length), bytes(64), b"")
