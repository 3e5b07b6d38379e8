"""In place of RELAY, for a test of one of its parts: keeps what the part does to its layer."""
from __future__ import annotations

from collections.abc import Callable, Hashable
from random import Random

from jgroups_py.model.address import Address
from jgroups_py.model.batch import Batch, Header
from jgroups_py.model.outputs import LogEntry, Output
from jgroups_py.model.units import seconds
from jgroups_py.protocols.relay.announcements import RelayAnnouncement
from jgroups_py.protocols.relay.config import RelayConfig
from jgroups_py.testing.bench import address


class Layer:
    """sent, outputs, announced: in order; timers: (name, about) -> when it is due; counters: as in a stack."""

    def __init__(self, me: str = "A", config: RelayConfig | None = None) -> None:
        self.me = address(me)
        self.config = config or RelayConfig(site="NYC", bridge_props="bridge")
        self.now_ns = seconds(100)
        self.rng = Random(0)
        self.sent: list[tuple[Header, Address | None]] = []
        self.outputs: list[Output] = []
        self.announced: list[RelayAnnouncement] = []
        self.timers: dict[tuple[str, Hashable], int] = {}
        self.counters: dict[str, int] = {}
        self.files: dict[str, bytes] = {}
        self.not_operators: tuple[Address, ...] = ()

    @property
    def notes(self) -> list[str]:
        return [f"{output.level}: {output.text}" for output in self.outputs if isinstance(output, LogEntry)]

    def send(self, header: Header, dest: Address | None, payloads: tuple[bytes, ...] = (), flags: int = 0) -> None:
        self.sent.append((header, dest))

    def dispatch(self, header: Header, batch: Batch) -> None:
        raise AssertionError("a test of one part has no other to dispatch to")

    def emit(self, output: Output) -> None:
        self.outputs.append(output)

    def set_timer(self, name: str, delay_ns: int, about: Hashable = None) -> None:
        self.timers[name, about] = self.now_ns + delay_ns

    def cancel_timer(self, name: str, about: Hashable = None) -> None:
        self.timers.pop((name, about), None)

    def timer_is_set(self, name: str, about: Hashable = None) -> bool:
        return (name, about) in self.timers

    def later(self, function: Callable[[], None]) -> None:
        function()

    def count(self, name: str, number: int = 1) -> None:
        self.counters[name] = self.counters.get(name, 0) + number

    def drop(
        self, name: str, batch: Batch | None, why: str, header: Header | None = None, *, number: int | None = None,
    ) -> None:
        self.count(name, number if number is not None else 1 if batch is None else batch.count)

    def warn(self, text: str) -> None:
        self.outputs.append(LogEntry("warning", text))

    def read_trusted_file(self, path: str) -> bytes:
        return self.files[path]

    def operator_refusal(self, member: Address) -> str:
        return "" if member not in self.not_operators else f"{member} has not the role 'operator'"

    def shown_identity(self, member: Address) -> str:
        return str(member)

    def announce(self, announcement: RelayAnnouncement) -> None:
        self.announced.append(announcement)
