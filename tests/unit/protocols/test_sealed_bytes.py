"""The bytes of an exchange of challenges, and what becomes of each sealed frame whose bits are changed or that is cut.

The golden frames are opened here by the standard alone (RFC 5869 from `hmac`, AES-GCM and Ed25519 of the library), from
what design/wire.md and design/protocols/auth.md say, and not by the package's own code.
"""
from __future__ import annotations

import hashlib
import hmac
import struct

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from jgroups_py.model.batch import Batch
from jgroups_py.model.units import seconds
from jgroups_py.protocols.gms.headers import LeaveRequest
from jgroups_py.protocols.merge.protocol import Info
from jgroups_py.stack.protocol import CONTROL
from jgroups_py.testing.bench import view_of
from jgroups_py.wire import cluster_id
from jgroups_py.wire.sealed_head import (
    DISCOVERY_STREAM,
    HANDSHAKE_STREAM,
    HEAD_BYTES,
    MULTICAST_STREAM,
    SIGNED_STREAM,
    TAGGED_STREAM,
    UNICAST_STREAM,
)
from tests.unit.protocols.test_auth import Authenticated
from tests.unit.protocols.test_auth import identity as identity_named
from tests.unit.protocols.test_encrypt import KEYS, Member
from tests.unit.protocols.test_view_keys import Viewed, group, stream_of

GOLDEN = {
    "message": """
        4a5002001026ea90e9e69c048cf40c6846431c204100000000000000000000000000000028178e3ba65eb52772f6966ad3a5222f
        000000000000000156a6d682baad70f2969a328eb7a06ecfe55aee0b4f14aaf19ec879f3b96de9e914""",
    "challenge": """
        4a5002021026ea90e9e69c048cf40c6846431c204200000000000000000000000000000014df3536e2e52cea7bd40f37d31b4b06
        0000000000000001d1999b84409ec7cbc5b53b78abdaa0892a1a707e19324f40e61e73ffb56569bce6de5324b7c21d6f99bc96a9
        39bb421fd410b02612a46046173a7e07807dcc11e7e9fec31f264338a862fe1ffe938498d8b33c68ea48b7b0da963381a2a8a188
        2ec8a9068f2a2e4b1fe29d157b3c6576509f8046a93f19e5e14f43892fb7d8072d8f614ce6e5cc4cb1fd974cfc483996b61d17b4
        c42d4b8bd83d763edea8687705649068""",
    "answer and challenge": """
        4a5002021026ea90e9e69c048cf40c6846431c204100000000000000000000000000000028178e3ba65eb52772f6966ad3a5222f
        00000000000000018e91d7c50cd2cee6fb6771c4968fa0d2fab1165d934f9fa749ee627057691b33b4bf625ff176b56736596035
        f7b9229e2ecbb885bd6823b02f8b3252e0d6d1b3f8986c1de3d09c476274b37aa08c1da5cbacbfa1d43c73f0dd73829a9f18799a
        c5e3b8a5bb3ab91d61489840fbebd8cb65cdde374010275f5270cbf4a302ce9fe16cff95f77def844541b02a9793bc5739839f3f
        43ef7ed652dccfd11a3147f2c0587f4f018d423df4b19c3198cab4ed85b81bdd37fe563f8da30ff5a5a0f08bc6ee921051e653f2
        2bbe757644d88a914b40ebe3c932a4d6ac1584a4f0d18d1c3c42d7a2fc9b55c22276f3e5d1120a76742a0ade03a4dbbdf6718c5f
        d4a688e1e0be9623""",
    "answer": """
        4a5002021026ea90e9e69c048cf40c6846431c204200000000000000000000000000000014df3536e2e52cea7bd40f37d31b4b06
        0000000000000002f1f9796d15652bd207d217f51e954ade10880c41a8ddee118f0ce6e41a50d4fb46212b53a52107699417fb97
        156772fd2f9d1e2c3f63673d4427b3e72efb3bfcbaf3320f04d04317df3f37bfb7c5f116aa63b5dc88b7e5fe5c513831500a8eec
        004d5aaaf1d4b02bad44afe65141330bb6c62cb8bdbc612e8b0d0fe81294a876188b1506d4fdc7d962e39fcc6fa1c53589b6e320
        71c2bc5e9e9cc86a4a1feb206eb3fe34e1b998c4a056585bacfd730a71a98735085ebda38c75ff09ba4c911d4748ef19e30af383
        91e5b006d390a975974e084005c9e6af4ce858106e5b299bb95777e066167d5695b6f3c20a394937868925fc124e3cc5f5a8f75b
        f282d1c46c548a16""",
}


