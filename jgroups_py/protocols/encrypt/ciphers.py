"""Sub-keys and nonces of frames: who seals, and what keeps a nonce from being used twice.

Nothing is sealed with a key of the keyring itself. A sub-key follows from it for each sender, network and EPOCH_FRAMES
frames; a sender is an incarnation's address and a random salt. The nonce is stream and counter. So the same nonce under
the same key would need the same salt twice: a restarted member draws another one, and so does the child of a fork.
Sources: NIST SP 800-38D section 8.2.1 (deterministic nonces), RFC 5869.
"""
from __future__ import annotations

import struct
from collections import deque
from collections.abc import Callable
from typing import Final

from jgroups_py.model.secrets import Secrets
from jgroups_py.model.units import seconds
from jgroups_py.protocols.encrypt.handshake import Side
from jgroups_py.protocols.encrypt.headers import NO_KEYS
from jgroups_py.sealing.keyring import GroupKey
from jgroups_py.sealing.primitives import KEY_BYTES, AgreementKey, Cipher, SigningKey, derive
from jgroups_py.wire.sealed_head import (
    COUNTED_AS,
    COUNTER,
    COUNTERS,
    MULTICAST_STREAM,
    SALT_BYTES,
    STREAMS,
    UNICAST_STREAM,
    head_start,
)

MAX_CIPHERS: Final = 1000                # with mode "view": one for each member that is sent unicasts
RECENT_NS: Final = seconds(5)            # so old a frame may be that is held until its sender has proven itself
NOTE_NS: Final = seconds(1)
NOTED: Final = 2 + RECENT_NS // NOTE_NS
Parts = list[bytes | bytearray]
Prover = Callable[[int, int, bytes, Parts], bytes | bytearray]
"""Makes the text of a frame as one, with what proves its sender behind it: from stream, counter, head and parts."""
EPOCH_BITS: Final = 26
"""A sub-key seals 2^26 frames of a stream at most: 2^38 blocks of GCM with frames of 64 KB, far below its limits."""
NONCE_STARTS: Final = tuple(struct.pack(">I", stream) for stream in range(STREAMS))
"""Stream -> the nonces of its frames up to the counter, which stands in them as in the head."""
Line = tuple[int, Callable[[bytes, bytes | bytearray, bytes | memoryview], bytes], bytes, bytes]
"""What the next frames of a stream under one key need: the first counter of another cipher, the cipher's `seal`, the
starts of their heads and of their nonces."""
_INFO = struct.Struct(">B8s8s32sQ")


def frame_cipher(key: GroupKey, net: int, cluster: bytes, sender: bytes, epoch: int) -> Cipher:
    """The cipher of a sender's frames of one epoch, on one network, under one key of the group."""
    return Cipher(derive(key.secret, b"jgroups_py frame 2" + _INFO.pack(net, key.id, cluster, sender, epoch)))


def nonce_of(stream: int, counter: int) -> bytes:
    """The nonce of a frame."""
    return NONCE_STARTS[stream] + COUNTER.pack(counter)


