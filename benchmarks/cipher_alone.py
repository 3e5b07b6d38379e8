"""CIPHER_ALONE: a layer that calls the cipher for each frame, as often and over as many bytes as ENCRYPT does, and uses
nothing of it. The frames stay unsealed. So what a group with it costs beside one without is the least that sealing can
cost on this machine, whatever the code around the cipher does. Used by benchmarks.sealed; see also lone_request.py.

    <benchmarks.cipher_alone.CipherAlone tags="2"/>         directly above the transport
"""
from __future__ import annotations

from functools import lru_cache, partial
from typing import Any

import attrs

from jgroups_py.model.batch import Batch
from jgroups_py.model.units import count
from jgroups_py.protocols.transport.protocol import Transport
from jgroups_py.sealing.primitives import KEY_BYTES, NONCE_BYTES, Cipher
from jgroups_py.stack.protocol import Protocol
from jgroups_py.wire.sealed_head import HEAD_BYTES

STEP_BYTES = 1024                        # lengths are rounded down to multiples of it


@attrs.frozen
class CipherAloneConfig:
    """Properties of CIPHER_ALONE."""

    tags: int = count(0, doc="Tags behind each multicast: one for each other member with sign=\"pair\".", least=0)


class CipherAlone(Protocol):
    """See the module. The texts are zeros, so one nonce serves for all."""

    name = "CIPHER_ALONE"
    Config = CipherAloneConfig
    config: CipherAloneConfig

    def start(self) -> None:
        transport: Any = self.stack.find(Transport)
        room = transport.max_frame_bytes()
        self.cipher, self.nonce, self.head = Cipher(bytes(KEY_BYTES)), bytes(NONCE_BYTES), bytes(HEAD_BYTES)
        self.zeros = memoryview(bytes(room))
        self.sealed = lru_cache(maxsize=2 + room // STEP_BYTES)(
            lambda length: memoryview(self.cipher.seal(self.nonce, self.zeros[:length], self.head)))
        transport.transmit = partial(self.transmit, transport.transmit)
        transport.decoded = partial(self.decoded, transport.decoded)

    def transmit(self, transmit: Any, batch: Batch) -> bool:
        if not transmit(batch):
            return False                     # it is too large, and comes again in pieces
        text = self.zeros[:batch.nbytes // STEP_BYTES * STEP_BYTES]
        self.cipher.seal(self.nonce, text, self.head)
        for _ in range(self.config.tags if batch.dest is None else 0):
            self.cipher.mac(self.nonce, self.head, text)
        return True

    def decoded(self, decoded: Any, data: bytes, physical: Any) -> Any:
        batch = decoded(data, physical)
        if batch is not None:
            length = batch.nbytes // STEP_BYTES * STEP_BYTES
            self.cipher.open(self.nonce, self.sealed(length), self.head)
            if self.config.tags and batch.dest is None:
                self.cipher.mac(self.nonce, self.head, self.zeros[:length])
        return batch
