"""World: a virtual clock, a virtual network and production nodes on them, driven like runtime's duty cycle.

Events wait in buckets, one a tick (100 us), so that all frames that reach a node within a tick are handed to it
together, as a loop that reads its sockets dry would do; then due timers fire, then its outputs are carried out.
Names stand for members; a restarted member has the same name and host and a new incarnation ("A#2").
Source: the simulators of TigerBeetle (VOPR) and FoundationDB. Deviation: no virtual disk, members keep nothing.
"""
from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Sequence
from random import Random
from typing import Any

from jgroups_py.address import Address, PhysicalAddress
from jgroups_py.batch import Batch
from jgroups_py.config.spec import StackSpec
from jgroups_py.errors import ChannelClosedError, NotConnectedError
from jgroups_py.events import Event, GetState
from jgroups_py.node import BridgeLoader, Node
from jgroups_py.outputs import BRIDGE, LOCAL, Frame
from jgroups_py.sim import history as h
from jgroups_py.sim.carry import Carrier
from jgroups_py.sim.links import Links
from jgroups_py.sim.network import NETS, Network, Path, Weather
from jgroups_py.sim.process import App, Process, Socket
from jgroups_py.units import NS_PER_US, millis, seconds
from jgroups_py.view import View

Due = tuple[Any, ...]
PARKED_FRAMES = 10_000                   # what the sockets of a paused process hold

__all__ = ["World", "millis", "seconds"]


