"""World: production nodes on a virtual clock and a virtual network, as tests use it.

Members are given by name; a restarted member has the same name and host and a new incarnation ("A#2"). Only journals of
RELAY and archives survive a restart (disks.py). Source: the simulators of TigerBeetle (VOPR) and FoundationDB.
"""
from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from random import Random

from jgroups_py.config.spec import StackSpec
from jgroups_py.model.address import Address
from jgroups_py.model.batch import Batch, Header
from jgroups_py.model.errors import ChannelClosedError, NotConnectedError
from jgroups_py.model.events import Event, GetState, RenewViewKey, SendUntil, SiteCommand, Subscribe, Unsubscribe
from jgroups_py.model.outputs import BRIDGE, LOCAL
from jgroups_py.model.topics import Interest, interest_in
from jgroups_py.model.units import millis, seconds
from jgroups_py.model.view import View
from jgroups_py.node.node import BridgeLoader, Node
from jgroups_py.protocols.relay import Relay
from jgroups_py.sealing.identities import KnownMembers, OwnIdentity, RevokedKeys, parse_revoked_keys
from jgroups_py.sealing.keyring import GroupKey, GroupKeyring, new_keyring
from jgroups_py.simulator import history as h
from jgroups_py.simulator.authority import CertifiedMember
from jgroups_py.simulator.engine import Engine
from jgroups_py.simulator.ledger_audit import LedgerAudit
from jgroups_py.simulator.network import NETS, Path, Weather
from jgroups_py.simulator.process import App, Process
from jgroups_py.simulator.secrets import REVOKED, TRUST, VirtualSecrets, token_of, virtual_key, with_auth, with_encrypt
from jgroups_py.simulator.stalls import Stalls
from jgroups_py.simulator.tokens import issue
from jgroups_py.wire.topic_headers import sites_of, topic_header

BRIDGE_KEYRING = "bridge.keys"

__all__ = ["World", "millis", "seconds"]