class FrameWriter:
    """Seals the frames of one member on one network. me: its address; cluster: the cluster's id.

    agreement, signer: its keys for exchanges with other senders, as new as the salt; None without AUTH.
    """

    def __init__(
        self, secrets: Secrets, me: bytes, net: int, cluster: bytes, key: GroupKey, *, exchanges: bool = False,
    ) -> None:
        self._secrets = secrets
        self._exchanges = exchanges
        self._me = me
        self._net = net
        self._cluster = cluster
        self._key = key
        self._renew()

    def _renew(self) -> None:
        """Become another sender: with a salt that no other process has, the counters may begin anew."""
        self._forks = self._secrets.forks
        self.sender = self._me + self._secrets.draw(SALT_BYTES)
        self.counters = [1] * COUNTERS           # stream -> the next counter
        self._noted: deque[tuple[int, int, int]] = deque(maxlen=NOTED)       # time -> the next counters then
        self.note_at_ns = 0                      # when `note` is due
        self._ciphers: dict[tuple[bytes, int], Cipher] = {}  # (key id, epoch) -> cipher
        self._lines: dict[tuple[int, bytes], Line] = {}      # (stream, key id) -> what is made of these ciphers
        self.agreement: AgreementKey | None = None
        self.signer: SigningKey | None = None
        if self._exchanges:
            self.agreement = AgreementKey(self._secrets.draw(KEY_BYTES))
            self.signer = SigningKey(self._secrets.draw(KEY_BYTES))

    @property
    def keys(self) -> bytes:
        """The public keys of exchanges, as handshake frames have them."""
        return self.agreement.public + self.signer.public if self.agreement and self.signer else NO_KEYS

    def side(self) -> Side:
        """This sender in an exchange."""
        self.renew_after_fork()
        return Side(self.sender, self.keys)

    def renew_after_fork(self) -> None:
        """Become another sender in the child of a fork: the other process goes on with this salt and its counters."""
        if self._secrets.forks != self._forks:
            self._renew()

    def note(self, now_ns: int) -> None:
        """Remember the counters: before a frame is sealed, once in NOTE_NS."""
        self.note_at_ns = now_ns + NOTE_NS
        self._noted.append((now_ns, self.counters[MULTICAST_STREAM], self.counters[UNICAST_STREAM]))

    def recent(self, now_ns: int) -> tuple[int, int]:
        """The next counters of multicasts and unicasts about RECENT_NS ago: frames below were sent before that."""
        for at_ns, multicasts, unicasts in self._noted:
            if at_ns > now_ns - RECENT_NS:
                return multicasts, unicasts
        return self.counters[MULTICAST_STREAM], self.counters[UNICAST_STREAM]

    def use(self, key: GroupKey) -> None:
        """Seal with another key from now on; the counters go on."""
        self._key = key
        self.forget_ciphers()

    def forget_ciphers(self) -> None:
        """Keys have changed: keep no cipher of one that is not used any more."""
        self._ciphers = {}
        self._lines = {}

    def seal(
        self, stream: int, parts: Parts, key: GroupKey | None = None, prover: Prover | None = None,
    ) -> list[bytes | bytearray]:
        """The next frame of a stream. parts: its text; key: another one than the group's."""
        if self._secrets.forks != self._forks:
            self._renew()
        counted = COUNTED_AS[stream]
        counter = self.counters[counted]
        self.counters[counted] = counter + 1
        if key is None:
            key = self._key
        line = self._lines.get((stream, key.id))
        if line is None or counter >= line[0]:
            line = self._new_line(stream, key, counter)
        _, seal, start, nonce_start = line
        count = COUNTER.pack(counter)
        head = start + count
        text = b"".join(parts) if prover is None else prover(stream, counter, head, parts)
        return [head, seal(nonce_start + count, text, head)]

    def _new_line(self, stream: int, key: GroupKey, counter: int) -> Line:
        epoch = counter >> EPOCH_BITS
        cipher = self._ciphers.get((key.id, epoch)) or self._new_cipher(key, epoch)
        line = self._lines[stream, key.id] = ((epoch + 1) << EPOCH_BITS, cipher.seal, head_start(
            stream, key.id, self._cluster, self.sender), NONCE_STARTS[stream])
        return line

    def _new_cipher(self, key: GroupKey, epoch: int) -> Cipher:
        former = [which for which in self._ciphers if which[0] == key.id]
        if len(former) >= COUNTERS:              # the streams may be in different epochs
            del self._ciphers[min(former)]
        if len(self._ciphers) >= MAX_CIPHERS:
            del self._ciphers[next(iter(self._ciphers))]
        self._lines = {}                         # some may be of what was dropped
        made = self._ciphers[key.id, epoch] = frame_cipher(key, self._net, self._cluster, self.sender, epoch)
        return made