class World:
    """Everything that happens follows from `seed` and the calls made.

    weather: net -> weather to begin with and to heal to.
    """

    def __init__(
        self, seed: int | str = 0, *, weather: dict[int, Weather] | None = None, tick_ns: int = 100 * NS_PER_US,
    ) -> None:
        self.seed = str(seed)
        self.tick_ns = tick_ns
        self.now_ns = 0
        self.rng = Random(f"{seed}/world")
        self.network = Network(f"{seed}/network", weather)
        self.history = h.History()
        self.links = Links(self)
        self.carrier = Carrier(self)
        self.processes: dict[str, Process] = {}              # name -> its latest incarnation
        self.all_processes: list[Process] = []
        self.by_address: dict[Address, Process] = {}
        self.sockets: dict[PhysicalAddress, Socket] = {}
        self.groups: dict[PhysicalAddress, list[Socket]] = {}    # IP multicast address -> who listens
        self.folders: dict[str, dict[str, bytes]] = {}           # the shared folder of FILE_PING
        self.frame_count = 0
        self._hosts: dict[str, str] = {}                     # name -> IP address
        self._names: dict[str, str] = {}                     # IP address -> name of the (first) process there
        self._next_port = 49152
        self._due: dict[int, list[Due]] = {}                 # time -> what happens then
        self._times: list[int] = []                          # heap of the keys of _due

    # --- members ----------------------------------------------------------------------------------------------------

    def start(
        self, name: str, spec: StackSpec, cluster: str = "demo", *, bridge: StackSpec | BridgeLoader | None = None,
        app: App | None = None, host: str | None = None,
    ) -> Process:
        """Start a member, or start it again. bridge: the stack for RELAY's bridge; host: an IP address of its own by
        default."""
        old = self.processes.get(name)
        assert old is None or not old.running, f"{name} is already running"
        number = sum(1 for process in self.all_processes if process.name == name) + 1
        load_bridge = (lambda props: bridge) if isinstance(bridge, StackSpec) else bridge
        node = Node(spec, cluster, name, f"{self.seed}/{name}#{number}", self.now_ns, load_bridge=load_bridge)
        relay = spec.config_of("RELAY")
        site = relay.site if relay is not None else ""
        ip = self.ip(name) if host is None else self._hosts.setdefault(name, host)
        self._names.setdefault(ip, name)
        process = Process(name, number, ip, site, node, app or App())
        self.processes[name] = process
        self.all_processes.append(process)
        self.by_address[node.me] = process
        process.app.joins(self, process)
        self.history.started(self.now_ns, node.me, process.incarnation, site)
        self._settle(process)
        return process

    def ip(self, name: str) -> str:
        """The IP address of the host of `name`, also before it is started (for initial_hosts)."""
        if name not in self._hosts:
            number = len(self._hosts) + 1
            self._hosts[name] = f"10.0.{number // 250}.{number % 250}"
            self._names.setdefault(self._hosts[name], name)
        return self._hosts[name]

    def name_at(self, host: str) -> str:
        """The name of the process at an IP address, the address itself where nobody is."""
        return self._names.get(host, host)

    def process(self, name: str) -> Process:
        """The latest incarnation of `name`."""
        return self.processes[name]

    def node(self, name: str) -> Node:
        """The node of the latest incarnation of `name`."""
        return self.processes[name].node

    def address(self, name: str) -> Address:
        """The address of the latest incarnation of `name`."""
        return self.processes[name].me

    def running(self) -> list[str]:
        """The members that are alive and have not left, paused ones too."""
        return [name for name, process in self.processes.items() if process.running]

    def free_port(self) -> int:
        """A port that nobody used before."""
        self._next_port += 1
        return self._next_port

    # --- what tests look at -----------------------------------------------------------------------------------------

    def view_of(self, name: str) -> View | None:
        """The view that `name` has."""
        return self.processes[name].view

    def view_names(self, name: str) -> list[str]:
        """The names of the members in the view of `name`, in order; empty without a view."""
        view = self.processes[name].view
        return [member.name for member in view.members] if view is not None else []

    def delivered(self, name: str, *, unicast: bool = False) -> list[bytes]:
        """Payloads that the latest incarnation of `name` was given, in order: multicasts, or unicasts."""
        app = self.processes[name].app
        return app.unicasts if unicast else app.log

    def agreed(self, names: Iterable[str]) -> bool:
        """Whether all of `names` have one and the same view with exactly them as members."""
        wanted = sorted(names)
        views = [self.processes[name].view for name in wanted]
        return views[0] is not None and all(
            view == views[0] and view is not None and sorted(m.name for m in view.members) == wanted for view in views)

    def stats(self, name: str) -> dict[str, dict[str, float]]:
        """The counters of a member's protocols."""
        return self.processes[name].node.stats()

    # --- what applications do ---------------------------------------------------------------------------------------

    def send(self, name: str, dest: str | Address | None, payloads: Sequence[bytes], flags: int = 0) -> None:
        """Send each payload from `name` to all (None), or to a member by name or address.

        Raises:
            ChannelClosedError, NotConnectedError: as a channel would.
        """
        process = self.processes[name]
        if not process.running or process.leaving:
            raise ChannelClosedError()
        if process.view is None:
            raise NotConnectedError(f"{name} is in no view yet")
        to = self.address(dest) if isinstance(dest, str) else dest
        batch = Batch(process.me, to, tuple(payloads), (), int(flags))
        self.history.add(h.Send(self.now_ns, process.me, to, batch.payloads, batch.flags, process.view))
        process.node.send(batch, self.now_ns)
        self._settle(process)

    def post(self, name: str, dest: str | Address | None = None, count: int = 1, size: int = 0, flags: int = 0) -> None:
        """Send `count` messages with payloads of their own, like "A#1>*/17", filled up to `size` bytes with dots."""
        process = self.processes[name]
        to = self.address(dest) if isinstance(dest, str) else dest
        where = "*" if to is None else self.history.name(to)
        first = process.sent.get(where, 0)
        payloads = [f"{process.incarnation}>{where}/{index}".encode().ljust(size, b".")
                    for index in range(first, first + count)]
        self.send(name, to, payloads, flags)
        process.sent[where] = first + count

    def get_state(self, name: str, target: str | None = None, timeout_ns: int = seconds(10)) -> None:
        """Have `name` fetch the state from `target` (None: the coordinator)."""
        to = self.address(target) if target is not None else None
        self.inject(name, GetState(to, timeout_ns))

    def inject(self, name: str, item: Batch | Event) -> None:
        """Send a batch or an event down the local stack of `name`, unrecorded."""
        process = self.processes[name]
        process.node.inject(item, self.now_ns)
        self._settle(process)

    def leave(self, name: str) -> None:
        """Disconnect gracefully; the process ends when the node says Closed."""
        process = self.processes[name]
        if process.running and not process.leaving:
            process.leaving = True
            self.history.add(h.Leaving(self.now_ns, process.me))
            self.when_awake(process, process.node.disconnect)

    # --- faults -----------------------------------------------------------------------------------------------------

    def crash(self, name: str, *, power: bool = False) -> None:
        """Kill the process. power: its host goes dark with it, so that nothing is refused and no link breaks."""
        process = self.processes[name]
        if not process.alive:
            return
        if process.running:
            self.history.add(h.Crash(self.now_ns, process.me))
        process.alive = False
        if power:
            self.links.dark[process.host] = None
        for net in NETS:
            self.carrier.close_sockets(process, net, graceful=False)

    def pause(self, name: str) -> None:
        """Stop the process (SIGSTOP): connections stay, nothing is handled."""
        self.processes[name].paused = True
        self.remark(f"{name} is paused")

    def resume(self, name: str) -> None:
        """Let a paused process go on; what its sockets hold is handled at once."""
        process = self.processes[name]
        if not process.paused:
            return
        process.paused = False
        self.remark(f"{name} goes on")
        if process.alive:
            self._plan(self.now_ns, (process, LOCAL, b"", None))

    def partition(self, groups: Sequence[Iterable[str]], nets: Iterable[int] = NETS) -> None:
        """Cut every path between members of different groups; names in no group keep all their paths."""
        lists = [list(group) for group in groups]
        for mine in lists:
            for other in lists:
                if other is not mine:
                    for src in mine:
                        for dest in other:
                            self.network.cut(src, dest, nets)
        self.remark("partition " + " | ".join(" ".join(group) for group in lists))

    def cut(self, src: str, dest: str, nets: Iterable[int] = NETS) -> None:
        """Let nothing through from `src` to `dest`; the other direction stays."""
        self.network.cut(src, dest, nets)
        self.remark(f"cut {src} -> {dest}")

    def heal(self) -> None:
        """Undo cuts and bad weather, give power back. Paused processes stay paused."""
        self.remark("heal")
        self.links.dark.clear()
        self.network.clear_up()
        for path in self.network.mend():
            backlog, path.backlog = path.backlog, []
            for socket, data in backlog:
                self._fly(path, socket, data)

    def set_weather(self, weather: Weather, net: int = LOCAL) -> None:
        """The same weather on all paths of a net, until `heal`."""
        self.network.set_weather(net, weather)
        self.remark(f"weather on {'the bridge' if net == BRIDGE else 'local nets'}: {weather}")

    # --- time -------------------------------------------------------------------------------------------------------

    def run_for(self, duration_ns: int) -> None:
        """Let `duration_ns` pass."""
        self.run_until(self.now_ns + duration_ns)

    def run_until(self, stop_ns: int) -> None:
        """Let everything happen that is due before or at `stop_ns`."""
        times = self._times
        while times and times[0] <= stop_ns:
            at_ns = heapq.heappop(times)
            self.now_ns = at_ns
            self._happen(self._due.pop(at_ns))
        self.now_ns = max(self.now_ns, stop_ns)

    def run_while(self, condition: Callable[[], bool], limit_ns: int, step_ns: int = millis(50)) -> bool:
        """Let time pass while `condition()` holds, for `limit_ns` at most. Returns whether it ceased to hold."""
        stop_ns = self.now_ns + limit_ns
        while condition():
            if self.now_ns >= stop_ns:
                return False
            self.run_for(step_ns)
        return True

    def after(self, delay_ns: int, call: Callable[..., None], *arguments: Any) -> None:
        """Call something later (at the next tick at the earliest)."""
        self._plan(self.now_ns + max(delay_ns, self.tick_ns), (None, call, arguments, None))

    def remark(self, text: str) -> None:
        """Put a line into the history for the reader."""
        self.history.add(h.Remark(self.now_ns, text))

    def when_awake(self, process: Process, call: Callable[[int], None]) -> None:
        """Do something at a node now, or when its process goes on."""
        if process.paused:
            self.after(millis(100), self.when_awake, process, call)
        elif process.running:
            call(self.now_ns)
            self._settle(process)

    def tell(self, process: Process, event: Event, net: int) -> None:
        """Give a node news of its sockets."""
        self.when_awake(process, lambda now_ns: process.node.notify(event, now_ns, net))

    def give_down(self, process: Process, event: Event) -> None:
        """Give a node an event of its channel."""
        self.when_awake(process, lambda now_ns: process.node.inject(event, now_ns))

    def app_busy(self, process: Process, on: bool) -> None:
        """The application of a process fell behind, or caught up."""
        self.when_awake(process, lambda now_ns: process.node.app_busy(on, now_ns))

    def answer_state(self, process: Process, request: int) -> None:
        """The application of a process was asked for its state."""
        self.carrier.answer_state(process, request)

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

    def _happen(self, bucket: list[Due]) -> None:
        """What is due at one instant: calls first, then each node once, with all its frames."""
        stirred: dict[Process, dict[int, list[tuple[bytes, PhysicalAddress | None]]]] = {}
        for who, what, data, physical in bucket:
            if who is None:
                what(*data)
            elif who.__class__ is Process:
                if who.running:
                    stirred.setdefault(who, {})
            else:
                socket = who if not who.closed else self.sockets.get(who.physical)
                if socket is not None and socket.process.running:
                    frames = stirred.setdefault(socket.process, {})
                    frames.setdefault(socket.net, []).append((data, physical))
        for process, frames in stirred.items():
            self._step(process, frames)

    def _step(self, process: Process, frames: dict[int, list[tuple[bytes, PhysicalAddress | None]]]) -> None:
        if not process.running:
            return                                        # crashed or left at this very instant
        if process.paused:
            for net, arrived in frames.items():
                process.parked.extend((net, data, physical) for data, physical in arrived)
            del process.parked[PARKED_FRAMES:]
            return
        if process.parked:
            for net, data, physical in reversed(process.parked):
                frames.setdefault(net, []).insert(0, (data, physical))
            process.parked = []
        node, now_ns = process.node, self.now_ns
        for net, arrived in frames.items():
            node.receive(arrived, now_ns, net)
        deadline_ns = node.next_deadline_ns
        if deadline_ns is not None and deadline_ns <= now_ns and not node.closed:
            node.advance(now_ns)
        self._settle(process)

    def _settle(self, process: Process) -> None:
        """Carry out what the node wants and plan its next step."""
        node = process.node
        if process.settling:
            return                                        # an application called us from within; the loop below goes on
        process.settling = True
        outputs = node.drain()
        while outputs:
            for output in outputs:
                if output.__class__ is Frame:
                    self._emit(process, output)
                else:
                    self.carrier.carry_out(process, output)
            outputs = node.drain()
        process.settling = False
        deadline_ns = node.next_deadline_ns
        if deadline_ns is None or node.closed:
            process.wake_ns = None
        elif process.wake_ns is None or deadline_ns < process.wake_ns or process.wake_ns <= self.now_ns:
            process.wake_ns = self._plan(max(deadline_ns, self.now_ns + 1), (process, LOCAL, b"", None))

    # --- frames -----------------------------------------------------------------------------------------------------

    def _emit(self, process: Process, frame: Frame) -> None:
        mine = process.sockets.get(frame.net)
        if mine is None or not process.alive:
            return                                        # the sockets are not open yet, or gone
        data = b"".join(frame.data)
        self.frame_count += 1
        if frame.to is not None:
            socket = self.sockets.get(frame.to)
            if socket is not None:
                self._towards(mine, socket, data)
        elif mine.group is not None:
            for socket in self.groups[mine.group]:
                if socket is not mine:
                    self._towards(mine, socket, data)

    def _towards(self, mine: Socket, socket: Socket, data: bytes) -> None:
        path = self.network.path(mine.process.name, socket.process.name, mine.net)
        if path.cut:
            if mine.stream and len(path.backlog) < 1024:
                path.backlog.append((socket, data))
            return
        physical = None if mine.stream else mine.physical
        for at_ns in path.arrivals(self.now_ns, mine.stream):
            self._plan(at_ns, (socket, 0, data, physical))

    def _fly(self, path: Path, socket: Socket, data: bytes) -> None:
        for at_ns in path.arrivals(self.now_ns, True):
            self._plan(at_ns, (socket, 0, data, None))
