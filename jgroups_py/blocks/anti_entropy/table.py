"""SharedTable: a keyed state on a channel, eventually equal at all members despite losses and partitions.

A write is applied locally and multicast. Writes that do not arrive (a partition, a site for which messages were lost)
are repaired by exchanges with one random member at a time, on a timer and at every view change; with RELAY, with
members of other sites as well. No operation waits for other members: they may see different values for a while, and of
two concurrent writes one is lost (last writer wins). For agreement use blocks.replication.
"""
from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import ClassVar

from jgroups_py.blocks.anti_entropy.replica import Change, Replica, Settings
from jgroups_py.channel.base import BaseChannel
from jgroups_py.channel.block import Block, Connection
from jgroups_py.model.address import Address
from jgroups_py.model.batch import Batch
from jgroups_py.model.errors import ChannelError, WireError
from jgroups_py.model.outputs import Output, ViewInstalled
from jgroups_py.model.view import View
from jgroups_py.wire.block_headers import BlockHeader, Reconcile

log = logging.getLogger("jgroups_py")

SERVICES = 1 << 16
JOIN_SECONDS = 2.0
ENTRY_BYTES = 256                      # of a message, besides the key and the value of its entry
WRITE_SECONDS = 5.0                    # how long a write waits for a slow group; then an exchange repairs it
Watcher = Callable[[Change], object]


class SharedTables(Block):
    """All shared tables of one channel."""

    headers: ClassVar[tuple[type[BlockHeader], ...]] = (Reconcile,)

    @classmethod
    def of(cls, channel: BaseChannel) -> SharedTables:
        """The block of a channel, made and attached if it has none."""
        found = next((block for block in channel.blocks if isinstance(block, SharedTables)), None)
        if found is None:
            found = cls()
            channel.attach(found)
        return found

    def __init__(self) -> None:
        self.tables: dict[int, SharedTable] = {}
        self.connection: Connection | None = None

    def begin(self, connection: Connection) -> None:
        self.connection = connection

    def early(self, outputs: Sequence[Output]) -> Sequence[Output]:
        for output in outputs:
            if isinstance(output, ViewInstalled):
                for table in self.tables.values():
                    table.view_changed(output.view)
        return outputs

    def deliver(self, batch: Batch) -> None:
        header = batch.headers[0]
        assert isinstance(header, Reconcile), "a block gets batches with its own headers only"
        table = self.tables.get(header.service)
        if table is not None and batch.src != table.replica.me:
            for payload in batch.payloads:
                table.receive(batch.src, payload)


class SharedTable:
    """A table of bytes to bytes, shared by the members of a group. Any thread may call it.

    service: distinguishes several tables of a channel; interval: seconds between exchanges; changed: called with every
    Change that other members made, on the thread of the channel's callbacks.
    """

    def __init__(
        self, channel: BaseChannel, service: int = 1, interval: float = 1.0, changed: Watcher | None = None,
        settings: Settings | None = None, wall_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        tables = SharedTables.of(channel)
        if not 0 <= service < SERVICES or service in tables.tables:
            raise ValueError(f"service {service} is taken, or not within 0 to {SERVICES - 1}")
        if interval <= 0:
            raise ValueError(f"an interval of {interval} s is not above 0")
        self.changed = changed
        # The writer distinguishes versions. A channel has a new address after each connect, so the table draws its own.
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
        """Set a key, here at once and at other members eventually; connected or not.

        Raises:
            ValueError: the key is not of 1 to 1024 bytes, or key and value do not fit one message of the channel.
        """
        self._write(key, bytes(value))

    def delete(self, key: bytes) -> None:
        """Delete a key, here at once and at other members eventually. A copy that was cut off does not restore it.

        Raises:
            ValueError: see `put`.
        """
        self._write(key, None)

    def get(self, key: bytes) -> bytes | None:
        """The local value of a key; None: it has none."""
        with self._lock:
            return self.replica.get(key)

    def items(self) -> dict[bytes, bytes]:
        """All local keys with their values."""
        with self._lock:
            return self.replica.items()

    def __len__(self) -> int:
        return len(self.items())

    def __iter__(self) -> Iterator[bytes]:
        return iter(self.items())

    @property
    def root(self) -> bytes:
        """The hash of all entries; equal at two members that hold the same."""
        with self._lock:
            return self.replica.root

    def stats(self) -> dict[str, float]:
        """Counters: nodes_differing, pulled, pushed, refused, malformed; deletions: marks that are kept now."""
        with self._lock:
            return {**self.replica.counters, "deletions": len(self.replica.deleted)}

    def close(self) -> None:
        """Stop exchanging; the contents stay readable."""
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

    # --- exchanges with other members ---------------------------------------------------------------------------------

    def receive(self, src: Address, data: bytes) -> None:
        """Handle a message of another member's table."""
        try:
            with self._lock:
                changes, replies = self.replica.receive(data, self._wall_ns())
        except WireError:
            self.replica.counters.add("malformed")
            return
        for reply in replies:
            self._send(src, reply)
        for change in changes if self.changed is not None else ():
            self._report(change)

    def _report(self, change: Change) -> None:
        assert self.changed is not None, "checked by the caller"
        try:
            self.changed(change)
        except Exception:
            self.replica.counters.add("watcher_exceptions")
            log.exception("a watcher of a shared table raised")

    def view_changed(self, view: View) -> None:
        """Begin an exchange soon: a new member may hold other entries. Inside a round."""
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
        connection = self._tables.connection
        if connection is None or connection.ended:
            return                                        # not connected: an exchange repairs it
        try:
            connection.sends.put(dest, message, 0, (Reconcile(self._service),), wait)
        except ChannelError:
            self.replica.counters.add("not_sent")
