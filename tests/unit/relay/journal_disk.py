"""One RELAY layer with a journal on a disk in memory, which writes and syncs at once unless a test delays it."""
from __future__ import annotations

from collections import deque
from random import Random

from jgroups_py.model.address import Address
from jgroups_py.model.batch import Batch
from jgroups_py.model.events import (
    Connect,
    Event,
    JournalFailed,
    JournalOpened,
    SegmentRead,
    SegmentsSynced,
    ViewChange,
)
from jgroups_py.model.outputs import (
    AppendSegment,
    Deliver,
    HoldDurability,
    LogEntry,
    NodeFailed,
    OpenJournal,
    Output,
    ReadSegment,
    RemoveSegment,
    SyncSegments,
)
from jgroups_py.model.secrets import Secrets
from jgroups_py.model.view import View, ViewId
from jgroups_py.node.node import NodeStack
from jgroups_py.protocols.relay import Relay
from jgroups_py.protocols.relay.config import RelayConfig
from jgroups_py.protocols.relay.headers import Numbered, Numbers, SiteRow, Sync, Trim
from jgroups_py.sealing.keyring import GroupKeyring
from jgroups_py.stack.protocol import Protocol, on


def address(name: str) -> Address:
    return Address(name.encode().ljust(16, b"\0"), name)


class Ground(Protocol):
    """The bottom: records that the member connects, and passes its multicasts back to it alone."""

    def start(self) -> None:
        self.connected: list[str] = []

    def down(self, batch: Batch) -> None:
        if batch.dest is None:
            self.pass_up(batch)

    @on(Connect)
    def connecting(self, event: Connect) -> None:
        self.connected.append(event.cluster)


class Disk:
    """Files by name. broken: why appending fails; lazy: syncs wait for `finish_sync`."""

    def __init__(self) -> None:
        self.files: dict[str, bytearray] = {}
        self.broken = ""
        self.lazy = False
        self.syncs: deque[int] = deque()

    def copied(self) -> Disk:
        """As another process finds it."""
        other = Disk()
        other.files = {name: bytearray(data) for name, data in self.files.items()}
        return other

    @property
    def nbytes(self) -> int:
        return sum(map(len, self.files.values()))


class DiskSecrets(Secrets):
    """Of one process. seed: of what it draws; keyrings: path -> keyring."""

    def __init__(self, seed: str, keyrings: dict[str, GroupKeyring]) -> None:
        self.random, self.keyrings = Random(seed), keyrings

    def draw(self, nbytes: int) -> bytes:
        return self.random.randbytes(nbytes)

    def keyring(self, path: str) -> GroupKeyring:
        return self.keyrings[path]


