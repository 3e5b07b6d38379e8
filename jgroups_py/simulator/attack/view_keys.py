"""The attacker of a world with keys of views: it watches who holds which key, and forges with the keys of members.

K5, K6: whoever ever holds the key of a view is in the view in which its members seal with it: so one that joins later
opens nothing of before, and one that left or was excluded nothing of after. A coordinator that leaves knows the key of
the view that it decides, which is replaced at once: GRACE_NS. A process holds what its layers have, and what came in a
text that it opened. K7: no frame is opened that an insider made in the name of another member (insider.py); K6: nor one
that a former member made with a key that it remembers. What an intruder seals is not
judged: no member reads it.
"""
from __future__ import annotations

from collections.abc import Container
from typing import TYPE_CHECKING, Final

from jgroups_py.model.address import Address
from jgroups_py.model.outputs import Frame
from jgroups_py.model.units import NS_PER_S, seconds
from jgroups_py.protocols.encrypt.protocol import Encrypt
from jgroups_py.protocols.gms import Gms
from jgroups_py.sealing.primitives import key_id
from jgroups_py.simulator.attack.attacker import PLACE
from jgroups_py.simulator.attack.forging import Forger
from jgroups_py.simulator.attack.insider import OF_VIEWS, REMEMBERS, Insider
from jgroups_py.simulator.attack.sealed import SEALED, SealedAttacker, WatchedSealer
from jgroups_py.simulator.attack.value_pool import ValuePool
from jgroups_py.simulator.checkers import Violation
from jgroups_py.stack.stack import Stack
from jgroups_py.wire.sealed_head import read_head

if TYPE_CHECKING:
    from jgroups_py.simulator.process import Process
    from jgroups_py.simulator.world import World

GRACE_NS: Final = seconds(5)


class ViewKeysAttacker(SealedAttacker):
    """holders: key id -> address of those that ever held it -> the first time; used: key id -> the members of the view
    in which it sealed, and the name of the process that did -> the first and the last time; ids: key of a view -> its
    id."""

    has_keys = True
    grace_ns = GRACE_NS

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.holders: dict[bytes, dict[Address, int]] = {}
        self.used: dict[bytes, dict[tuple[tuple[Address, ...], str], tuple[int, int]]] = {}
        self.ids: dict[bytes, bytes] = {}
        self.insider = Insider(self)

    def sealed(self, at: WatchedSealer, head: bytes, text: list[bytes | bytearray], dest: Address | None) -> None:
        super().sealed(at, head, text, dest)
        encrypt, now_ns = at.sealer, self.world.now_ns
        assert isinstance(encrypt, Encrypt)
        _, _, stream, key, _, _, _ = read_head(head)
        if stream in OF_VIEWS:
            times = self.used.setdefault(key, {})
            first_ns, _ = times.get((encrypt.members, at.process.name), (now_ns, now_ns))
            times[encrypt.members, at.process.name] = first_ns, now_ns
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

    def times_of_use(self, uses: dict[tuple[tuple[Address, ...], str], tuple[int, int]], intruders: Container[str],
                     ) -> dict[tuple[Address, ...], tuple[int, int]]:
        """Members of a view -> the first and the last time at which one that is no intruder sealed with a key."""
        times: dict[tuple[Address, ...], tuple[int, int]] = {}
        for (members, name), (first_ns, last_ns) in uses.items():
            if name not in intruders:
                earlier_ns, later_ns = times.get(members, (first_ns, last_ns))
                times[members] = min(earlier_ns, first_ns), max(later_ns, last_ns)
        return times

    def key_violations(self, intruders: Container[str] = ()) -> list[Violation]:
        """K5, K6: keys that a process held which was not in the view that sealed with it. intruders: their names."""
        for process in self.world.all_processes:
            self.note_keys(process)
        name = self.world.history.name
        for key, uses in self.used.items():
            for members, (first_ns, last_ns) in self.times_of_use(uses, intruders).items():
                for holder, since_ns in self.holders.get(key, {}).items():
                    if holder in members or last_ns - first_ns <= GRACE_NS:
                        continue
                    rule = "K6" if since_ns <= first_ns else "K5"
                    shown = " ".join(map(name, members))
                    return [Violation(rule, f"{name(holder)} has the key with which {shown} sealed from "
                                      f"{first_ns / NS_PER_S:.3f} to {last_ns / NS_PER_S:.3f} s", last_ns)]
        return []

    def intercept(self, process: Process, frame: Frame, data: bytes) -> None:
        super().intercept(process, frame, data)
        stack = process.stack(frame.net)
        if frame.to == PLACE and stack is not None and data[:3] == SEALED:
            answer = self.insider.answer(stack, data)
            if answer is not None:
                self.feed(process, frame.net, answer)

    def make(self, kind: str, pool: ValuePool, stack: Stack, forger: Forger) -> bytes | None:
        if kind in self.insider.kinds:
            return self.insider.make(kind, stack, forger.rng)
        return super().make(kind, pool, stack, forger)

    def opened(self, at: WatchedSealer, data: bytes, text: bytes) -> None:
        if data in self.insider.forged:
            if self.insider.forged[data] == REMEMBERS:
                return self.found("K6", f"{at.process.incarnation} opened a frame under a key of a view that was over")
            return self.found("K7", f"{at.process.incarnation} opened a frame that an insider made in another's name")
        sealer = at.sealer
        assert isinstance(sealer, Encrypt)
        for secret, which in self.ids.items():
            if secret in text:
                self.holders.setdefault(which, {}).setdefault(sealer.me, self.world.now_ns)
        return super().opened(at, data, text)
