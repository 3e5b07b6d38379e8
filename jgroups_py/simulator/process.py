"""A virtual process: one incarnation of a member with its sockets, links and application.

The application records what it delivers, may be slow (then it reports to the node that it is busy), and may provide
and install a state. The default state is the log of multicasts that it delivered, so that a test can see whether a
transferred state fits the message stream without a hole or a duplicate.
"""
from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from jgroups_py.model.address import Address, PhysicalAddress
from jgroups_py.model.batch import Batch
from jgroups_py.model.counters import Counters, declare, drop, table
from jgroups_py.model.outputs import LOCAL, Deliver, Output, ProvideState, StateBegin, StateEnd, StatePart
from jgroups_py.model.topics import EVERYTHING
from jgroups_py.model.units import NS_PER_S
from jgroups_py.model.view import GlobalView, View
from jgroups_py.node.node import Node
from jgroups_py.stack.stack import Stack

BUSY_BYTES = 1 << 20                     # undelivered bytes at which the application counts as busy
STATE_CHUNK_BYTES = 64 * 1024


class ProcessPort(Protocol):
    """The world as seen by a process and its application."""

    @property
    def now_ns(self) -> int:
        """The virtual time."""

    def after(self, delay_ns: int, call: Callable[..., None], *arguments: Any) -> None:
        """Call something later."""

    def app_busy(self, process: Process, on: bool) -> None:
        """Report that the application of a process fell behind, or caught up."""

    def answer_state(self, process: Process, request: int) -> None:
        """Provide the state of a process' application for a request."""


class App:
    """The application of a simulated member. Subclass it to do more.

    rate: messages a second that it can take, 0: unlimited. takes_events: whether `on_event` is called for views, sites
    and losses, as a channel's receiver is (the history has them in any case).
    """

    takes_events = False

    def __init__(self, rate: int = 0) -> None:
        self.rate = rate
        self.log: list[bytes] = []               # payloads of multicasts, in the order delivered
        self.unicasts: list[bytes] = []
        self.state_errors: list[str] = []        # one per state taken; "" if it was complete
        self._incoming: list[bytes] | None = None             # parts of a state that is arriving
        self._deferred: list[bytes] = []                         # multicasts that come after it

    def joins(self, world: ProcessPort, process: Process) -> None:
        """Called when the application starts in `process`; it may send from its callbacks."""
        self.world = world
        self.process = process

    def delivered(self, batch: Batch) -> None:
        """Called for each batch; messages that arrive during a state belong after it, as in a channel."""
        log = self.log if self._incoming is None else self._deferred
        (log if batch.dest is None else self.unicasts).extend(batch.payloads)

    def on_event(self, output: Output) -> None:
        """Called for a view, a site's status, a loss, the end, ...; only with `takes_events`."""

    def state_requested(self, request: int) -> None:
        """Called when a member requests the state: it must cover exactly what was delivered up to here."""
        self.world.answer_state(self.process, request)

    def state(self) -> bytes:
        """The state, for a joiner."""
        return b"".join(len(payload).to_bytes(4, "big") + payload for payload in self.log)

    def state_begins(self) -> None:
        """A state follows. If one was arriving already, it restarts, and messages since belong before the new one."""
        self._append_deferred()
        self._incoming = []

    def state_part(self, data: bytes) -> None:
        """The next bytes of a state."""
        assert self._incoming is not None, "a state begins before its parts"
        self._incoming.append(data)

    def state_ends(self, error: str) -> None:
        """The state is complete, or failed."""
        self.state_errors.append(error)
        if not error and self._incoming is not None:
            self.log = parse_log(b"".join(self._incoming))
        self._incoming = None
        self._append_deferred()

    def _append_deferred(self) -> None:
        self.log += self._deferred
        self._deferred = []


def parse_log(data: bytes) -> list[bytes]:
    """The payloads that App.state wrote."""
    log, at = [], 0
    while at < len(data):
        stop = at + 4 + int.from_bytes(data[at:at + 4], "big")
        log.append(data[at + 4:stop])
        at = stop
    return log


