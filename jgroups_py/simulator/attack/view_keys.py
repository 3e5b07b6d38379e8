"""The attacker of a world with keys of views: it watches who holds which key, and forges with the keys of members.

K5, K6: whoever ever holds the key of a view is in the view in which its members seal with it: so one that joins later
opens nothing of before, and one that left or was excluded nothing of after. A coordinator that leaves knows the key of
the view that it decides, which is replaced at once: GRACE_NS. K7: no frame is opened that an insider made in the name
of another member.
"""
from __future__ import annotations

from typing import TYPE_CHECKING, Final

from jgroups_py import wire
from jgroups_py.model.address import Address
from jgroups_py.model.batch import NO_RELIABILITY, Batch
from jgroups_py.model.units import NS_PER_S, seconds
from jgroups_py.protocols.encrypt.ciphers import EPOCH_BITS, frame_cipher, nonce_of
from jgroups_py.protocols.encrypt.protocol import Encrypt
from jgroups_py.protocols.gms import Gms
from jgroups_py.protocols.gms.headers import LeaveRequest
from jgroups_py.sealing.primitives import key_id
from jgroups_py.simulator.attack.forging import Forger
from jgroups_py.simulator.attack.sealed import SealedAttacker, WatchedSealer
from jgroups_py.simulator.attack.value_pool import ValuePool
from jgroups_py.simulator.checkers import Violation
from jgroups_py.stack.protocol import CONTROL
from jgroups_py.stack.stack import Stack
from jgroups_py.wire.sealed_head import MULTICAST_STREAM, SIGNED_STREAM, TAGGED_STREAM, read_head, sealed_head

if TYPE_CHECKING:
    from jgroups_py.simulator.process import Process
    from jgroups_py.simulator.world import World

GRACE_NS: Final = seconds(5)
OF_VIEWS: Final = (MULTICAST_STREAM, SIGNED_STREAM, TAGGED_STREAM)
SIGNATURE: Final = bytes(64)


class ViewKeysAttacker(SealedAttacker):
    """holders: key id -> address of those that ever held it -> the first time; used: key id -> the members of the view
    in which it sealed -> the first and the last time."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.holders: dict[bytes, dict[Address, int]] = {}
        self.used: dict[bytes, dict[tuple[Address, ...], tuple[int, int]]] = {}
        self.ids: dict[bytes, bytes] = {}
        self.forged: dict[bytes, None] = {}

    def sealed(self, at: WatchedSealer, head: bytes) -> None:
        encrypt, now_ns = at.sealer, self.world.now_ns
        assert isinstance(encrypt, Encrypt)
        _, _, stream, key, _, _, _ = read_head(head)
        if stream in OF_VIEWS:
            times = self.used.setdefault(key, {})
            first_ns, _ = times.get(encrypt.members, (now_ns, now_ns))
            times[encrypt.members] = first_ns, now_ns
        self.note_keys(at.process)

    def note_keys(self, process: Process) -> None:
        """Which keys of views a process has."""
        for net in (0, 1):
            stack = process.stack(net)
            gms = stack.find(Gms) if stack is not None else None
            if gms is None:
                continue
            for secret in gms.secrets.values():
                if secret not in self.ids:
                    self.ids[secret] = key_id(secret)
                self.holders.setdefault(self.ids[secret], {}).setdefault(gms.me, self.world.now_ns)

    def key_violations(self) -> list[Violation]:
        """K5, K6: keys that a process held which was not in the view that sealed with it."""
        for process in self.world.all_processes:
            self.note_keys(process)
        name = self.world.history.name
        for key, uses in self.used.items():
            for members, (first_ns, last_ns) in uses.items():
                for holder, since_ns in self.holders.get(key, {}).items():
                    if holder in members or last_ns - first_ns <= GRACE_NS:
                        continue
                    rule = "K6" if since_ns <= first_ns else "K5"
                    shown = " ".join(map(name, members))
                    return [Violation(rule, f"{name(holder)} has the key with which {shown} sealed from "
                                      f"{first_ns / NS_PER_S:.3f} to {last_ns / NS_PER_S:.3f} s", last_ns)]
        return []

    # --- an insider -----------------------------------------------------------------------------------------------

    def make(self, kind: str, pool: ValuePool, stack: Stack, forger: Forger) -> bytes | None:
        if kind != "insider":
            return super().make(kind, pool, stack, forger)
        target = stack.find(Encrypt)
        members = [each for each in self.world.all_processes if each.running and each.stack(stack.net) is not None]
        victims = [found for each in members if (found := each.stack(stack.net)) is not None
                   and found.me in target.members and found.me != stack.me]
        if target.view_key is None or len(victims) < 2:
            return None
        victim = forger.rng.choice(victims)
        writer = victim.find(Encrypt).writer
        data = forger.rng.random() < 0.5 and target.config.sign != "none"
        batch = Batch(victim.me, None, (b"forged",), (), NO_RELIABILITY) if data else \
            Batch(victim.me, None, (), (LeaveRequest(None),), CONTROL)
        text = b"".join(wire.encode_inner(batch))
        stream = forger.rng.choice(OF_VIEWS)
        if stream != MULTICAST_STREAM:
            text += SIGNATURE if stream == SIGNED_STREAM else bytes(16) * (len(target.members) - 1)
        count = writer.counters[0] + 1 + forger.rng.randrange(500)
        head = sealed_head(stream, target.view_key.id, target.cluster, writer.sender, count)
        cipher = frame_cipher(target.view_key, stack.net, target.cluster, writer.sender, count >> EPOCH_BITS)
        frame = head + cipher.seal(nonce_of(stream, count), text, head)
        self.forged[frame] = None
        return frame

    def opened(self, at: WatchedSealer, data: bytes) -> None:
        if data in self.forged:
            return self.found("K7", f"{at.process.incarnation} opened a frame that an insider made in another's name")
        return super().opened(at, data)