def exchanged() -> dict[str, bytes]:
    """A sends a message to B, which does not know it: the frames that follow, by name."""
    one, other = Authenticated("A"), Authenticated("B")
    found = {"message": one.send(b"first")}
    other.take(found["message"], "A")
    (found["challenge"],) = other.frames()
    one.take(found["challenge"], "B")
    (found["answer and challenge"],) = one.frames()
    other.take(found["answer and challenge"], "A")
    (found["answer"],) = other.frames()
    assert other.delivered() == [b"first"]
    one.take(found["answer"], "B")
    assert one.frames() == []
    assert one.knows(other)
    return found


def hkdf(secret: bytes, info: bytes, length: int = 32) -> bytes:
    """RFC 5869 with SHA-256 and no salt, for one block."""
    extracted = hmac.new(bytes(32), secret, hashlib.sha256).digest()
    return hmac.new(extracted, info + b"\1", hashlib.sha256).digest()[:length]


def opened(frame: bytes) -> bytes:
    """The text of a frame under the keyring's key."""
    magic, version, stream, key_id, cluster, sender, counter = struct.unpack_from(">2sBB8s8s32sQ", frame)
    assert (magic, version, cluster) == (b"JP", 2, hashlib.blake2b(b"demo", digest_size=8).digest())
    assert key_id == hkdf(KEYS.active.secret, b"jgroups_py key id", 8)
    key = hkdf(KEYS.active.secret, b"jgroups_py frame 2" + struct.pack(">B8s8s32sQ", 0, key_id, cluster, sender,
                                                                        counter >> 26))
    return AESGCM(key).decrypt(struct.pack(">IQ", stream, counter), frame[HEAD_BYTES:], frame[:HEAD_BYTES])


def test_an_exchange_has_its_golden_bytes() -> None:
    assert {name: frame.hex() for name, frame in exchanged().items()} == {
        name: text.replace(" ", "").replace("\n", "") for name, text in GOLDEN.items()}


def test_the_golden_exchange_is_what_the_documents_say() -> None:
    """Both answers prove what they should: their signatures are of the transcript, made by the members' own keys."""
    frames = {name: bytes.fromhex(text.replace(" ", "").replace("\n", "")) for name, text in GOLDEN.items()}
    form = struct.Struct(">16s16s16sQQQQ64sHH")
    asks, both, answers = (opened(frames[name]) for name in ("challenge", "answer and challenge", "answer"))
    senders = {name: frame[20:52] for name, frame in frames.items()}
    assert senders["message"] == senders["answer and challenge"]
    assert senders["challenge"] == senders["answer"]
    for asked, text, prover, verifier, name in (
            (asks, both, senders["message"], senders["challenge"], "A"),
            (both, answers, senders["challenge"], senders["message"], "B")):
        _, challenge, *_ = form.unpack_from(asked)
        verifier_keys = form.unpack_from(asked)[7]
        dest, _, answer, *counters, keys, credential_bytes, proof_bytes = form.unpack_from(text)
        credential = text[form.size:form.size + credential_bytes]
        proof = text[form.size + credential_bytes:]
        assert (dest, answer, len(proof)) == (verifier[:16], challenge, proof_bytes)
        assert credential == identity_named(name).signer.public
        transcript = hashlib.sha256(b"jgroups_py handshake 2" + struct.pack(
            ">B8s32s32s16s64s64sQQQQH", 0, cluster_id("demo"), prover, verifier, answer, keys, verifier_keys, *counters,
            credential_bytes) + credential).digest()
        Ed25519PublicKey.from_public_bytes(credential).verify(proof, transcript)



