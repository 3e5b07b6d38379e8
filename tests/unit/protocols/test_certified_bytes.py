"""The recorded exchange of two members with certificates (tests/wire/certified_exchange.py).

It is opened and verified here by the standards alone (AES-GCM, X.509, ECDSA of the library), from what design/wire.md
says; and a member of today believes it.
"""
from __future__ import annotations

import hashlib
import struct

import pytest
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding

from jgroups_py.wire import cluster_id
from tests.unit.protocols.test_auth_x509 import certified
from tests.unit.protocols.test_sealed_bytes import opened
from tests.unit.sealing.test_certificates import NOW_NS
from tests.wire.certified_exchange import AUTHORITY, FRAMES

FORM = struct.Struct(">16s16s16sQQQQ64sHH")


def in_bytes(text: str) -> bytes:
    return bytes.fromhex("".join(text.split()))


GOLDEN = {name: in_bytes(text) for name, text in FRAMES.items()}
ROOT = x509.load_der_x509_certificate(in_bytes(AUTHORITY))


def answer_of(asking: str, answering: str, verifier: str) -> tuple[x509.Certificate, bytes, bytes]:
    """The certificate that an answer shows, its proof, and the transcript that this is of. verifier: a frame of it."""
    asked, text = opened(GOLDEN[asking]), opened(GOLDEN[answering])
    challenge, verifier_keys = FORM.unpack_from(asked)[1], FORM.unpack_from(asked)[7]
    dest, _, answer, *counters, keys, credential_bytes, proof_bytes = FORM.unpack_from(text)
    credential, proof = text[FORM.size:FORM.size + credential_bytes], text[FORM.size + credential_bytes:]
    prover_sender, verifier_sender = GOLDEN[answering][20:52], GOLDEN[verifier][20:52]
    assert (dest, answer, len(proof)) == (verifier_sender[:16], challenge, proof_bytes)
    length = int.from_bytes(credential[:2], "big")
    assert length == len(credential) - 2, "a chain of one certificate"
    transcript = hashlib.sha256(b"jgroups_py handshake 2" + struct.pack(
        ">B8s32s32s16s64s64sQQQQH", 0, cluster_id("demo"), prover_sender, verifier_sender, answer, keys, verifier_keys,
        *counters, credential_bytes) + credential).digest()
    return x509.load_der_x509_certificate(credential[2:]), proof, transcript


@pytest.mark.parametrize(("asking", "answering", "verifier", "name"), [
    ("challenge", "answer and challenge", "challenge", "A"),
    ("answer and challenge", "answer", "message", "B"),
])
def test_both_answers_show_a_certificate_and_prove_its_key(asking, answering, verifier, name):
    certificate, proof, transcript = answer_of(asking, answering, verifier)
    certificate.verify_directly_issued_by(ROOT)
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    (uri,) = names.get_values_for_type(x509.UniformResourceIdentifier)
    assert uri.startswith(f"jgroups://demo/NYC/{name}")
    public = certificate.public_key()
    assert isinstance(public, ec.EllipticCurvePublicKey)
    assert isinstance(public.curve, ec.SECP256R1)
    assert len(proof) == 64
    signature = encode_dss_signature(int.from_bytes(proof[:32], "big"), int.from_bytes(proof[32:], "big"))
    public.verify(signature, transcript, ec.ECDSA(SHA256()))
    with pytest.raises(InvalidSignature):
        public.verify(signature, transcript[:-1] + bytes([transcript[-1] ^ 1]), ec.ECDSA(SHA256()))


def test_a_member_believes_the_recorded_exchange():
    """Its own challenge is that of the recording, as what a member draws follows from a seed in tests."""
    other = certified("B")
    other.read("ca.pem", ROOT.public_bytes(Encoding.PEM), wall_ns=NOW_NS)
    other.take(GOLDEN["message"], "A")
    assert other.frames() == [GOLDEN["challenge"]]
    other.take(GOLDEN["answer and challenge"], "A")
    assert other.delivered() == [b"first"]
    assert other.knows(certified("A"))