class Holder:
    """A member of site NYC whose group is itself, with RELAY on `disk`. Nothing is sent: there is no bridge.

    keyrings: the files at these paths.
    """

    def __init__(
        self, disk: Disk, *, name: str = "A", incarnation: str = "1", cluster: str = "demo", now_ns: int = 0,
        keyrings: dict[str, GroupKeyring] | None = None, **options: object,
    ) -> None:
        self.disk = disk
        self.me = Address((name + incarnation).encode().ljust(16, b"\0"), name)
        config = RelayConfig(**{"site": "NYC", "bridge_props": "bridge.xml", "hold_dir": "/hold", **options})
        self.ground, self.relay = Ground(), Relay(config)
        self.secrets = DiskSecrets(f"{name}{incarnation}", keyrings or {})
        self.stack = NodeStack([self.ground, self.relay], self.me, now_ns=now_ns, secrets=self.secrets)
        self.outputs: list[Output] = []
        self.delivered: list[bytes] = []
        self.stack.inject(Connect(cluster), now_ns)
        self.drain()

    def found_group(self, *others: str) -> Holder:
        """A view with this member as the relay and others that send nothing; SFO is known, and not on the bridge."""
        view = View(ViewId(1, self.me), (self.me, *map(address, others)))
        self.notify(ViewChange(view, None, view.members, ()))
        self.trim({}, *([] if self.relay.table.get("SFO") else [site_row("SFO", {})]))
        return self

    def join(self, clock_ns: int, numbers: Numbers | None = None) -> None:
        """A view whose coordinator's SYNC has the site's hold clock, SFO in its table, and how far the group has the
        origins of the site."""
        other = address("Z")
        view = View(ViewId(self.stack.now_ns // 10**9 + 2, other), (other, self.me))
        self.notify(ViewChange(view, None, view.members, ()))
        self.arrives(Batch(other, None, (), (Sync({"NYC": numbers or {}}, (site_row("SFO", {}),), {}, clock_ns),)))

    # --- what happens to it -----------------------------------------------------------------------------------------

    def multicast(self, *payloads: bytes) -> None:
        self.stack.inject(Batch(self.me, None, payloads), self.stack.now_ns)
        self.drain()

    def receive(self, origin: Address, first: int, *payloads: bytes) -> None:
        """A multicast of another member of this site; this member, the relay, holds it."""
        self.arrives(Batch(origin, None, payloads, (Numbered(first),)))

    def trim(self, below: dict[Address, int], *rows: SiteRow) -> None:
        """The coordinator's TRIM."""
        self.relay.table.combine(rows, {}, {})
        self.arrives(Batch(self.me, None, (), (Trim(rows, below, False),)))

    def arrives(self, batch: Batch) -> None:
        self.ground.pass_up(batch)
        self.stack.run()
        self.drain()

    def wait(self, duration_ns: int) -> None:
        """Let time pass."""
        stop = self.stack.now_ns + duration_ns
        while self.stack.next_deadline_ns is not None and self.stack.next_deadline_ns <= stop:
            self.stack.advance(max(self.stack.now_ns, self.stack.next_deadline_ns))
            self.drain()
        self.stack.advance(stop)
        self.drain()

    def notify(self, event: Event) -> None:
        self.stack.notify(event, self.stack.now_ns)
        self.drain()

    def finish_sync(self) -> None:
        """The disk has done a sync that it was asked for."""
        self.notify(SegmentsSynced(self.disk.syncs.popleft()))

    # --- the disk ---------------------------------------------------------------------------------------------------

    def drain(self) -> None:
        while self.stack.outputs:
            outputs, self.stack.outputs = self.stack.outputs, []
            for output in outputs:
                self.outputs.append(output)
                answer = self.carry_out(output)
                if answer is not None:
                    self.stack.notify(answer, self.stack.now_ns)

    def carry_out(self, output: Output) -> Event | None:
        disk = self.disk
        match output:
            case OpenJournal():
                return JournalOpened((*disk.files, "lock", "notes.txt"))
            case ReadSegment(name):
                return SegmentRead(name, bytes(disk.files[name]))
            case AppendSegment(name, data):
                if disk.broken:
                    return JournalFailed(disk.broken)
                disk.files.setdefault(name, bytearray()).extend(data)
            case RemoveSegment(name):
                del disk.files[name]
            case SyncSegments(number):
                disk.syncs.append(number)
                return None if disk.lazy else SegmentsSynced(disk.syncs.popleft())
            case Deliver(batch):
                self.delivered.extend(batch.payloads)
        return None

    # --- what came of it --------------------------------------------------------------------------------------------

    def outputs_of(self, kind: type[Output]) -> list[Output]:
        """Outputs of a kind."""
        return [output for output in self.outputs if isinstance(output, kind)]

    @property
    def durability(self) -> list[str]:
        return [output.reason for output in self.outputs_of(HoldDurability)]         # type: ignore[attr-defined]

    @property
    def failure(self) -> str:
        """Why the node cannot start."""
        return " ".join(output.reason for output in self.outputs_of(NodeFailed))     # type: ignore[attr-defined]

    @property
    def warnings(self) -> str:
        return "\n".join(note.text for note in self.outputs_of(LogEntry) if note.level == "warning")  # type: ignore[attr-defined]

    def held(self) -> dict[tuple[Address, int], bytes]:
        """(origin, number) -> payload, of everything in the hold."""
        return {(origin, held.first + index): payload for origin, batches in self.relay.hold.batches.items()
                for held in batches for index, payload in enumerate(held.batch.payloads)}


def site_row(name: str, acked: dict[Address, int], status: int = 0) -> SiteRow:
    return SiteRow(name, status, None, (), acked, {})


def holder(disk: Disk | None = None, **options: object) -> Holder:
    """A member that has found a group."""
    return Holder(Disk() if disk is None else disk, **options).found_group()