def sealed_frames() -> list[tuple[str, Member, str, bytes]]:
    """Twenty frames of all streams: what they are, a member that takes them, of whom they are, and their bytes."""
    found: list[tuple[str, Member, str, bytes]] = []
    for name, frame in exchanged().items():
        fresh = Authenticated("B" if name in ("message", "answer and challenge") else "A")
        found.append((f"{name}, to one that asked nothing", fresh, "A" if fresh.name == "B" else "B", frame))
    one, other = Member("A"), Member("B")
    other.take(one.send(b"first"), "A")
    for frame in other.frames():
        one.take(frame, "B")
    for frame in one.frames():
        other.take(frame, "A")
    other.delivered()
    for payloads in ((b"x",), (b"",), (b"xy", b"z"), (bytes(60),) * 3):
        found.append(("multicast", other, "A", one.send(*payloads)))
        found.append(("unicast", other, "A", one.send(*payloads, dest=other.me)))
    for sign in ("none", "pair", "each"):
        first, second, _ = group("A", "B", "C", sign=sign)
        found.append((f"multicast, sign={sign}", second, "A", first.send(b"x")))
        first.stack.inject(Batch(first.me, None, (), (LeaveRequest(None),), CONTROL), 0)
        found += [(f"control, sign={sign}", second, "A", frame) for frame in first.frames()]
    found.append(("unicast of a pair", second, "A", first.send(b"x", dest=second.me)))
    first.stack.inject(Batch(first.me, None, (), (Info(view_of("A").id, first.place),), CONTROL), 0)
    found += [("discovery", second, "A", frame) for frame in first.frames()]
    return found


def test_twenty_frames_of_all_streams_are_dropped_whichever_bit_is_flipped_and_wherever_they_are_cut() -> None:
    frames = sealed_frames()
    assert len(frames) == 20
    assert {stream_of(frame) for _, _, _, frame in frames} == {
        MULTICAST_STREAM, UNICAST_STREAM, HANDSHAKE_STREAM, DISCOVERY_STREAM, SIGNED_STREAM, TAGGED_STREAM}
    for what, member, source, frame in frames:
        before, proven = sum(member.drops().values()), dict(member.encrypt.senders.proven)
        opened_before = member.stats["frames_opened"]
        changed = [frame[:bit // 8] + bytes([frame[bit // 8] ^ 1 << bit % 8]) + frame[bit // 8 + 1:]
                   for bit in range(8 * len(frame))] + [frame[:stop] for stop in range(len(frame))]
        for each in changed:
            member.take(each, source)
        # A frame whose key may come is kept for a while.
        member.advance(seconds(6))
        member.frames()
        assert sum(member.drops().values()) - before == len(changed), what
        assert (member.delivered(), member.stats["frames_opened"]) == ([], opened_before), what
        assert member.encrypt.senders.proven == proven, what


@pytest.mark.parametrize("sign", ["none", "pair", "each"])
def test_a_frame_counts_after_its_changed_copies(sign: str) -> None:
    one, other, _ = group("A", "B", "C", sign=sign)
    frame = one.send(b"x")
    for bit in range(0, 8 * len(frame), 7):
        other.take(frame[:bit // 8] + bytes([frame[bit // 8] ^ 1 << bit % 8]) + frame[bit // 8 + 1:], "A")
    other.take(frame, "A")
    assert other.delivered() == [b"x"]
    assert isinstance(other, Viewed)
