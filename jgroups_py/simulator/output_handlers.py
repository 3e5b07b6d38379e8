"""Carries out the outputs of nodes, and records those that are for applications in the history."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import attrs

from jgroups_py.model.address import PhysicalAddress
from jgroups_py.model.events import Event, FolderRead, KeyringRead, NameResolved, StateChunk, TokenChecked, TrustRead
from jgroups_py.model.outputs import (
    AppendSegment,
    ArchiveDurability,
    CheckToken,
    Closed,
    CloseLink,
    CloseTransport,
    CountedAsReceiver,
    Deliver,
    GlobalViewInstalled,
    GroupConnected,
    HoldDurability,
    Listen,
    LogEntry,
    MemberChanged,
    MemberGone,
    MessagesLost,
    MessagesSkipped,
    OpenArchive,
    OpenJournal,
    OpenLink,
    OpenTransport,
    OrderUncertain,
    Output,
    ProvideState,
    ReadFolder,
    ReadKeyring,
    ReadSegment,
    ReadTrust,
    Record,
    RelayAccepted,
    RemoveSegment,
    Resolve,
    SiteCommandDone,
    SiteReceipt,
    SiteStatusChanged,
    StateAdvised,
    StateBegin,
    StateEnd,
    StatePart,
    StoreEntry,
    SyncSegments,
    Unreachable,
    ViewInstalled,
    ViewKeyRenewed,
)
from jgroups_py.model.plugins import plugin
from jgroups_py.model.token_check import ENTRY_POINTS, TokenCheck
from jgroups_py.model.units import NS_PER_MS
from jgroups_py.protocols.transport.protocol import TcpConfig, TransportConfig, UdpConfig
from jgroups_py.sealing.keyring import GroupKeyring
from jgroups_py.simulator import history as h
from jgroups_py.simulator.archives import Archives
from jgroups_py.simulator.disks import Disks
from jgroups_py.simulator.links import VirtualLinks
from jgroups_py.simulator.ports import DevicePort
from jgroups_py.simulator.process import STATE_CHUNK_BYTES, Process, ProcessPort, Socket
from jgroups_py.simulator.tokens import TokenService

APPLICATION_EVENTS = (ViewInstalled, GlobalViewInstalled, SiteStatusChanged, Unreachable, MessagesLost, MessagesSkipped,
        OrderUncertain, CountedAsReceiver, GroupConnected, MemberGone, Closed)
APPLICATION_TICKETS = 1 << 40            # added to the tickets of receipts that channels of applications ask for
OPEN_NS = NS_PER_MS                      # how long opening sockets or reading a folder takes


class HandlerPort(DevicePort, ProcessPort, Protocol):
    """The engine as seen by output handlers: its devices, its tables, and access to nodes."""

    history: h.History
    disks: Disks
    links: VirtualLinks
    archives: Archives
    sockets: dict[PhysicalAddress, Socket]
    groups: dict[PhysicalAddress, list[Socket]]
    folders: dict[str, dict[str, bytes]]
    keyrings: dict[str, GroupKeyring]
    files: dict[str, bytes]
    names: dict[str, str | tuple[str | PhysicalAddress, ...]]
    token_service: TokenService
    names_ns: int

    def when_awake(self, process: Process, call: Callable[[int], None]) -> None:
        """Call a function of a node now, or when its paused process resumes."""

    def inject_event(self, process: Process, event: Event) -> None:
        """Pass a node an event of its channel."""

    def wall_ns(self, name: str) -> int:
        """The wall clock of a member's host."""


