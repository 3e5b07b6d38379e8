"""SharedTable: a keyed state on a channel, the same at all members in the end, whatever is lost and whoever was apart.

A write is applied here and multicast; what does not arrive (a partition, a site that was given up) is made up for by
exchanges with one member after another, on a timer and whenever the view changes; with RELAY, with members of other
sites too. Nobody waits for anybody: members may see different values for a while, and of two writes that did not know
of each other one is lost (last writer wins). Who needs agreement needs blocks.replicas.
"""
from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import ClassVar

from jgroups_py.address import Address
from jgroups_py.batch import Batch
from jgroups_py.block import Block
from jgroups_py.blockheaders import BlockHeader, Reconcile
from jgroups_py.blocks.anti_entropy.replica import Change, Replica, Settings
from jgroups_py.errors import ChannelError, WireError
from jgroups_py.outputs import Output, ViewInstalled
from jgroups_py.session import BaseChannel, Session
from jgroups_py.view import View

log = logging.getLogger("jgroups_py")

SERVICES = 1 << 16
JOIN_SECONDS = 2.0
ENTRY_BYTES = 256                      # of a message, beside the key and the value of its entry
WRITE_SECONDS = 5.0                    # a write waits so long for a slow group; then an exchange makes up for it
Watcher = Callable[[Change], object]


class Tables(Block):
    """All shared tables of one channel."""

    headers: ClassVar[tuple[type[BlockHeader], ...]] = (Reconcile,)

    @classmethod
    def of(cls, channel: BaseChannel) -> Tables:
        """Those of a channel; attached if it has none yet."""
        found = next((block for block in channel.blocks if isinstance(block, Tables)), None)
        if found is None:
            found = cls()
            channel.attach(found)
        return found

    def __init__(self) -> None:
        self.tables: dict[int, SharedTable] = {}
        self.session: Session | None = None

    def begin(self, session: Session) -> None:
        self.session = session

    def early(self, outputs: Sequence[Output]) -> Sequence[Output]:
        for output in outputs:
            if isinstance(output, ViewInstalled):
                for table in self.tables.values():
                    table.view_changed(output.view)
        return outputs

    def deliver(self, batch: Batch) -> None:
        header = batch.headers[0]
        assert isinstance(header, Reconcile), "only what is ours is given to us"
        table = self.tables.get(header.service)
        if table is not None and batch.src != table.replica.me:
            for payload in batch.payloads:
                table.receive(batch.src, payload)


class SharedTable:
    """See the module. Keys and values are bytes. Any thread may call it.

    service: tells several tables of a channel apart; interval: seconds between exchanges; changed: called with every
    Change that others' writes bring, on the thread that delivers.
    """

    def __init__(
        self, channel: BaseChannel, service: int = 1, interval: float = 1.0, changed: Watcher | None = None,
        settings: Settings | None = None, wall_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        tables = Tables.of(channel)
        if not 0 <= service < SERVICES or service in tables.tables:
            raise ValueError(f"service {service} is taken, or not within 0 to {SERVICES - 1}")
        if interval <= 0:
            raise ValueError(f"an interval of {interval} s is not above 0")
        self.changed = changed
        # Versions are told apart by who writes. A channel has another address each time, so we draw one for the table.
        self._rng = Random()
        self.replica = Replica(Address(self._rng.randbytes(16)), settings)
        self._tables = tables
        self._service = service
        self._interval = interval
        self._wall_ns = wall_ns
        self._lock = threading.RLock()
        self._view: View | None = channel.view
        self._channel = channel
        self._wake = threading.Event()
        self._over = False
        tables.tables = {**tables.tables, service: self}
        self._thread = threading.Thread(target=self._rounds, name=f"jgroups-{channel.name}-table", daemon=True)
        self._thread.start()

    # --- as a table ---------------------------------------------------------------------------------------------------

    def put(self, key: bytes, value: bytes) -> None:
        """Set a key here at once, and elsewhere by and by; connected or not.

        Raises:
            ValueError: the key is not of 1 to 1024 bytes, or key and value do not fit one message of the channel.
        """
        self._write(key, bytes(value))

    def delete(self, key: bytes) -> None:
        """Delete a key, likewise. A copy that comes back does not bring it back.

        Raises:
            ValueError: see `put`.
        """
        self._write(key, None)

    def get(self, key: bytes) -> bytes | None:
        """What it stands for here."""
        with self._lock:
            return self.replica.get(key)

    def items(self) -> dict[bytes, bytes]:
        """All of it, here and now."""
        with self._lock:
            return self.replica.items()

    def __len__(self) -> int:
        return len(self.items())

    def __iter__(self) -> Iterator[bytes]:
        return iter(self.items())

    @property
    def root(self) -> bytes:
        """Equal at two members: they hold the same."""
        with self._lock:
            return self.replica.root

    def stats(self) -> dict[str, float]:
        """Counters: nodes_differing, pulled, pushed, refused, malformed; and how many deletions are remembered now."""
        with self._lock:
            return {**self.replica.counters, "deletions": len(self.replica.deleted)}

    def close(self) -> None:
        """Take no part any more; the contents stay readable."""
        self._over = True
        self._wake.set()
        self._tables.tables = {number: table for number, table in self._tables.tables.items() if table is not self}
        if self._thread is not threading.current_thread():
            self._thread.join(JOIN_SECONDS)

    def _write(self, key: bytes, value: bytes | None) -> None:
        room = self._channel.max_message_bytes - ENTRY_BYTES - len(key)
        if value is not None and len(value) > room:
            raise ValueError(f"a value of {len(value)} bytes exceeds the {room} that fit one message with this key")
        with self._lock:
            _, message = self.replica.write(bytes(key), value, self._wall_ns())
        self._send(None, message, WRITE_SECONDS)

    # --- with others --------------------------------------------------------------------------------------------------

    def receive(self, src: Address, data: bytes) -> None:
        """A message of another member's table."""
        try:
            with self._lock:
                changes, replies = self.replica.receive(data, self._wall_ns())
        except WireError:
            self.replica.counters.add("malformed")
            return
        for reply in replies:
            self._send(src, reply)
        for change in changes if self.changed is not None else ():
            self._tell(change)

    def _tell(self, change: Change) -> None:
        assert self.changed is not None, "asked before"
        try:
            self.changed(change)
        except Exception:
            self.replica.counters.add("watcher_exceptions")
            log.exception("a watcher of a shared table raised")

    def view_changed(self, view: View) -> None:
        """Inside a round: somebody came or went; who came may hold something else."""
        self._view = view
        self._wake.set()

    def _rounds(self) -> None:
        while not self._over:
            self._wake.wait(self._interval * self._rng.uniform(0.5, 1.5))
            self._wake.clear()
            if not self._over:
                with self._lock:
                    message = self.replica.begin(self._wall_ns())
                others = self._others()
                if others:
                    self._send(self._rng.choice(others), message)

    def _others(self) -> list[Address]:
        view, everywhere = self._view, self._channel.global_view
        here = () if view is None else view.members
        members = here if everywhere is None else [member for site in everywhere.sites.values() for member in site]
        return [member for member in members if member != self._channel.address]

    def _send(self, dest: Address | None, message: bytes, wait: float = 0.0) -> None:
        session = self._tables.session
        if session is None or session.ended:
            return                                        # not connected: an exchange makes up for it
        try:
            session.host.sends.put(dest, message, 0, (Reconcile(self._service),), wait)
        except ChannelError:
            self.replica.counters.add("not_sent")
