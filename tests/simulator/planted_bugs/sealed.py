"""Safeguards of ENCRYPT, shown by profile sealed."""
from __future__ import annotations

from typing import Any

from jgroups_py import wire
from jgroups_py.model.errors import WireError
from jgroups_py.protocols.encrypt import ciphers, protocol
from jgroups_py.protocols.encrypt.ciphers import FrameWriter, frame_cipher
from jgroups_py.protocols.encrypt.headers import NONE, Handshake
from jgroups_py.protocols.encrypt.protocol import Encrypt
from jgroups_py.protocols.encrypt.senders import SealedSender, Senders
from jgroups_py.protocols.transport.protocol import Transport
from jgroups_py.windows.replay import ReplayWindow
from jgroups_py.wire.frame import clear_frame
from jgroups_py.wire.sealed_head import sealed_head
from tests.simulator.planted_bugs.safeguard import Patch, Safeguard

prove, decoded, handshake_arrived = Senders.prove, Transport.decoded, Encrypt.handshake_arrived


def any_counter(self: ReplayWindow, counter: int) -> bool:
    return True


def believed_at_once(
    self: Encrypt, name: bytes, sender: SealedSender, data: bytes, stream: int, count: int, physical: Any,
) -> None:
    """The sender of any frame that opens counts as proven."""
    self.expect(name, sender)
    self.senders.hold(name, stream, count, data, physical)
    self.prove(name, Handshake(self.me.raw, NONE, NONE, 1, 1), 1, physical)


def from_the_first_counter(self: Senders, name: bytes, answer: Handshake, counter: int) -> Any:
    return prove(self, name, Handshake(answer.dest, answer.challenge, answer.answer, 1, 1), counter)


def any_answer(self: Encrypt, name: bytes, sender: SealedSender, text: bytes, count: int, physical: Any) -> None:
    """An answer to an earlier challenge, of any member, is as good as one to this one."""
    found = protocol.decode_handshake(text)
    waiting = self.senders.unproven.get(name)
    if waiting is not None and found.answer != NONE:
        text = Handshake(self.me.raw, found.challenge, waiting.challenge, found.multicasts, found.unicasts,
                         found.recent_multicasts, found.recent_unicasts).encode()
    handshake_arrived(self, name, sender, text, count, physical)


def clear_frames_too(self: Transport, data: bytes, physical: Any) -> Any:
    """A frame that is not sealed is taken as a transport without ENCRYPT takes it."""
    if self.sealer is not None and data[:3] == protocol.UNSEALED:
        try:
            return wire.decode_frame(data, self.cluster, self.addresses)
        except WireError:
            return None
    return decoded(self, data, physical)


def a_counter_twice(
    self: FrameWriter, stream: int, parts: Any, key: Any = None, prover: Any = None,
) -> list[bytes | bytearray]:
    """Only every second frame has a counter of its own."""
    counter = self.counters[stream] // 2
    self.counters[stream] += 1
    head = sealed_head(stream, self._key.id, self._cluster, self.sender, counter)
    cipher = frame_cipher(self._key, self._net, self._cluster, self.sender, counter >> ciphers.EPOCH_BITS)
    return [head, cipher.seal(ciphers.nonce_of(stream, counter), b"".join(parts), head)]


def not_sealed(
    self: Transport, data: list[bytes | bytearray], dest: Any, physical: Any,
) -> list[list[bytes | bytearray]]:
    """Unicasts leave in clear."""
    if self.sealer is None:
        return [data]
    if dest is not None:
        return [clear_frame(self.cluster, self.me.raw, data)]
    sealed = self.sealer.seal(data, dest, physical)
    return [] if sealed is None else [sealed]


SEALED_SAFEGUARDS = (
    Safeguard("a counter is accepted once", "ENCRYPT", "the window accepts any counter",
              (Patch(ReplayWindow, "accept", any_counter), Patch(ReplayWindow, "accepts", any_counter)),
              "sealed", "K3"),
    Safeguard("a sender proves that it is alive", "ENCRYPT", "any frame that opens is believed",
              (Patch(Encrypt, "hold", believed_at_once),), "sealed", "K3"),
    Safeguard("an answer counts for one challenge", "ENCRYPT", "any answer proves its sender",
              (Patch(Encrypt, "handshake_arrived", any_answer),), "sealed", "K3"),
    Safeguard("windows begin at the counters of the answer", "ENCRYPT", "windows begin at 1",
              (Patch(Senders, "prove", from_the_first_counter),), "sealed", "K3"),
    Safeguard("each frame has a counter of its own", "ENCRYPT", "two frames share a counter",
              (Patch(FrameWriter, "seal", a_counter_twice),), "sealed", "K13"),
    Safeguard("all frames are sealed", "transport", "unicasts are sent in clear",
              (Patch(Transport, "frames", not_sealed),), "sealed", "K1"),
    Safeguard("frames in clear are refused", "transport", "frames in clear are believed",
              (Patch(Transport, "decoded", clear_frames_too),), "sealed", "S1"),
)
