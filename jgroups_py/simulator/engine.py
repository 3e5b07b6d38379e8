"""Engine: the virtual clock, and the loop that drives nodes as the rounds of a channel's loop do.

Due items are kept in buckets of one tick (100 us). So a node receives all frames of a tick together, as in a round that
reads its sockets until they are empty. Then its due timers fire, and then its outputs are carried out.
"""
from __future__ import annotations

import heapq
from collections.abc import Callable
from random import Random
from typing import Any

from jgroups_py.model.address import PhysicalAddress
from jgroups_py.model.events import Event
from jgroups_py.model.outputs import LOCAL, Frame
from jgroups_py.model.units import NS_PER_US, millis
from jgroups_py.sealing.keyring import GroupKeyring
from jgroups_py.simulator import history as h
from jgroups_py.simulator.archives import Archives
from jgroups_py.simulator.clocks import WallClocks
from jgroups_py.simulator.disks import Disks
from jgroups_py.simulator.links import VirtualLinks
from jgroups_py.simulator.network import STREAM_BACKLOG, Network, Weather, refusal_of, refusal_of_size
from jgroups_py.simulator.output_handlers import OutputHandlers
from jgroups_py.simulator.process import Process, Socket
from jgroups_py.simulator.tokens import TokenService

Due = tuple[Any, ...]
"""(None, call, arguments, None), (process, LOCAL, b"", None) to step it, or (socket, 0, data, the sender's address)."""
PARKED_FRAMES = 10_000                   # that the socket buffers of a paused process hold


