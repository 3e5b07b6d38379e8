"""Runs one node on its loop: passes it what the application queued, and carries out its outputs.

Everything here runs inside a round or inside `Loop.combine`, hence on one thread at a time, except the methods under
"from any thread". An exception raised by the node, or by the sockets' own code, is a bug in this package: it closes
this host with the reason and its traceback in the log, and no other channel is affected.
"""
from __future__ import annotations

import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

from jgroups_py.config.load import bridge_loader
from jgroups_py.config.spec import StackSpec
from jgroups_py.model.batch import Batch
from jgroups_py.model.counters import Counters, counter, declare, figure, table
from jgroups_py.model.errors import ChannelClosedError, ChannelError, ConfigError, NotConnectedError
from jgroups_py.model.events import Event, FolderRead, KeyringRead, StateBusy, TrustRead
from jgroups_py.model.outputs import (
    LOCAL,
    CheckToken,
    Closed,
    CloseTransport,
    Frame,
    GroupConnected,
    Listen,
    LogEntry,
    OpenTransport,
    Output,
    ReadFolder,
    ReadKeyring,
    ReadTrust,
    Resolve,
    StoreEntry,
    Traced,
)
from jgroups_py.model.secrets import MAX_TRUST_BYTES
from jgroups_py.model.units import millis
from jgroups_py.node.node import Node
from jgroups_py.runtime.disk.disk import Durable
from jgroups_py.runtime.disk.shared_folder import read_folder, store_entry
from jgroups_py.runtime.foreign_formats import FORMATS, OpenFormat, format_of
from jgroups_py.runtime.inbox import HIGH_BYTES, LOW_BYTES, Inbox
from jgroups_py.runtime.loop import Loop, clock
from jgroups_py.runtime.name_resolution.resolver_threads import Resolving
from jgroups_py.runtime.send_queue import BATCH_BYTES, FULL_BYTES, MESSAGE_COST, QueuedBatch, SendQueue
from jgroups_py.runtime.sockets.stack_sockets import LINKS_AND_STREAMS, LinkOrStream, Net
from jgroups_py.runtime.sockets.udp import Frames
from jgroups_py.runtime.token_checks import TokenChecks
from jgroups_py.runtime.trace_log import drops_are_logged, requested_trace, write
from jgroups_py.system.secrets import SECRETS, Stamp, read_checked, read_keyring, stamp_of

log = logging.getLogger("jgroups_py")

TAKE_BYTES = BATCH_BYTES                      # what one round takes from the send queue, at most
CHECK_BYTES = 64 << 10                      # after so many bytes `pending_bytes` is read again
PENDING_BYTES = 1 << 20                     # while layers keep back more than this, nothing is taken
SPARSE_NS = millis(0.05)                    # mean interval between messages above which a thread sends at once
LOG_CHECK_NS = millis(100)                  # how often the level of the log of drops is read
FLUSH_NS = millis(500)                      # how long a leaving member sends what its application queued before
LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