class OutputHandlers:
    """Carries out each output by the handler of its class."""

    def __init__(self, world: HandlerPort) -> None:
        self.world = world
        self._handlers: dict[type[Output], Callable[[Process, Any], None]] = {
            Deliver: self._deliver, ViewInstalled: self._view, OpenTransport: self._open_transport,
            CloseTransport: self._close_transport, Listen: self._listen, OpenLink: self._open_link,
            CloseLink: self._close_link, GlobalViewInstalled: self._global_view,
            SiteStatusChanged: self._site_status, RelayAccepted: self._epoch_accepted,
            Unreachable: self._unreachable, MessagesLost: self._lost, SiteReceipt: self._receipt,
            SiteCommandDone: self._command_done, StateAdvised: self._state_advised,
            ProvideState: self._to_app, StateBegin: self._to_app, StatePart: self._to_app, StateEnd: self._state_end,
            Closed: self._closed, StoreEntry: self._store, ReadFolder: self._read_folder, LogEntry: self._log_entry,
            OpenJournal: world.disks.open, ReadSegment: world.disks.read, AppendSegment: world.disks.append,
            SyncSegments: world.disks.sync, RemoveSegment: world.disks.remove, HoldDurability: self._durability,
            OpenArchive: world.archives.open, Record: world.archives.record,
            ArchiveDurability: world.archives.durability,
            MessagesSkipped: self._skipped, OrderUncertain: self._uncertain, CountedAsReceiver: self._counted,
            GroupConnected: self._connected, Resolve: self._resolve, ReadKeyring: self._read_keyring,
            ReadTrust: self._read_trust, CheckToken: self._check_token,
            MemberChanged: self._member, ViewKeyRenewed: self._key_renewed,
            MemberGone: self._gone,
        }

    def carry_out(self, process: Process, output: Output) -> None:
        """Carry out an output other than a Frame, and pass it to an application that takes events."""
        handler = self._handlers.get(output.__class__)
        assert handler is not None, f"the world cannot carry out {output!r}"
        handler(process, output)
        if process.app.takes_events and isinstance(output, APPLICATION_EVENTS):
            process.give(output, self.world)

    # --- sockets ----------------------------------------------------------------------------------------------------

    def _open_transport(self, process: Process, asked: OpenTransport) -> None:
        if asked.net:
            self.world.history.bridge_names[asked.me] = f"{process.incarnation}'"
        self.world.after(OPEN_NS, self._bind, process, asked)

    def _bind(self, process: Process, asked: OpenTransport) -> None:
        config = asked.config
        assert isinstance(config, TransportConfig)
        stack = process.stack(asked.net)
        if not process.running or stack is None or stack.me != asked.me:
            return                                        # it crashed, or closed this stack meanwhile
        sockets = self.world.sockets
        ports = range(config.bind_port, config.bind_port + config.port_range + 1) if config.bind_port else \
            (self.world.free_port(),)
        port = next((port for port in ports if (process.host, port) not in sockets), None)
        if port is None:
            reason = f"no free port from {config.bind_port} on"
            self.world.when_awake(process, lambda now_ns: process.node.bind_failed(asked.net, reason, now_ns))
            return
        group = (config.mcast_addr, config.mcast_port) if isinstance(config, UdpConfig) and config.ip_mcast else None
        socket = Socket(process, asked.net, (process.host, port), group, isinstance(config, TcpConfig))
        process.sockets[asked.net] = sockets[process.host, port] = socket
        if group is not None:
            self.world.groups.setdefault(group, []).append(socket)
        self.world.when_awake(process, lambda now_ns: process.node.bound(asked.net, socket.physical, now_ns))

    def _close_transport(self, process: Process, asked: CloseTransport) -> None:
        self.close_sockets(process, asked.net, graceful=asked.graceful)

    def close_sockets(self, process: Process, net: int, *, graceful: bool) -> None:
        """Close the sockets, the listener and the links of one stack."""
        socket = process.sockets.pop(net, None)
        if socket is not None:
            socket.closed = True
            del self.world.sockets[socket.physical]
            if socket.group is not None:
                self.world.groups[socket.group].remove(socket)
        self.world.links.stop_listening(process, net, graceful=graceful)

    def _listen(self, process: Process, asked: Listen) -> None:
        stack = process.stack(asked.net)
        if stack is not None:
            self.world.links.listen(process, asked, stack.me)

    def _open_link(self, process: Process, asked: OpenLink) -> None:
        self.world.links.open(process, asked)

    def _close_link(self, process: Process, asked: CloseLink) -> None:
        self.world.links.close(process, asked.net, asked.link)

    # --- files and log entries ----------------------------------------------------------------------------------------

    def _store(self, process: Process, asked: StoreEntry) -> None:
        folder = self.world.folders.setdefault(asked.folder, {})
        if asked.data is None:
            folder.pop(asked.name, None)
        else:
            folder[asked.name] = asked.data

    def _read_folder(self, process: Process, asked: ReadFolder) -> None:
        self.world.after(OPEN_NS, self._folder_read, process, asked)

    def _folder_read(self, process: Process, asked: ReadFolder) -> None:
        folder = self.world.folders.get(asked.folder, {})
        entries = tuple(folder[name] for name in sorted(folder))
        self.world.notify(process, FolderRead(asked.folder, entries), asked.net)

    def _read_keyring(self, process: Process, asked: ReadKeyring) -> None:
        keyring = self.world.keyrings.get(asked.path)
        if keyring is not process.keyrings.get(asked.path):
            process.keyrings[asked.path] = keyring
            self.world.after(OPEN_NS, self._keyring_read, process, asked, keyring)

    def _keyring_read(self, process: Process, asked: ReadKeyring, keyring: GroupKeyring | None) -> None:
        self.world.notify(process, KeyringRead(asked.path, keyring, "" if keyring else "no such file"), asked.net)

    def _read_trust(self, process: Process, asked: ReadTrust) -> None:
        changed = []
        for path, what, _ in asked.files:
            data = self.world.files.get(path)
            if (asked.net, path) not in process.trust or process.trust[asked.net, path] != data:
                process.trust[asked.net, path] = data
                changed.append((path, data, "" if data is not None else f"{what} {path}: no such file"))
        self.world.after(OPEN_NS, self._trust_read, process, asked, tuple(changed))

    def _trust_read(
        self, process: Process, asked: ReadTrust, files: tuple[tuple[str, bytes | None, str], ...],
    ) -> None:
        self.world.notify(process, TrustRead(files, self.world.wall_ns(process.name)), asked.net)

    def _check_token(self, process: Process, asked: CheckToken) -> None:
        takes_ns, fails = self.world.token_service.draw(self.world.now_ns)
        answer, problem = None, "its check failed"
        if takes_ns >= asked.timeout_ns:
            problem = "its check took too long"
        elif not fails:
            answer, problem = plugin(asked.check, ENTRY_POINTS, TokenCheck)().check(asked.token, asked.key), ""
        self.world.after(min(takes_ns, asked.timeout_ns), self._token_checked, process, asked, answer, problem)

    def _token_checked(self, process: Process, asked: CheckToken, answer: Any, problem: str) -> None:
        self.world.notify(process, TokenChecked(asked.number, answer, problem), asked.net)

    def _resolve(self, process: Process, asked: Resolve) -> None:
        self.world.after(self.world.names_ns, self._name_resolved, process, asked)

    def _name_resolved(self, process: Process, asked: Resolve) -> None:
        found = self.world.names.get(asked.name, ())
        hosts = (found,) if isinstance(found, str) else tuple(found)
        with_ports = tuple(place for place in hosts if not isinstance(place, str))     # of records of type SRV
        every = tuple((host, asked.port) for host in hosts if isinstance(host, str))
        places = with_ports or tuple(
            place for place in every if (":" in place[0]) == (asked.version == 6)) or every
        self.world.notify(process, NameResolved(asked.name, asked.port, places[0] if places else None, places[1:]),
                          asked.net)

    def _log_entry(self, process: Process, note: LogEntry) -> None:
        self.world.remark(f"{process.incarnation} {note.level}: {note.text}")

    def _member(self, process: Process, output: MemberChanged) -> None:
        self.world.history.add(h.MembershipChange(
            self.world.now_ns, process.me, output.change, output.member, output.accusations))

    def _gone(self, process: Process, output: MemberGone) -> None:
        self.world.history.add(h.ReportedGone(self.world.now_ns, process.me, output.member))

    def _durability(self, process: Process, output: HoldDurability) -> None:
        self.world.remark(f"{process.incarnation} writes what it holds to disk again" if not output.reason else
                          f"{process.incarnation} does not write what it holds to disk: {output.reason}")

    # --- the application --------------------------------------------------------------------------------------------

    def _deliver(self, process: Process, output: Deliver) -> None:
        batch = output.batch
        self.world.history.add(h.MessageDelivered(
            self.world.now_ns, process.me, batch.src, batch.dest, batch.payloads, batch.flags, process.view,
            batch.place))
        process.give(output, self.world)

    def _view(self, process: Process, output: ViewInstalled) -> None:
        self.world.history.add(h.InstalledView(self.world.now_ns, process.me, output.view, process.view))
        process.view = output.view
        process.views.append(output.view)

    def _to_app(self, process: Process, output: Output) -> None:
        process.give(output, self.world)

    def _state_end(self, process: Process, output: StateEnd) -> None:
        for site, origin, first, stop in output.skipped:
            self.world.history.add(h.Covered(self.world.now_ns, process.me, site, origin, first, stop))
        process.give(output, self.world)

    def answer_state(self, process: Process, request: int) -> None:
        """Pass the application's state to the node, in chunks."""
        state = process.app.state()
        starts = range(0, max(1, len(state)), STATE_CHUNK_BYTES)
        for start in starts:
            chunk = state[start:start + STATE_CHUNK_BYTES]
            last = start + STATE_CHUNK_BYTES >= len(state)
            self.world.inject_event(process, StateChunk(request, chunk, last))

    def _closed(self, process: Process, output: Closed) -> None:
        process.closed_reason = output.reason
        process.view = None
        self.world.history.add(h.MemberLeft(self.world.now_ns, process.me, output.reason))

    # --- flow control -------------------------------------------------------------------------------------------------

    def _skipped(self, process: Process, output: MessagesSkipped) -> None:
        self.world.history.add(h.Skipped(self.world.now_ns, process.me, output.origin, output.messages))

    def _uncertain(self, process: Process, output: OrderUncertain) -> None:
        self.world.history.add(h.Uncertain(self.world.now_ns, process.me, output.messages))

    def _counted(self, process: Process, output: CountedAsReceiver) -> None:
        sender = self.world.history.name(output.sender)
        self.world.remark(f"{process.incarnation} hears that it {'counts' if output.in_group else 'does not count'} "
                          f"among the receivers of {sender}")

    def _connected(self, process: Process, output: GroupConnected) -> None:
        process.connected = output.connected
        self.world.remark(f"{process.incarnation} is {'' if output.connected else 'not '}connected: "
                          f"{output.receivers} receivers, at least {output.wanted}")

    # --- relay ------------------------------------------------------------------------------------------------------

    def _global_view(self, process: Process, output: GlobalViewInstalled) -> None:
        process.global_view = output.view
        self.world.history.add(h.GlobalInstall(self.world.now_ns, process.me, output.view))

    def _site_status(self, process: Process, output: SiteStatusChanged) -> None:
        process.site_status[output.site] = output.status
        self.world.history.add(h.SiteStatusSeen(self.world.now_ns, process.me, output.site, output.status))

    def _epoch_accepted(self, process: Process, output: RelayAccepted) -> None:
        self.world.history.add(h.EpochAccepted(self.world.now_ns, process.me, output.site, output.epoch))

    def _command_done(self, process: Process, output: SiteCommandDone) -> None:
        self.world.remark(f"{process.incarnation} answers the operator: {output.error or 'done'}")

    def _key_renewed(self, process: Process, output: ViewKeyRenewed) -> None:
        self.world.remark(f"{process.incarnation} answers about order {output.number} of a new key: "
                          f"{output.error or 'done'}")

    def _state_advised(self, process: Process, output: StateAdvised) -> None:
        self.world.remark(f"{process.incarnation} is advised to ask {output.site} for a state")

    def _receipt(self, process: Process, output: SiteReceipt) -> None:
        if output.ticket >= APPLICATION_TICKETS:
            own = attrs.evolve(output, ticket=output.ticket - APPLICATION_TICKETS)
            return process.give(own, self.world)
        payload = process.awaited[output.ticket]
        self.world.history.add(h.Receipted(self.world.now_ns, process.me, payload, output.views, output.lost_for))
        return None

    def _unreachable(self, process: Process, output: Unreachable) -> None:
        self.world.history.add(h.Unreached(self.world.now_ns, process.me, output.dest))

    def _lost(self, process: Process, output: MessagesLost) -> None:
        self.world.history.add(h.Lost(
            self.world.now_ns, process.me, output.site, output.origin, output.first, output.stop, output.dest_site))