class World(Engine):
    """A simulated world; its history follows from `seed` and the calls made. weather: net -> its good weather."""

    def __init__(self, seed: int | str = 0, *, weather: dict[int, Weather] | None = None) -> None:
        self.seed = str(seed)
        super().__init__(self.seed, weather)
        self.rng = Random(f"{seed}/world")
        self.processes: dict[str, Process] = {}              # name -> its latest incarnation
        self.all_processes: list[Process] = []
        self.order_count = 0                                 # orders of operators
        self.cut_count = 0
        self.heal_count = 0                                  # how often all faults have healed
        self.encrypt_options: tuple[str, ...] = ()           # ENCRYPT's mode and sign, if not the defaults
        self.revoked_ns: dict[str, int] = {}                 # key -> when it was revoked
        self.identities: dict[str, OwnIdentity | CertifiedMember] = {}      # name -> of members that AUTH lets in
        self.authority = "keys"                              # AUTH's property
        self.by_address: dict[Address, Process] = {}
        self.audits: dict[Address, LedgerAudit] = {}         # of incarnations with RELAY
        self.untrusted: dict[str, None] = {}                 # sites that an attacker speaks for: no ledger is judged
        self.stalls = Stalls(self)
        self._hosts: dict[str, str] = {}                     # name -> IP address

    # --- members ----------------------------------------------------------------------------------------------------

    def start(
        self, name: str, spec: StackSpec, cluster: str = "demo", *, bridge: StackSpec | BridgeLoader | None = None,
        app: App | None = None, host: str | None = None, shown: str = "", site: str = "",
    ) -> Process:
        """Start a member, or start it again. bridge: the stack for RELAY's bridge; host: its IP address, by default one
        for each name; shown: its logical name, if that is another one; site: its site, if its stack names another."""
        old = self.processes.get(name)
        assert old is None or not old.running, f"{name} is already running"
        number = sum(1 for process in self.all_processes if process.name == name) + 1
        load_bridge = (lambda props: bridge) if isinstance(bridge, StackSpec) else bridge
        if self.sealed:
            spec, load_bridge = self._sealed_stacks(spec, load_bridge)
        if self.identities:
            spec, load_bridge = self._with_auth(name, spec, load_bridge)
        secrets = VirtualSecrets(f"{self.seed}/{name}#{number}", self.keyrings, self.files,
                                 self.drawn_keys)
        node = Node(spec, cluster, shown or name, f"{self.seed}/{name}#{number}", self.now_ns, load_bridge=load_bridge,
                    secrets=secrets)
        relay = spec.config_of("RELAY")
        site = site or (relay.site if relay is not None else "")
        ip = self.ip(name) if host is None else self._hosts.setdefault(name, host)
        self._names.setdefault(ip, name)
        self.links.dark.pop(ip, None)                        # its host has power again
        process = Process(name, number, ip, site, node, app or App())
        if isinstance(node.relay, Relay):
            audit = self.audits[node.me] = LedgerAudit(
                self, node.relay, has_topics=spec.config_of("TOPICS") is not None)
            process.after_step = audit.audit
            self.stalls.begin()
        self.processes[name] = process
        self.all_processes.append(process)
        self.by_address[node.me] = process
        process.app.joins(self, process)
        self.history.started(self.now_ns, node.me, process.incarnation, site)
        topics = spec.config_of("TOPICS")
        if topics is not None:
            self._set_interest(process, interest_in(*topics.interests))
        self._settle(process)
        return process

    def seal(self) -> None:
        """Members started from now on have ENCRYPT: each site with a keyring of its own, the bridge with another."""
        self.sealed = True

    def enroll(self, *identities: OwnIdentity) -> None:
        """Members started from now on have AUTH as well; these identities are known, and their files are there."""
        for own in identities:
            self.identities[own.identity.name] = own
            self.files[f"{own.identity.name}.pem"] = own.as_text().encode()
        known = KnownMembers({own.identity.key: own.identity for own in self.identities.values()})
        self.files[TRUST] = known.as_text().encode()
        self.files.setdefault(REVOKED, RevokedKeys().as_text().encode())

    def certify(self, authority: str, *members: CertifiedMember) -> None:
        """Members started from now on have AUTH as well; these have certificates of an authority (PEM)."""
        for made in members:
            self.identities[made.identity.name] = made
            self.files[f"{made.identity.name}.pem"] = made.file
        self.files[TRUST] = authority.encode()
        self.files.setdefault(REVOKED, RevokedKeys().as_text().encode())

    def give_token(self, own: OwnIdentity, until_ns: int) -> None:
        """Write a member's token, a new one if it has one: it reads the file when it looks at it next."""
        self.files[token_of(f"{own.identity.name}.pem")] = issue(own.identity, until_ns)

    def revoke(self, own: OwnIdentity | CertifiedMember) -> None:
        """Revoke a key on all hosts at once; members read the file when they look at it next."""
        revoked = parse_revoked_keys(self.files[REVOKED]).with_key(own.identity.key)
        self.files[REVOKED] = revoked.as_text().encode()
        self.revoked_ns[own.identity.key] = self.now_ns
        self.remark(f"the key of {own.identity} is revoked")

    def keyring(self, path: str) -> GroupKeyring:
        """The keyring file at `path`; a sealed world makes it when it is first needed."""
        if path not in self.keyrings:
            self.keyrings[path] = new_keyring(virtual_key(f"{self.seed}/{path}/0"))
        return self.keyrings[path]

    def keys(self) -> dict[bytes, GroupKey]:
        """All keys of all keyrings, by id."""
        return {name: key for keyring in self.keyrings.values() for name, key in keyring.usable().items()}

    def change_keyring(self, path: str, change: Callable[[GroupKeyring], GroupKeyring]) -> None:
        """Change a keyring file on all hosts at once; members read it when they look at it next."""
        self.keyrings[path] = change(self.keyring(path))

    def _sealed_stacks(
        self, spec: StackSpec, load_bridge: BridgeLoader | None,
    ) -> tuple[StackSpec, BridgeLoader | None]:
        relay = spec.config_of("RELAY")
        path = f"{relay.site if relay is not None else 'group'}.keys"
        self.keyring(path)
        if load_bridge is None:
            return with_encrypt(spec, path, *self.encrypt_options), None
        self.keyring(BRIDGE_KEYRING)
        options = self.encrypt_options
        return (with_encrypt(spec, path, *options),
                lambda props: with_encrypt(load_bridge(props), BRIDGE_KEYRING, *options))

    def _with_auth(
        self, name: str, spec: StackSpec, load_bridge: BridgeLoader | None,
    ) -> tuple[StackSpec, BridgeLoader | None]:
        path = f"{name}.pem"
        if load_bridge is None:
            return with_auth(spec, path, authority=self.authority), None
        return (with_auth(spec, path, authority=self.authority),
                lambda props: with_auth(load_bridge(props), path, authority=self.authority))

    def ip(self, name: str) -> str:
        """The IP address of the host of `name`, also before it is started (for initial_hosts)."""
        if name not in self._hosts:
            number = len(self._hosts) + 1
            self._hosts[name] = f"10.0.{number // 250}.{number % 250}"
            self._names.setdefault(self._hosts[name], name)
        return self._hosts[name]

    def move(self, name: str, host: str) -> None:
        """The next start of `name` will be on another host."""
        self._hosts[name] = host
        self._names.setdefault(host, name)

    def process(self, name: str) -> Process:
        """The latest incarnation of `name`."""
        return self.processes[name]

    def audit_of(self, name: str) -> LedgerAudit | None:
        """The audit of the latest incarnation of `name`, if it has RELAY."""
        return self.audits.get(self.processes[name].me)

    def stop_audit(self, name: str) -> None:
        """Exclude the latest incarnation of `name` from the audits of ledger and stalls: its peers are forged."""
        process = self.processes[name]
        self.audits.pop(process.me, None)
        process.after_step = None

    def node(self, name: str) -> Node:
        """The node of the latest incarnation of `name`."""
        return self.processes[name].node

    def address(self, name: str) -> Address:
        """The address of the latest incarnation of `name`."""
        return self.processes[name].me

    def running(self) -> list[str]:
        """The members that are alive and have not left, paused ones too."""
        return [name for name, process in self.processes.items() if process.running]

    # --- what tests read ----------------------------------------------------------------------------------------------

    def view_of(self, name: str) -> View | None:
        """The current view of `name`, None without one."""
        return self.processes[name].view

    def view_names(self, name: str) -> list[str]:
        """The names of the members in the view of `name`, in order; empty without a view."""
        view = self.processes[name].view
        return [member.name for member in view.members] if view is not None else []

    def delivered(self, name: str, *, unicast: bool = False) -> list[bytes]:
        """Payloads that the latest incarnation of `name` delivered, in order: multicasts, or unicasts."""
        app = self.processes[name].app
        return app.unicasts if unicast else app.log

    def agreed(self, names: Iterable[str]) -> bool:
        """Whether all of `names` have one and the same view with exactly them as members."""
        processes = [self.processes[name] for name in names]
        wanted = sorted(process.me for process in processes)
        views = [process.view for process in processes]
        return bool(views) and views[0] is not None and all(
            view == views[0] and view is not None and sorted(view.members) == wanted for view in views)

    def stats(self, name: str) -> dict[str, dict[str, float]]:
        """The counters of a member's protocols; those of its sockets are added to the transport's, as in runtime."""
        process = self.processes[name]
        found = process.node.stats()
        for net, socket in process.sockets.items():
            stack = process.stack(net)
            if socket.counters and stack is not None:
                found["bridge." * (net == BRIDGE) + stack.transport.name].update(socket.counters)
        return found

    def has_settled(self) -> bool:
        """Whether no more messages are expected; a world with applications may know better."""
        return True

    # --- operations of applications -----------------------------------------------------------------------------------

    def send(
        self, name: str, dest: str | Address | None, payloads: Sequence[bytes], flags: int = 0,
        headers: tuple[Header, ...] = (),
    ) -> None:
        """Send each payload from `name` to all (None), or to a member by name or address.

        Raises:
            ChannelClosedError, NotConnectedError: as a channel would.
        """
        process = self._sender(name)
        to = self.address(dest) if isinstance(dest, str) else dest
        batch = Batch(process.me, to, tuple(payloads), headers, int(flags))
        self.history.add(h.MessageSent(self.now_ns, process.me, to, batch.payloads, batch.flags, process.view,
                                       sites_of(headers)))
        process.node.send(batch, self.now_ns)
        self._settle(process)

    def _sender(self, name: str) -> Process:
        process = self.processes[name]
        if not process.running or process.leaving:
            raise ChannelClosedError()
        if process.view is None:
            raise NotConnectedError(f"{name} is in no view yet")
        return process

    def post(
        self, name: str, dest: str | Address | None = None, count: int = 1, size: int = 0, flags: int = 0,
        topic: str = "",
    ) -> None:
        """Send `count` messages with payloads of their own, like "A#1>*/17", or "A#1>*/17@orders" about a topic, filled
        up to `size` bytes with dots."""
        process = self.processes[name]
        to = self.address(dest) if isinstance(dest, str) else dest
        where = "*" if to is None else self.history.names.get(to, str(to))
        first = process.sent.get(where, 0)
        about, headers = (f"@{topic}", (topic_header(topic),)) if topic else ("", ())
        payloads = [f"{process.incarnation}>{where}/{index}{about}".encode().ljust(size, b".")
                    for index in range(first, first + count)]
        self.send(name, to, payloads, flags, headers)
        process.sent[where] = first + count

    def post_until(self, name: str, sites: tuple[str, ...], count: int = 1, size: int = 0) -> None:
        """Post to all with receipts: the history records when all members of these sites ("*": of all) have it.

        Raises:
            ChannelClosedError, NotConnectedError: as a channel would.
        """
        process = self._sender(name)
        first = process.sent.get("*", 0)
        for index in range(first, first + count):
            payload = f"{process.incarnation}>*/{index}".encode().ljust(size, b".")
            self.history.add(h.MessageSent(self.now_ns, process.me, None, (payload,), 0, process.view))
            self.history.add(h.Awaited(self.now_ns, process.me, payload, sites))
            process.node.inject(SendUntil(len(process.awaited), sites, payload), self.now_ns)
            process.awaited.append(payload)
        process.sent["*"] = first + count
        self._settle(process)

    def subscribe(self, name: str, *topics: str) -> None:
        """Subscribe the application of `name` to these topics, too."""
        process, more = self.processes[name], interest_in(*topics)
        self.inject_event(process, Subscribe(more))
        self._set_interest(process, process.interest.union(more))

    def unsubscribe(self, name: str, *topics: str) -> None:
        """Unsubscribe the application of `name` from these topics."""
        process, less = self.processes[name], interest_in(*topics)
        self.inject_event(process, Unsubscribe(less))
        self._set_interest(process, process.interest.without(less))

    def _set_interest(self, process: Process, interest: Interest) -> None:
        process.interest = interest
        self.history.add(h.InterestDeclared(self.now_ns, process.me, interest))

    def get_state(self, name: str, target: str | None = None, timeout_ns: int = seconds(10)) -> None:
        """Have `name` fetch the state from `target` (None: the coordinator)."""
        to = self.address(target) if target is not None else None
        self.inject(name, GetState(to, timeout_ns))

    def order(self, name: str, verb: str, site: str, timeout_ns: int = seconds(30)) -> None:
        """Carry out an operator's order at `name`: `verb` is "offline", "online", "drain" or "hold"."""
        self.order_count += 1
        process = self.processes[name]
        self.remark(f"an operator at {process.incarnation} orders: {verb} {site}")
        self.inject_event(process, SiteCommand(self.order_count, verb, site, timeout_ns))

    def renew_key(self, name: str, *, bridge: bool = False) -> int:
        """Order a new key of the view at `name`, of its group's or of the bridge's; returns the number of the order."""
        self.order_count += 1
        process = self.processes[name]
        self.remark(f"an operator at {process.incarnation} orders a new key: order {self.order_count}")
        self.inject_event(process, RenewViewKey(self.order_count, bridge))
        return self.order_count

    def inject(self, name: str, item: Batch | Event) -> None:
        """Send a batch or an event down the local stack of `name`, unrecorded."""
        process = self.processes[name]
        process.node.inject(item, self.now_ns)
        self._settle(process)

    def inject_bridge(self, process: Process, batch: Batch) -> None:
        """Send a batch down the bridge stack of a relay, past its RELAY."""
        bridge = process.node.bridge
        if bridge is not None:
            bridge.inject(batch, self.now_ns)
            process.node.advance(self.now_ns)                # carries out what the bridge stack emits
            self._settle(process)

    def leave(self, name: str, *, forget: bool = False) -> None:
        """Disconnect gracefully; the process ends when the node emits Closed. forget: as in LeaveRequested."""
        process = self.processes[name]
        if process.running and not process.leaving:
            process.leaving = True
            self.history.add(h.Leaving(self.now_ns, process.me))
            self.when_awake(process, partial(process.node.disconnect, forget=forget))

    # --- faults -----------------------------------------------------------------------------------------------------

    def crash(self, name: str, *, power: bool = False) -> None:
        """Kill the process. power: its host loses power, too, so that nothing is refused and no link breaks."""
        process = self.processes[name]
        if not process.alive:
            return
        if process.running:
            self.history.add(h.Crash(self.now_ns, process.me))
        process.alive = False
        if power:
            self.links.dark[process.host] = None
            self.disks.power_cut(name)
        if self.disks.has_journal(name):
            # A process that crashes within a millisecond of a failed write has not heard of it yet.
            complete = (not power and self.disks.of(name).failed is not process
                        and not process.node.stats()["RELAY"].get("journal_failures", 0))
            self.history.add(h.OnDisk(self.now_ns, process.me, self.disks.kept(name, self.keys()), complete))
        for net in NETS:
            self.handlers.close_sockets(process, net, graceful=False)

    def pause(self, name: str) -> None:
        """Pause the process (SIGSTOP): connections stay, nothing is handled."""
        self.processes[name].paused = True
        self.remark(f"{name} is paused")

    def resume(self, name: str) -> None:
        """Resume a paused process; frames in its sockets are handled at once."""
        process = self.processes[name]
        if not process.paused:
            return
        process.paused, process.resumed_ns = False, self.now_ns
        self.remark(f"{name} goes on")
        if process.alive:
            self._plan(self.now_ns, (process, LOCAL, b"", None))

    def partition(self, groups: Sequence[Iterable[str]], nets: Iterable[int] = NETS) -> int:
        """Cut every path between members of different groups; members in no group keep all paths. Returns the number
        of the cut."""
        self.cut_count += 1
        lists = [list(group) for group in groups]
        for mine in lists:
            for other in lists:
                if other is not mine:
                    for src in mine:
                        for dest in other:
                            self.network.cut(src, dest, nets, self.cut_count)
        self.remark("partition " + " | ".join(" ".join(group) for group in lists))
        return self.cut_count

    def cut(self, src: str, dest: str, nets: Iterable[int] = NETS) -> int:
        """Cut the paths from `src` to `dest`; the other direction stays. Returns the number of the cut."""
        self.cut_count += 1
        self.network.cut(src, dest, nets, self.cut_count)
        self.remark(f"cut {src} -> {dest}")
        return self.cut_count

    def heal(self) -> None:
        """Undo cuts and bad weather, restore power; faults in several steps end. Paused processes stay paused."""
        self.heal_count += 1
        self.links.dark.clear()
        for net in NETS:
            self.clear_up(net)
        self.mend()

    def mend(self, nets: Iterable[int] = NETS) -> None:
        """Undo all cuts."""
        self.remark("all paths are whole again")
        self._go_on(self.network.mend(nets))

    def mend_cut(self, number: int, nets: Iterable[int] = NETS) -> None:
        """Undo one cut on these nets; paths that other cuts cover stay cut."""
        if not self.network.has_other_cuts(number, nets):
            return self.mend(nets)
        self.remark("paths are whole again on which no other cut lies")
        return self._go_on(self.network.mend_cut(number))

    def _go_on(self, paths: Iterable[Path]) -> None:
        for path in paths:
            backlog, path.backlog = path.backlog, []
            for socket, data in backlog:
                for at_ns in path.arrivals(self.now_ns, True, len(data)):
                    self._plan(at_ns, (socket, 0, data, None))

    def clear_up(self, net: int) -> None:
        """Good weather again on a net."""
        if self.network.clear_up(net):
            self.remark(f"good weather on {'the bridge' if net == BRIDGE else 'local nets'}")

    def set_weather(self, weather: Weather, net: int = LOCAL) -> None:
        """The same weather on all paths of a net, until `heal`."""
        self.network.set_weather(net, weather)
        self.remark(f"weather on {'the bridge' if net == BRIDGE else 'local nets'}: {weather}")