class Host:
    """One node and its sockets.

    ended: called once, inside a round, when the node is done: the reason, and whether it was not requested.
    """

    COUNTERS = declare(
        counter("entries_not_stored", "Files of FILE_PING that could not be written."),
        figure("send_queue_bytes", "Bytes that wait in the send queue, with what they cost besides."),
        figure("backlog_bytes", "Bytes received that the application has not taken yet."),
        figure("messages_queued", "Messages that were ever sent by the application."),
        figure("payload_bytes_sent", "Payload bytes that were ever sent by the application, without those in the send "
                                     "queue."),
        figure("kept_back_bytes", "Bytes that the application sent and the layers keep back: no credit, or a view "
                                  "change."),
    )

    def __init__(
        self, spec: StackSpec, cluster: str, name: str, inbox: Inbox, ended: Callable[[str, bool], None],
    ) -> None:
        self.loop = Loop(self)
        self.sends = SendQueue(self._queued)
        self.inbox = inbox
        self.node: Node | None = None
        self.counters = Counters(table(self.COUNTERS))
        self._spec = spec
        self._cluster = cluster
        self._name = name
        self._ended = ended
        self._nets: dict[int, Net] = {}
        self._for_application: list[Output] = []
        self._interests: deque[Event] = deque()              # changes of the topics that are wanted, not yet applied
        self._held_back = False
        self._unchecked_bytes = 0                            # taken since `pending_bytes` was read
        self._log_check_ns = 0                               # when the level of the log is read next
        self.round_in_callback: Callable[[], object] = lambda: None     # runs one, for a callback that fills the queue
        self.began = threading.Event()                       # the sockets are open, or the host has ended
        self.coalesces_sends = False                         # single messages wait for the next round, which is soon
        self._main_thread = threading.main_thread().ident    # here, as a fork may change it
        self._last_send = (0, 0, 0)                          # see `_queued`: when, how many were sent, by which thread
        self._leaving = self._forget = False                 # the application has disconnected; its site for good
        self._leave_by_ns: int | None = None                 # leaving waits for the queue to empty, until then
        self._over = False
        self._format: OpenFormat | None = None
        self._reason = ""                                    # why it is over
        self._resolving = Resolving(lambda net, event: self.loop.call(lambda: self._notify(net, event)))
        self._token_checks = TokenChecks(lambda net, event: self.loop.call(lambda: self._notify(net, event)))
        self._handlers: dict[type[Output], Callable[[Any], None]] = {        # output -> what carries it out
            OpenTransport: self._open_transport, CloseTransport: self._close_transport, Listen: self._listen,
            **dict.fromkeys(LINKS_AND_STREAMS, self._to_net), StoreEntry: self._store_entry,
            ReadFolder: self._read_folder, LogEntry: self._log_entry, Traced: self._traced, Closed: self._closed,
            GroupConnected: self._group_connected, Resolve: self._resolving.ask, ReadKeyring: self._read_keyring,
            ReadTrust: self._read_trust, CheckToken: self._token_checks.ask,
        }
        self._watched: dict[tuple[int, str], Stamp | None] = {}      # (net, path) -> what was read last
        self._durable = Durable(lambda event: self.loop.call(lambda: self._notify(LOCAL, event)), self._handlers)

    # --- from any thread --------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Build the node and open its sockets."""
        self.inbox.caught_up = lambda: self.loop.call(self._caught_up)
        self.loop.call(self._start)

    def leave(self, forget: bool = False) -> None:
        """Leave the group gracefully; `ended` follows. forget: as in the event LeaveRequested."""
        self.loop.call(lambda: self._leave(forget))

    def join(self) -> None:
        """After the end: wait until sockets and files are closed."""
        self.loop.join()
        self._durable.join()

    def kill(self, reason: str) -> None:
        """Close the sockets without leaving the group gracefully; `ended` follows."""
        self.loop.call(lambda: self._kill(reason))

    def change_interest(self, change: Event) -> None:
        """Subscribe or unsubscribe. What is sent after this call returns meets the change: frames wait for it."""
        self._interests.append(change)
        self.loop.call(self._apply_interests)

    def ask(self, question: Callable[[Node], Any], answer: Callable[[Any], None]) -> None:
        """Call `answer`, inside a round, with what `question` returns for the node (None: there is none)."""
        self.loop.call(lambda: answer(None if self.node is None else question(self.node)))

    def _queued(self) -> None:
        """Something was queued: the sending thread runs it through the stack to the socket, or wakes the loop to do it.

        The sending thread does so where that saves a change of threads and costs no batching: for FULL_BYTES at once,
        and for single messages if only this thread sends, and rarely. A flood of small messages, and those of several
        threads, are left to the loop: while it wakes up more are queued, and they share frames. What the main thread
        sends is left to the loop, too: a signal's handler (Ctrl-C's first of all) may raise there at any time, and
        would leave the node in an unknown state.
        """
        sends = self.sends
        if not self.needs_round:
            if sends.nbytes > sends.limit_bytes and sends.owner == threading.get_ident():
                self.round_in_callback()
            return
        before, self._last_send = self._last_send, (clock(), sends.sent, threading.get_ident())
        now_ns, sent, thread = self._last_send
        sparse = thread == before[2] and now_ns - before[0] >= SPARSE_NS * (sent - before[1])
        at_once = (sparse and not self.coalesces_sends) or sends.nbytes >= FULL_BYTES
        if at_once and thread != self._main_thread:
            self.loop.combine()
        else:
            self.loop.wake()

    # --- called by the loop -----------------------------------------------------------------------------------------

    @property
    def needs_round(self) -> bool:
        """Whether something was queued that the node may have now."""
        # As `sends.nbytes > 0`, and in its order, without its call: every round checks this, mostly in vain.
        sends = self.sends
        waits = sends.nbytes if sends.uncounted else sends.counted_bytes
        return waits > 0 and not self._held_back and not self._over and self.node is not None

    def step(self, now_ns: int) -> int | None:
        """One round: take what was queued, advance, carry out."""
        node = self.node
        if node is None or self._over:
            return None
        sends = self.sends
        if sends.uncounted or sends.counted_bytes:           # as `sends.nbytes`, without its call
            self._take(node, now_ns)
        if self._leave_by_ns is not None:
            self._leave_when_sent(node, now_ns)
        if now_ns >= self._log_check_ns:                     # its level may be changed while the member runs
            self._log_check_ns = now_ns + LOG_CHECK_NS
            node.explain(drops_are_logged())
        node.advance(now_ns)
        self._settle(node, now_ns)
        return now_ns if self.needs_round else self._deadline(node)

    def send_queued(self, now_ns: int) -> int | None:
        """Take what was queued, carry out what follows from it alone."""
        node = self.node
        if node is None or self._over:
            return None
        self._take(node, now_ns)
        self._settle(node, now_ns)
        return self._deadline(node)

    def _settle(self, node: Node, now_ns: int) -> None:
        """Carry out all outputs of the node, and hand the rest to the application."""
        while node.outputs:
            self._carry_out(node.drain())
        if self._for_application:
            self._hand_over(node, now_ns)

    def _deadline(self, node: Node) -> int | None:
        deadline_ns, leave_by_ns = node.next_deadline_ns, self._leave_by_ns
        if leave_by_ns is None:
            return deadline_ns
        return leave_by_ns if deadline_ns is None else min(deadline_ns, leave_by_ns)

    def fail(self, error: BaseException) -> None:
        """A part of this host raised: log the traceback, and close with the reason."""
        log.error("channel %s of cluster %s closes because of a bug", self._name, self._cluster, exc_info=error)
        self._kill(f"{type(error).__name__}: {error}")

    # --- to the node ------------------------------------------------------------------------------------------------

    def _start(self) -> None:
        if self._over:
            return
        try:
            self._format = FORMATS.enter(format_of(self._spec))
            self.node = Node(self._spec, self._cluster, self._name, os.urandom(16).hex(), self.loop.now_ns,
                             load_bridge=bridge_loader(self._spec), trace=requested_trace(),
                             explains=drops_are_logged(), secrets=SECRETS)
            self._apply_interests()
        except ConfigError as error:
            return self._kill(str(error))
        return None

    def _take(self, node: Node, now_ns: int) -> None:
        self._unchecked_bytes += self.sends.nbytes
        if self._held_back or self._unchecked_bytes > CHECK_BYTES:
            self._unchecked_bytes = 0
            self._held_back = node.pending_bytes() > PENDING_BYTES
            if self._held_back:
                return
        me = node.me
        for item in self.sends.take(TAKE_BYTES):
            if isinstance(item, QueuedBatch):
                payloads = tuple(item.payloads)
                batch = Batch(me, item.dest, payloads, item.headers, item.flags)
                node.send(batch.counted(item.nbytes - MESSAGE_COST * len(payloads)), now_ns)
            else:
                node.inject(item[0], now_ns)

    def _apply_interests(self) -> None:
        """Pass changes of interest to the node. Until it exists they wait, since it is made with the earlier ones."""
        while self.node is not None and self._interests:
            self.node.inject(self._interests.popleft(), self.loop.now_ns)

    def _received(self, net: int, frames: Frames) -> None:
        if self._interests:
            # The interest changed before these frames were read, perhaps before they were sent. If it were applied
            # after them, a message that another member sent after `subscribe` had returned would be dropped.
            self._apply_interests()
        if self.node is not None:
            self.node.receive(frames, self.loop.now_ns, net)

    def _notify(self, net: int, event: Event) -> None:
        if self.node is not None:
            self.node.notify(event, self.loop.now_ns, net)

    def _leave(self, forget: bool) -> None:
        if self._over or self._leaving:
            return
        self._leaving, self._forget = True, forget
        if self.node is None:
            return self._kill("left")
        self.sends.close(lambda: NotConnectedError("the channel is leaving its group"))
        self._leave_by_ns = self.loop.now_ns + FLUSH_NS
        return None

    def _leave_when_sent(self, node: Node, now_ns: int) -> None:
        """Leave once everything is sent that was queued before, or when the time for that is over."""
        assert self._leave_by_ns is not None, "called only while leaving"
        if now_ns >= self._leave_by_ns or not (self.sends.nbytes or node.pending_bytes()):
            self._leave_by_ns = None
            node.disconnect(now_ns, forget=self._forget)

    # --- to the application -----------------------------------------------------------------------------------------

    def _hand_over(self, node: Node, now_ns: int) -> None:
        outputs, self._for_application = self._for_application, []
        inbox = self.inbox
        inbox.put(outputs)
        if not inbox.busy and inbox.backlog_bytes > HIGH_BYTES:
            inbox.busy = True
            node.app_busy(True, now_ns)
            # The consumer may have caught up before it could see the flag; then nothing else would reset it.
            if inbox.backlog_bytes <= LOW_BYTES:
                self._caught_up()
        if not inbox.state_busy and inbox.state_backlog_bytes > HIGH_BYTES:
            inbox.state_busy = True
            node.inject(StateBusy(True), now_ns)
            if inbox.state_backlog_bytes <= LOW_BYTES:
                self._caught_up()

    def _caught_up(self) -> None:
        inbox, node = self.inbox, None if self._over else self.node
        if inbox.busy and inbox.backlog_bytes <= LOW_BYTES:
            inbox.busy = False
            if node is not None:
                node.app_busy(False, self.loop.now_ns)
        if inbox.state_busy and inbox.state_backlog_bytes <= LOW_BYTES:
            inbox.state_busy = False
            if node is not None:
                node.inject(StateBusy(False), self.loop.now_ns)

    # --- carrying out -----------------------------------------------------------------------------------------------

    def _carry_out(self, outputs: list[Output]) -> None:
        nets, handlers, rest = self._nets, self._handlers, self._for_application
        for output in self._durable.write_ahead(outputs):
            kind = output.__class__
            if kind is Frame:
                net = nets.get(output.net)                   # type: ignore[attr-defined]
                if net is not None:
                    net.sockets.send(output.to, output.data)  # type: ignore[attr-defined]
                continue
            handler = handlers.get(kind)
            if handler is None:
                rest.append(output)
            else:
                handler(output)

    def _open_transport(self, request: OpenTransport) -> None:
        assert self.node is not None, "a node emits it"
        number, now_ns = request.net, self.loop.now_ns

        try:
            net = Net(self.loop, request, lambda frames: self._received(number, frames),
                      lambda event: self._notify(number, event), self._write_log)
        except (OSError, ConfigError) as error:
            return self.node.bind_failed(number, str(error), now_ns)
        self._nets[number] = net
        self.began.set()
        return self.node.bound(number, net.sockets.physical, now_ns)

    def _close_transport(self, request: CloseTransport) -> None:
        net = self._nets.pop(request.net, None)
        if net is not None:
            net.close(request.graceful)

    def _listen(self, request: Listen) -> None:
        net = self._nets.get(request.net)
        if net is None:
            return
        try:
            net.links.listen(request)
        except (OSError, ConfigError) as error:
            self._write_log("warning", f"no listener for FD_SOCK: {error}")

    def _to_net(self, request: LinkOrStream) -> None:
        net = self._nets.get(request.net)
        if net is not None:
            net.carry_out(request)

    def _store_entry(self, request: StoreEntry) -> None:
        try:
            store_entry(request.folder, request.name, request.data)
        except OSError as error:
            self.counters.add("entries_not_stored")
            self._write_log("warning", f"cannot write {request.name!r} to {request.folder}: {error}")

    def _read_folder(self, request: ReadFolder) -> None:
        try:
            entries = read_folder(request.folder)
        except OSError as error:
            self._write_log("warning", f"cannot read {request.folder}: {error}")
            entries = ()
        self._notify(request.net, FolderRead(request.folder, entries))

    def _changed(self, net: int, path: Path) -> bool:
        """Whether a watched file is not the one that was looked at last; at the first look it is, as it may have
        changed since the stack was built."""
        key, stamp = (net, str(path)), stamp_of(path)
        if key in self._watched and stamp == self._watched[key]:
            return False
        self._watched[key] = stamp
        return True

    def _read_keyring(self, request: ReadKeyring) -> None:
        path = Path(request.path)
        if not self._changed(request.net, path):
            return
        try:
            keyring, self._watched[request.net, str(path)] = read_keyring(path)
        except ConfigError as error:
            self._notify(request.net, KeyringRead(request.path, None, str(error)))
        else:
            self._notify(request.net, KeyringRead(request.path, keyring))

    def _read_trust(self, request: ReadTrust) -> None:
        """Look at files of trust, and read those that have changed. wall_ns is the system's: certificates name it."""
        changed: list[tuple[str, bytes | None, str]] = []
        for name, what, private in request.files:
            path = Path(name)
            if not self._changed(request.net, path):
                continue
            try:
                data, self._watched[request.net, str(path)] = read_checked(path, what, MAX_TRUST_BYTES, private=private)
                changed.append((name, data, ""))
            except ConfigError as error:
                changed.append((name, None, str(error)))
        self._notify(request.net, TrustRead(tuple(changed), time.time_ns()))

    def _group_connected(self, group: GroupConnected) -> None:
        self.sends.connected(group)
        self._for_application.append(group)

    def _log_entry(self, note: LogEntry) -> None:
        self._write_log(note.level, note.text)

    def _traced(self, traced: Traced) -> None:
        write(f"{self._name}@{self._cluster}", traced)

    def _write_log(self, level: str, text: str) -> None:
        log.log(LEVELS.get(level, logging.WARNING), "%s@%s: %s", self._name, self._cluster, text)

    # --- the end ----------------------------------------------------------------------------------------------------

    def _kill(self, reason: str) -> None:
        if not self._over:
            self._closed(Closed(reason))

    def _closed(self, closed: Closed) -> None:
        """The node is closed (outputs before this one closed its sockets, unless `kill` did)."""
        if self._over:
            return
        self._over = True
        self._reason = closed.reason
        if self._format is not None:
            FORMATS.leave(self._format)
        for net in list(self._nets):
            self._close_transport(CloseTransport(net, graceful=self._leaving))
        self._durable.close(closed.reason)
        self.sends.close(self._refusal)
        self._ended(closed.reason, not self._leaving)
        self.began.set()
        self.inbox.put([*self._for_application, closed])
        self._for_application = []
        self.loop.stop()

    def _refusal(self) -> ChannelError:
        """What a send raises from now on."""
        if self._leaving:
            return NotConnectedError("the channel has left its group")
        return ChannelClosedError(self._reason)

    # --- figures ----------------------------------------------------------------------------------------------------

    def stats(self, node: Node) -> dict[str, dict[str, float]]:
        """The node's counters by protocol; what the sockets counted stands with the transport and FD_SOCK."""
        found = node.stats()
        for number, net in self._nets.items():
            stack = node.local if number == LOCAL else node.bridge
            if stack is not None:
                prefix = "" if number == LOCAL else "bridge."
                found.setdefault(prefix + stack.transport.name, {}).update(net.counters())
                if net.links.counters:
                    found.setdefault(prefix + "FD_SOCK", {}).update(net.links.counters)
        if figures := self._durable.stats():
            found.setdefault("ARCHIVE", {}).update(figures)
        found["channel"] = {"send_queue_bytes": self.sends.nbytes, "backlog_bytes": self.inbox.backlog_bytes,
                            "messages_queued": self.sends.sent, "kept_back_bytes": node.pending_bytes(),
                            "payload_bytes_sent": self.sends.payload_bytes,
                            **self.counters}
        return found