class Socket:
    """Where one stack of a process receives."""

    COUNTERS = declare(
        drop("no_port_dropped", "Frames to a port that is none."),
        drop("name_unresolved_dropped", "Frames to a host name: there is no resolver."),
        drop("frame_too_large_dropped", "Frames larger than a stream takes."),
        drop("send_EMSGSIZE_dropped", "Datagrams larger than a datagram may be."),
    )
    __slots__ = ("closed", "counters", "group", "net", "physical", "process", "stream")

    def __init__(
        self, process: Process, net: int, physical: PhysicalAddress, group: PhysicalAddress | None, stream: bool,
    ) -> None:
        self.process = process
        self.net = net
        self.physical = physical
        self.group = group                       # its IP multicast address, None without
        self.stream = stream
        self.closed = False
        self.counters = Counters(table(self.COUNTERS))               # of frames that it refused to send


class Process:
    """One incarnation of a member."""

    def __init__(self, name: str, number: int, host: str, site: str, node: Node, app: App) -> None:
        self.name = name
        self.incarnation = f"{name}#{number}"
        self.host = host
        self.site = site
        self.node = node
        self.app = app
        self.me: Address = node.me
        self.after_step: Callable[[], None] | None = None     # audits it (ledger_audit.py)
        self.alive = True                        # the operating system still runs it
        self.paused = False
        self.resumed_ns = 0
        self.leaving = False
        self.held = False                        # its application has not connected: the node does nothing yet
        self.settling = False                    # its outputs are being carried out
        self.sockets: dict[int, Socket] = {}     # net -> its socket
        self.wake_ns: int | None = None          # when the next step is planned
        self.parked: list[tuple[int, bytes, PhysicalAddress | None]] = []    # frames that arrived while paused
        self.postponed: deque[Callable[[int], None]] = deque()    # calls for its node that were made while paused
        self.view: View | None = None
        self.views: list[View] = []
        self.global_view: GlobalView | None = None
        self.interest = EVERYTHING               # the topics that its application subscribes to
        self.site_status: dict[str, str] = {}
        self.closed_reason: str | None = None
        self.connected = True                    # FLOW counts enough receivers
        self.keyrings: dict[str, object] = {}    # path -> the keyring read last
        self.trust: dict[tuple[int, str], bytes | None] = {}      # net, path -> the file of AUTH read last
        self.awaited: list[bytes] = []           # messages sent with `until`; the index is the ticket
        self.sent: dict[str, int] = {}           # destination name -> how many numbered messages were sent there
        self.waiting: deque[Output] = deque()    # outputs that a slow application has not taken yet
        self.waiting_bytes = 0
        self.busy = False

    @property
    def running(self) -> bool:
        """Alive, and neither left nor failed."""
        return self.alive and not self.node.closed

    def stack(self, net: int) -> Stack | None:
        """The local stack, or the bridge's while there is one."""
        return None if self.node.closed else self.node.local if net == LOCAL else self.node.bridge

    def __repr__(self) -> str:
        return f"<Process {self.incarnation}>"

    # --- the application --------------------------------------------------------------------------------------------

    def give(self, output: Output, world: ProcessPort) -> None:
        """Queue `output` for the application; a fast one takes it at once."""
        if not self.app.rate:
            self.take(output, world)
            return
        self.waiting.append(output)
        if isinstance(output, Deliver):
            self.waiting_bytes += output.batch.nbytes
            if self.waiting_bytes > BUSY_BYTES and not self.busy:
                self.busy = True
                world.app_busy(self, True)
        if len(self.waiting) == 1:
            self._plan(world)

    def _plan(self, world: ProcessPort) -> None:
        first = self.waiting[0]
        work = len(first.batch.payloads) * NS_PER_S // self.app.rate if isinstance(first, Deliver) else 0
        world.after(work, self._work_off, world)

    def _work_off(self, world: ProcessPort) -> None:
        if not self.alive or not self.waiting:
            return
        if self.paused:
            world.after(NS_PER_S // 10, self._work_off, world)
            return
        output = self.waiting.popleft()
        if isinstance(output, Deliver):
            self.waiting_bytes -= output.batch.nbytes
        self.take(output, world)
        if self.busy and self.waiting_bytes <= BUSY_BYTES // 2:
            self.busy = False
            world.app_busy(self, False)
        if self.waiting:
            self._plan(world)

    def take(self, output: Output, world: ProcessPort) -> None:
        """The application handles `output` now."""
        match output:
            case Deliver(batch):
                self.app.delivered(batch)
            case ProvideState(request):
                self.app.state_requested(request)
            case StateBegin():
                self.app.state_begins()
            case StatePart(data):
                self.app.state_part(data)
            case StateEnd(error):
                self.app.state_ends(error)
            case _:
                self.app.on_event(output)
