"""Simulated groups to attack: packaged stacks, in all states that starts, crashes, splits and traffic bring about."""
from __future__ import annotations

import ipaddress
import re
from random import Random

from jgroups_py import wire
from jgroups_py.config.load import load
from jgroups_py.config.spec import StackSpec
from jgroups_py.model.address import ADDRESS_BYTES, PhysicalAddress
from jgroups_py.model.batch import OOB, Batch
from jgroups_py.model.errors import ChannelError, WireError
from jgroups_py.model.events import Broadcast
from jgroups_py.model.outputs import BRIDGE, LOCAL, Frame
from jgroups_py.model.ports import Peers, ViewSource
from jgroups_py.model.units import millis, seconds
from jgroups_py.simulator import App, World
from jgroups_py.simulator import history as h
from jgroups_py.simulator.attack.forging import cluster_of
from jgroups_py.simulator.attack.value_pool import ValuePool
from jgroups_py.simulator.process import Process
from jgroups_py.simulator.profiles.swim import known_by

MARK = b"after the attack"
HOST_NAME = re.compile(r"[A-Za-z0-9._-]{1,253}")     # of which the resolver finds out whether there is such a host
MOST_DATAGRAM = 65_507
MOST_STREAM = 16 << 20
DEST = slice(wire.SOURCE_END, wire.SOURCE_END + ADDRESS_BYTES)
SITES = {"NYC": "ABC", "SFO": "DE"}
WITH_SITES = ("nyc", "sfo", "bridge", "topics")
ALONE = ("membership", "gossip")                     # without views
STACKS = ("udp", "tcp", "flow", "names", "swim", *WITH_SITES, *ALONE)
LOCAL_PORTS = {"NYC": 45601, "SFO": 45602}


class Listener(App):
    """Keeps what is sent after the attack, and nothing else."""

    def delivered(self, batch: Batch) -> None:
        marked = [payload for payload in batch.payloads if payload.startswith(MARK)]
        (self.log if batch.dest is None else self.unicasts).extend(marked)


class NoHistory(h.History):
    """Names members, keeps nothing."""

    def add(self, entry: h.Entry) -> None:
        pass


def refusal(frame: Frame, stream: bool) -> str:
    """Why sockets would refuse a frame; "" if they would not."""
    nbytes = sum(map(len, frame.data))
    if nbytes > (MOST_STREAM if stream else MOST_DATAGRAM):
        return f"a frame of {nbytes} bytes"
    return "" if frame.to is None else place_refusal(frame.to)


def place_refusal(place: PhysicalAddress) -> str:
    """Why sockets would not send to `place`."""
    host, port = place
    if not 0 < port < 1 << 16:
        return f"port {port}"
    try:
        ipaddress.ip_address(host)
    except ValueError:
        if HOST_NAME.fullmatch(host) is None:
            return f"host {host[:40]!r}"
    return ""


class FuzzWorld(World):
    """inks: (net, site) -> the values seen in the frames on that wire. refused: what sockets would not have sent."""

    def __init__(self, seed: str, pools: dict[tuple[int, str], ValuePool]) -> None:
        super().__init__(seed)
        self.history = NoHistory()
        self.pools = pools
        self.rng = Random(f"{seed}/learning")
        self.refused: list[str] = []

    def _emit(self, process: Process, frame: Frame) -> None:
        socket = process.sockets.get(frame.net)
        if socket is not None:
            reason = refusal(frame, socket.stream)
            if reason:
                self.refused.append(reason)
                return
            if self.rng.random() < 0.3:
                self._learn(process, frame)
        super()._emit(process, frame)

    def _learn(self, process: Process, frame: Frame) -> None:
        stack = process.stack(frame.net)
        pool = self.pools.get((frame.net, process.site if frame.net == LOCAL else ""))
        if pool is not None and stack is not None:
            data = b"".join(frame.data)
            pool.raw.append(data)
            try:
                pool.record(wire.decode_frame(data, cluster_of(stack), pool.addresses))
            except WireError as error:
                # An answer to a non-member with its own absurd numbers harms no member.
                if data[3] & wire.MULTICAST or data[DEST] in self.members_raw():
                    self.refused.append(f"unreadable by members: {error}")

    def members_raw(self) -> list[bytes]:
        """The addresses of all that run, on all nets."""
        return [stack.me.raw for process in self.all_processes if process.running
                for stack in (process.stack(LOCAL), process.stack(BRIDGE)) if stack is not None]