class Engine:
    """The virtual time, and for each moment the frames, steps and calls that are due then."""

    def __init__(self, seed: str, weather: dict[int, Weather] | None, tick_ns: int = 100 * NS_PER_US) -> None:
        self.tick_ns = tick_ns
        self.now_ns = 0
        self.network = Network(f"{seed}/network", weather)
        self.history = h.History()
        self.links = VirtualLinks(self, self.network, self.name_at)
        self.clocks = WallClocks()
        self.disks = Disks(self, seed)
        self.archives = Archives(self, self.disks)
        self.handlers = OutputHandlers(self)
        self.sockets: dict[PhysicalAddress, Socket] = {}
        self.groups: dict[PhysicalAddress, list[Socket]] = {}    # IP multicast address -> sockets that joined it
        self.folders: dict[str, dict[str, bytes]] = {}           # the shared folder of FILE_PING
        self.names: dict[str, str | tuple[str | PhysicalAddress, ...]] = {}
        """What resolvers find: host name -> IP addresses, or addresses with ports, as records of type SRV give them."""
        self.names_ns = millis(5)                                # how long a resolution takes
        self.frame_count = 0
        self.step_count = 0
        self.keyrings: dict[str, GroupKeyring] = {}               # path -> the file, the same on all hosts
        self.files: dict[str, bytes] = {}                    # path -> the file that AUTH reads, the same on all hosts
        self.token_service = TokenService(Random(f"{seed}/tokens"))
        self.sealed = False                                  # stacks get ENCRYPT (World.seal)
        self.shows_places = False                            # streams say where a frame comes from, as real ones do
        self.tap: Callable[[Process, Frame, bytes], None] | None = None      # sees every frame that is sent (attack/)
        self.withholds: Callable[[Process, Frame, bytes], bool] | None = None    # keeps frames from their receivers
        self.drawn_keys: list[bytes] = []                        # all keys that members drew (simulator/secrets.py)
        self._names: dict[str, str] = {}                         # IP address -> name of the (first) process there
        self._next_port = 49152
        self._due: dict[int, list[Due]] = {}                     # time -> items due then
        self._times: list[int] = []                              # heap of the keys of _due

    def name_at(self, host: str) -> str:
        """The name of the process at an IP address; the address itself if there is none."""
        return self._names.get(host, host)

    def wall_ns(self, name: str) -> int:
        """The wall clock of a member's host, in ns since 1970."""
        return self.clocks.of(name).read(self.now_ns)

    def free_port(self) -> int:
        """A port that no process has used before."""
        self._next_port += 1
        return self._next_port

    # --- time -------------------------------------------------------------------------------------------------------

    def run_for(self, duration_ns: int) -> None:
        """Let `duration_ns` pass."""
        self.run_until(self.now_ns + duration_ns)

    def run_until(self, stop_ns: int) -> None:
        """Carry out all that is due up to `stop_ns`, inclusive."""
        times = self._times
        while times and times[0] <= stop_ns:
            at_ns = heapq.heappop(times)
            self.now_ns = at_ns
            self._run_bucket(self._due.pop(at_ns))
        self.now_ns = max(self.now_ns, stop_ns)

    def run_while(self, condition: Callable[[], bool], limit_ns: int, step_ns: int = millis(50)) -> bool:
        """Let time pass while `condition()` holds, for at most `limit_ns`. Returns whether it ceased to hold."""
        stop_ns = self.now_ns + limit_ns
        while condition():
            if self.now_ns >= stop_ns:
                return False
            self.run_for(step_ns)
        return True

    def after(self, delay_ns: int, call: Callable[..., None], *arguments: Any) -> None:
        """Make a call after `delay_ns`, at the next tick at the earliest."""
        self._plan(self.now_ns + max(delay_ns, self.tick_ns), (None, call, arguments, None))

    def remark(self, text: str) -> None:
        """Add a line to the history, for the reader."""
        self.history.add(h.Remark(self.now_ns, text))

    def when_awake(self, process: Process, call: Callable[[int], None]) -> None:
        """Call a function of a node now, or when its paused process resumes."""
        if process.paused or process.postponed:
            process.postponed.append(call)
        elif process.running:
            call(self.now_ns)
            self._settle(process)

    def notify(self, process: Process, event: Event, net: int) -> None:
        """Pass a node an event of its sockets, disks or links."""
        self.when_awake(process, lambda now_ns: process.node.notify(event, now_ns, net))

    def inject_event(self, process: Process, event: Event) -> None:
        """Pass a node an event of its channel, down its local stack."""
        self.when_awake(process, lambda now_ns: process.node.inject(event, now_ns))

    def app_busy(self, process: Process, on: bool) -> None:
        """The application of a process fell behind, or caught up."""
        self.when_awake(process, lambda now_ns: process.node.app_busy(on, now_ns))

    def answer_state(self, process: Process, request: int) -> None:
        """Provide the state of a process' application for a request."""
        self.handlers.answer_state(process, request)

    # --- the loop ---------------------------------------------------------------------------------------------------

    def _plan(self, at_ns: int, due: Due) -> int:
        tick_ns = self.tick_ns
        at_ns = -(-at_ns // tick_ns) * tick_ns
        bucket = self._due.get(at_ns)
        if bucket is None:
            self._due[at_ns] = [due]
            heapq.heappush(self._times, at_ns)
        else:
            bucket.append(due)
        return at_ns

    def _run_bucket(self, bucket: list[Due]) -> None:
        """Carry out one bucket: calls first, then each node once, with all its frames."""
        woken: dict[Process, dict[int, list[tuple[bytes, PhysicalAddress | None]]]] = {}
        for target, what, data, physical in bucket:
            if target is None:
                what(*data)
            elif target.__class__ is Process:
                woken.setdefault(target, {})
            else:
                socket = target if not target.closed else self.sockets.get(target.physical)
                if socket is not None:
                    frames = woken.setdefault(socket.process, {})
                    frames.setdefault(socket.net, []).append((data, physical))
        for process, frames in woken.items():
            self._step(process, frames)

    def _step(self, process: Process, frames: dict[int, list[tuple[bytes, PhysicalAddress | None]]]) -> None:
        if not process.running:
            return                                        # crashed or left earlier in this tick
        if process.paused:
            for net, arrived in frames.items():
                process.parked.extend((net, data, physical) for data, physical in arrived)
            del process.parked[PARKED_FRAMES:]
            return
        while process.postponed:
            process.postponed.popleft()(self.now_ns)
            self._settle(process)
            if not process.running:
                return
        if process.parked:
            for net, data, physical in reversed(process.parked):
                frames.setdefault(net, []).insert(0, (data, physical))
            process.parked = []
        self.step_count += 1
        node, now_ns = process.node, self.now_ns
        for net, arrived in frames.items():
            node.receive(arrived, now_ns, net)
        deadline_ns = node.next_deadline_ns
        if deadline_ns is not None and deadline_ns <= now_ns and not node.closed:
            node.advance(now_ns)
        self._settle(process)

    def _settle(self, process: Process) -> None:
        """Carry out the outputs of a node and plan its next step."""
        node = process.node
        if process.settling or process.held:
            return                # an application called from within a callback; the loop below drains its outputs
        process.settling = True
        outputs = node.drain()
        while outputs:
            for output in outputs:
                if output.__class__ is Frame:
                    self._emit(process, output)
                else:
                    self.handlers.carry_out(process, output)
            outputs = node.drain()
        process.settling = False
        if process.after_step is not None:
            process.after_step()
        deadline_ns = node.next_deadline_ns
        if deadline_ns is None or node.closed:
            process.wake_ns = None
        elif process.wake_ns is None or deadline_ns < process.wake_ns or process.wake_ns <= self.now_ns:
            process.wake_ns = self._plan(max(deadline_ns, self.now_ns + 1), (process, LOCAL, b"", None))

    # --- frames -----------------------------------------------------------------------------------------------------

    def _emit(self, process: Process, frame: Frame) -> None:
        own = process.sockets.get(frame.net)
        if own is None or not process.alive:
            return                                        # the sockets are not open yet, or closed
        data = b"".join(frame.data)
        self.frame_count += 1
        if self.tap is not None:
            self.tap(process, frame, data)
        if refusal := refusal_of_size(len(data), own.stream):
            own.counters.add(refusal)
        elif self.withholds is not None and self.withholds(process, frame, data):
            return
        elif frame.to is not None:
            socket = self.sockets.get(frame.to)
            if socket is not None:
                self._transmit(own, socket, data)
            elif refusal := refusal_of(frame.to):
                own.counters.add(refusal)
        elif own.group is not None:
            for socket in self.groups[own.group]:
                if socket is not own:
                    self._transmit(own, socket, data)

    def inject_frame(self, socket: Socket, data: bytes, physical: PhysicalAddress | None) -> None:
        """Deliver a frame that no member sent to a socket, at the next tick."""
        self._plan(self.now_ns + self.tick_ns, (socket, 0, data, physical))

    def _transmit(self, own: Socket, socket: Socket, data: bytes) -> None:
        path = self.network.path(own.process.name, socket.process.name, own.net)
        if path.cut:
            if own.stream and len(path.backlog) < STREAM_BACKLOG:
                path.backlog.append((socket, data))
            return
        # As real streams do; without ENCRYPT no layer needs it, and recorded histories stay as they are.
        physical = own.physical if self.sealed or self.shows_places or not own.stream else None
        for at_ns in path.arrivals(self.now_ns, own.stream, len(data)):
            self._plan(at_ns, (socket, 0, data, physical))
