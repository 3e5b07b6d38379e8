"""Symbolic signatures: while a seed runs, signatures of Ed25519 are tags of which nobody but their signer is able.

A signature is the keyed hash of the signer's public key and the text, under a secret that this module alone has. So a
text of another signer, or a changed one, does not verify, as with the real ones, and members decide the same: a seed
has the same history with both, hash for hash (decision 28, which also has what it saves). What else stands in
sealing/primitives.py stays real here: AES-GCM of a library in C takes less time than any stand-in in Python.

There is no switch for it in stacks, options or the environment of members. The runner of seeds replaces two names of
sealing/primitives.py for one run, in its own thread; other threads, which may run real members, sign for real.
"""
from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import blake2b
from typing import Any

from jgroups_py.sealing import primitives
from jgroups_py.sealing.primitives import KEY_BYTES, NOT_VERIFIED, SIGNATURE_BYTES, SigningKey

_SECRET = blake2b(b"jgroups_py symbolic signatures", digest_size=KEY_BYTES).digest()


def _tag(public: bytes, text: bytes) -> bytes:
    return blake2b(public + text, digest_size=SIGNATURE_BYTES, key=_SECRET).digest()


class _Verifier:
    """Stands for Ed25519PublicKey: verifies tags in the thread of the run, and signatures in all others."""

    def __init__(self, real: Any, thread: int) -> None:
        self._real, self._thread = real, thread

    def from_public_bytes(self, public: bytes) -> Any:
        """A public key; any 32 bytes are one here, of which nobody can have the private key."""
        if threading.get_ident() != self._thread:
            return self._real.from_public_bytes(public)
        return _SymbolicKey(public)


class _SymbolicKey:
    def __init__(self, public: bytes) -> None:
        self._public = public

    def verify(self, signature: bytes, text: bytes) -> None:
        """As the real one; `verify` of primitives.py makes a WireError of a ValueError."""
        if signature != _tag(self._public, text):
            raise ValueError(NOT_VERIFIED)


@contextmanager
def symbolic_signatures(wanted: bool = True) -> Iterator[None]:
    """Signatures of this thread are tags inside the block; what was signed outside does not verify there."""
    if not wanted:
        yield
        return
    real_sign, real_public, thread = SigningKey.sign, vars(primitives)["Ed25519PublicKey"], threading.get_ident()

    def sign(self: SigningKey, text: bytes) -> bytes:
        return _tag(self.public, text) if threading.get_ident() == thread else real_sign(self, text)

    replaced = ((SigningKey, "sign", sign, real_sign),
                (primitives, "Ed25519PublicKey", _Verifier(real_public, thread), real_public))
    try:
        for owner, name, symbolic, _ in replaced:
            setattr(owner, name, symbolic)
        yield
    finally:
        for owner, name, _, real in replaced:
            setattr(owner, name, real)