class Groups:
    """One or two groups of a packaged stack, and what happens to them while they are attacked."""

    def __init__(self, stack: str, seed: str) -> None:
        self.stack = stack
        self.rng = Random(f"{seed}/groups")
        self.has_sites = stack in WITH_SITES
        self.sites = SITES if self.has_sites else {"": "ABC"}
        self.site_of = {name: site for site, names in self.sites.items() for name in names}
        wires = [(LOCAL, site) for site in self.sites] + ([(BRIDGE, "")] if self.has_sites else [])
        self.pools = {wire: ValuePool(Random(f"{seed}/{wire}")) for wire in wires}
        self.world = FuzzWorld(seed, self.pools)
        self.former_views: dict[bytes, None] = {}
        self.started = 0
        self.mend_ns: int | None = None
        for name in self.site_of:
            self.world.ip(name)

    # --- members ------------------------------------------------------------------------------------------------------

    def start(self, name: str) -> Process:
        """Start a member, or start it again."""
        world, site = self.world, self.site_of[name]
        bridge = None
        if site:
            hosts = ",".join(f"{world.ip(other)}[7900]" for other in self.site_of)
            bridge = load("bridge", {"bridge_hosts": hosts, "bridge_port_range": "0"})
        process = world.start(name, self.spec(site), f"group of {site}", bridge=bridge, app=Listener())
        world.stop_audit(name)                         # what forged frames do to the ledger is not judged here
        return process

    def spec(self, site: str) -> StackSpec:
        """The packaged stack for a member."""
        if self.stack in WITH_SITES:
            name = "topics" if self.stack == "topics" else "sfo" if site == "SFO" else "nyc"
            return load(name, {"site": site, "mcast_port": str(LOCAL_PORTS[site])})
        hosts = [self.world.ip(name) for name in self.site_of]
        match self.stack:
            case "tcp":
                return load("tcp", {"initial_hosts": ",".join(f"{host}[7800]" for host in hosts), "port_range": "0"})
            case "names":
                return load("names", {"initial_hosts": ",".join(f"{host}[7800]" for host in hosts), "port_range": "0",
                                      "bootstrap": f"{hosts[0]}:7800"})
            case "membership":
                places = ",".join(f"{host}[7946]" for host in hosts)
                return load("membership", {"initial_hosts": places, "port_range": "0"})
            case "gossip":
                return load("gossip", {"seeds": ",".join(f"{host}[7960]" for host in hosts), "port_range": "0"})
        return load(self.stack, {})

    def running(self, site: str | None = None) -> list[str]:
        """The names of those that run (of a site)."""
        return [name for name in self.world.running() if site is None or self.site_of[name] == site]

    def refresh(self) -> None:
        """What frames are made of: the members, views and places of this moment."""
        for (net, site), pool in self.pools.items():
            stacks = [stack for name in self.running() if net == BRIDGE or self.site_of[name] == site
                      for stack in (self.world.process(name).stack(net),) if stack is not None]
            pool.members = [stack.me for stack in stacks]
            if net == BRIDGE:
                pool.members += [process.me for process in self.world.all_processes[-8:]]
            else:
                pool.members += [process.me for process in self.world.all_processes[-4:] if process.site == site]
            for stack in stacks:
                membership = stack.find(ViewSource)
                view = membership.current_view() if membership is not None else None
                if view is not None:
                    self.former_views[view.id.raw] = None
                    pool.numbers.append(view.id.counter)
            pool.views = list(self.former_views)[-6:]
            pool.places = [place for place, socket in self.world.sockets.items() if socket.net == net]

    # --- what happens meanwhile ---------------------------------------------------------------------------------------

    def happen(self) -> None:
        """Something that befalls a group, at random."""
        rng, world = self.rng, self.world
        if self.mend_ns is not None and world.now_ns >= self.mend_ns:
            world.mend()
            self.mend_ns = None
        for name in self.site_of:
            process = world.processes.get(name)
            if (process is None or not process.running) and rng.random() < 0.4:
                self.start(name)
        running = [name for name in self.running() if not world.process(name).paused]
        if running:
            self.befall(rng.choice(running), rng.random())

    def befall(self, name: str, draw: float) -> None:
        """What a number from 0 to 1 stands for, at one member."""
        world, rng = self.world, self.rng
        mates = self.running(self.site_of[name])
        if draw < 0.5:
            self.talk(name, rng.choice(mates) if rng.random() < 0.4 else None)
        elif draw < 0.58 and len(mates) > 1:
            world.crash(name)
        elif draw < 0.64 and len(mates) > 1:
            world.leave(name)
        elif draw < 0.7 and len(mates) > 1 and self.mend_ns is None:
            world.partition([[name], [other for other in self.running() if other != name]])
            self.mend_ns = world.now_ns + millis(rng.randrange(200, 9000))
        elif draw < 0.76 and self.stack not in ALONE:
            world.get_state(name, rng.choice(mates))
        elif draw < 0.8 and self.has_sites:
            other = next(site for site in SITES if site != self.site_of[name])
            world.order(name, rng.choice(("offline", "online", "drain")), other)

    def talk(self, name: str, dest: str | None) -> None:
        """An application sends."""
        world, rng = self.world, self.rng
        if self.stack == "membership":
            return
        if self.stack == "gossip":
            world.inject_event(world.process(name), Broadcast(b"news"))
            return
        try:
            payloads = [b"." * rng.choice((10, 1000, 100_000))] * rng.choice((1, 1, 4, 40))
            world.send(name, dest, payloads, OOB if rng.random() < 0.1 else 0)
        except ChannelError:
            pass                                       # it is in no view just now

    # --- afterwards ---------------------------------------------------------------------------------------------------

    def recover(self) -> str:
        """The attack is over: do members find together, and does a message of a fresh one reach all? "" if so."""
        world = self.world
        world.heal()
        if not world.run_while(lambda: any(world.process(name).leaving for name in world.running()), seconds(60)):
            return f"not out: {[name for name in world.running() if world.process(name).leaving]}"
        for name in self.site_of:
            if not (name in world.processes and world.processes[name].running):
                self.start(name)
        if not world.run_while(lambda: not self.together(), seconds(180), millis(250)):
            return f"no common view: {self.shown()}"
        if self.stack in ALONE:
            return ""
        for site, names in self.sites.items():
            problem = self.undelivered(site, names)
            if problem:
                return problem
        return self.heard_across() if self.has_sites else ""

    def heard_across(self) -> str:
        """Once an operator has undone what forged orders did, a fresh member's message reaches the other site."""
        world = self.world
        for site, other in (("NYC", "SFO"), ("SFO", "NYC")):
            for name in self.sites[site]:
                world.order(name, "online", other)
        world.run_for(seconds(5))
        sender = self.sites["NYC"][-1]
        message = MARK + b" across"
        world.send(sender, None, [message])
        far = self.sites["SFO"]
        if world.run_while(lambda: any(message not in world.process(name).app.log for name in far), seconds(90),
                           millis(250)):
            return ""
        seen = {name: world.process(name).site_status for name in self.site_of}
        return f"{sender}'s message does not get to the other site: {seen}"

    def shown(self) -> dict[str, list[str]]:
        """The members that each lists, for a report."""
        if self.stack == "membership":
            return {name: [f"{member.name[:20]} {member.state} {member.incarnation}" for member in
                           known_by(self.world, name)] for name in self.site_of}
        return {name: self.world.view_names(name) for name in self.site_of}

    def together(self) -> bool:
        """Whether all list exactly each other."""
        world, names = self.world, list(self.site_of)
        match self.stack:
            case "membership":
                wanted = {world.address(name) for name in names}
                return all({member.address for member in known_by(world, name)
                            if member.state in ("alive", "suspect")} >= wanted for name in names)
            case "gossip":
                return all(len(world.node(name).local.find(Peers).known_peers()) >= len(names) - 1 for name in names)
        return all(world.agreed(members) for members in self.sites.values())

    def undelivered(self, site: str, names: str) -> str:
        """Start a member of this site anew; what it sends then, large and small, reaches its site's members."""
        world, sender = self.world, names[-1]
        world.crash(sender)
        self.start(sender)
        if not world.run_while(lambda: not world.agreed(names), seconds(120), millis(250)):
            return f"{sender} does not get in again: { {name: world.view_names(name) for name in names} }"
        wanted = [MARK + b" small", MARK + b"." * 200_000]
        world.send(sender, None, wanted)
        world.send(sender, names[0], [MARK + b" unicast"])

        def unheard() -> bool:
            return any(payload not in world.process(name).app.log for name in names for payload in wanted) or \
                not world.process(names[0]).app.unicasts
        if not world.run_while(unheard, seconds(30), millis(100)):
            got = {name: [len(payload) for payload in world.process(name).app.log] for name in names}
            return f"{sender}'s message is not delivered at all: {got}"
        return ""
