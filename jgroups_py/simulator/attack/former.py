"""A former member of a group with a shared key: it has the keys that were retired since, and speaks under them."""
from __future__ import annotations

from typing import TYPE_CHECKING

from jgroups_py import wire
from jgroups_py.model.batch import NO_RELIABILITY, Batch
from jgroups_py.protocols.encrypt.ciphers import EPOCH_BITS, frame_cipher, nonce_of
from jgroups_py.protocols.encrypt.protocol import Encrypt
from jgroups_py.simulator.attack.forging import Forger
from jgroups_py.simulator.attack.sealed import SealedAttacker, WatchedSealer
from jgroups_py.simulator.attack.value_pool import ValuePool
from jgroups_py.stack.stack import Stack
from jgroups_py.wire.sealed_head import MULTICAST_STREAM, sealed_head

if TYPE_CHECKING:
    from jgroups_py.simulator.world import World

RETIRED_KEYS = "retired keys"
READ_NS = 3 * 10**9                      # members that run have read a changed keyring by then


class FormerMember(SealedAttacker):
    """K6: nothing opens that it makes with a key that was retired, after members have read that."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.forged: dict[bytes, None] = {}

    def make(self, kind: str, pool: ValuePool, stack: Stack, forger: Forger) -> bytes | None:
        if kind != RETIRED_KEYS:
            return super().make(kind, pool, stack, forger)
        target, rng = stack.find(Encrypt), forger.rng
        writers = [encrypt.writer for each in self.world.all_processes if (found := each.stack(stack.net)) is not None
                   and (encrypt := found.find(Encrypt)) is not None and encrypt.writer is not None
                   and encrypt.me != stack.me]
        keys = [self.retired[which] for which, at_ns in self.retired_ns.items() if self.world.now_ns > at_ns + READ_NS]
        if not writers or not keys:
            return None
        writer, key = rng.choice(writers), rng.choice(keys)
        count = writer.counters[0] + 1 + rng.randrange(500)
        head = sealed_head(MULTICAST_STREAM, key.id, target.cluster, writer.sender, count)
        text = b"".join(wire.encode_inner(Batch(target.me, None, (b"remembered",), (), NO_RELIABILITY)))
        cipher = frame_cipher(key, stack.net, target.cluster, writer.sender, count >> EPOCH_BITS)
        frame = head + cipher.seal(nonce_of(MULTICAST_STREAM, count), text, head)
        self.forged[frame] = None
        return frame

    def opened(self, at: WatchedSealer, data: bytes, text: bytes) -> None:
        if data in self.forged and self.world.now_ns > at.process.resumed_ns + READ_NS:
            return self.found("K6", f"{at.process.incarnation} opened a frame under a key that was retired")
        return super().opened(at, data, text)
