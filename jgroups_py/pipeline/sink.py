"""The sink `jgroups`: rows of a DataFrame multicast into a group, and over RELAY to all sites.

    df.writeStream.format("jgroups").option("stack", "nyc").option("cluster", "orders").start()

The payload is the column `payload` (binary or string) if there is one, else the row as JSON. Each worker process joins
the group once and stays in it for later tasks. A task ends only when its messages are safe: with RELAY, when they are
stable at its own and at all other sites (`until`); without, when they were delivered at the member itself, whose
process continues to retransmit. A task or batch that runs twice sends twice; every message carries its row, by which
receivers drop duplicates (dedup.py).

| option | |
|---|---|
| stack, cluster | as for JChannel |
| name | name of the member (default: spark) |
| property.X | value for ${X} in the stack file |
| until | receipts that a task waits for, separated by commas (default with RELAY: stable, stable@*; else none) |
| header | id of the header with the row (default: 900) |
| timeout | seconds for joining, sending and receipts (default: 30) |
| query | name of a batch write, the same if the write is repeated (default: a new one for each write) |
"""
from __future__ import annotations

import hashlib
import json
import os
import threading
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import attrs
from pyspark import TaskContext
from pyspark.sql import Row as SparkRow
from pyspark.sql.datasource import DataSourceStreamWriter, DataSourceWriter, WriterCommitMessage

from jgroups_py.channel.base import ChannelState
from jgroups_py.channel.message import Message
from jgroups_py.channel.sync import JChannel
from jgroups_py.model.errors import ConfigError
from jgroups_py.pipeline.dedup import HEADER_ID, Row

PREFIX = "property."
PAYLOAD = "payload"
STREAM_QUERY, STREAM_EPOCH = "sql.streaming.queryId", "streaming.sql.batchId"      # set by Spark for a batch's tasks
QUERY_BYTES = 16


@attrs.frozen
class Target:
    """The group that the rows go to, and how: the writer's options."""

    stack: str
    cluster: str
    name: str
    properties: tuple[tuple[str, str], ...]
    until: tuple[str, ...] | None
    header: int
    timeout_s: float

    @classmethod
    def of(cls, options: Mapping[str, str]) -> Target:
        """From a writer's options.

        Raises:
            ConfigError: one is missing or wrong.
        """
        missing = [name for name in ("stack", "cluster") if not options.get(name)]
        if missing:
            raise ConfigError(f"the sink jgroups needs option {' and '.join(missing)}")
        try:
            header, timeout_s = int(options.get("header", HEADER_ID)), float(options.get("timeout", 30))
        except ValueError as error:
            raise ConfigError(f"options header and timeout are numbers: {error}") from None
        until = options.get("until")
        return cls(options["stack"], options["cluster"], options.get("name", "spark"),
                   tuple(sorted((name[len(PREFIX):], value) for name, value in options.items()
                                if name.startswith(PREFIX))),
                   None if until is None else tuple(filter(None, map(str.strip, until.split(",")))), header, timeout_s)


@attrs.define(eq=False)
class SinkMember:
    """This process's member of a group, kept from task to task."""

    channel: JChannel
    arrived: threading.Condition = attrs.Factory(threading.Condition)
    own: int = 0                                            # messages of this member that were delivered to it

    def receive(self, message: Message) -> None:
        """Count a message of this member."""
        if message.src == self.channel.address:
            with self.arrived:
                self.own += 1
                self.arrived.notify_all()

    def has_delivered(self, number: int, timeout_s: float) -> bool:
        """Wait until `number` of this member's own messages were delivered to it; false: that took too long."""
        with self.arrived:
            return self.arrived.wait_for(lambda: self.own >= number, timeout_s)


_members: dict[tuple[int, Target], SinkMember] = {}


def member_of(target: Target) -> SinkMember:
    """This process's member of the group; joins if there is none yet."""
    key = (os.getpid(), target)
    known = _members.get(key)
    if known is None or known.channel.state is not ChannelState.CONNECTED:
        channel = JChannel(target.stack, name=f"{target.name}-{os.getpid()}", properties=dict(target.properties))
        found = _members[key] = SinkMember(channel)
        channel.receiver = found.receive
        channel.connect(target.cluster, timeout=target.timeout_s)
    return _members[key]


@attrs.frozen
class Sent(WriterCommitMessage):
    """The result of a task: how many rows it sent."""

    rows: int


def send_rows(target: Target, rows: Iterator[Any], query: bytes, epoch: int) -> Sent:
    """Multicast the rows of one task; returns when they are safe.

    Raises:
        TimeoutError: they were sent, but not delivered at this member in time.
    """
    context = TaskContext.get()
    partition = context.partitionId() if context is not None else 0
    member = member_of(target)
    channel, before, number = member.channel, member.own, 0
    until = target.until if target.until is not None else ("stable", "stable@*") if channel.site else ()
    for number, (row, last) in enumerate(with_last(rows), 1):
        header = {target.header: Row(query, epoch, partition, number - 1).encode()}
        # A sender's messages become stable in order, so the receipt for the last row is good for all of them.
        channel.send(None, payload_of(row), headers=header, timeout=target.timeout_s,
                     until=list(until) if last and until else None)
    if number and not member.has_delivered(before + number, target.timeout_s):
        raise TimeoutError(f"{number} rows were sent to {target.cluster}, but not delivered to the sender itself "
                           f"within {target.timeout_s:g} s")
    return Sent(number)


def with_last(rows: Iterable[Any]) -> Iterator[tuple[Any, bool]]:
    """Each row, and whether it is the last.

    >>> list(with_last("ab")), list(with_last(""))
    ([('a', False), ('b', True)], [])
    """
    nothing = object()
    held: Any = nothing
    for row in rows:
        if held is not nothing:
            yield held, False
        held = row
    if held is not nothing:
        yield held, True


def payload_of(row: Any) -> bytes:
    """The payload of a row's message.

    >>> payload_of(SparkRow(payload="x", size=1)), payload_of(SparkRow(a=1, b="c"))
    (b'x', b'{"a": 1, "b": "c"}')
    """
    fields = row.asDict(recursive=True)
    if PAYLOAD not in fields:
        return json.dumps(fields, default=str).encode()
    value = fields[PAYLOAD]
    return value.encode() if isinstance(value, str) else bytes(value or b"")


class GroupWriter(DataSourceWriter):
    """The writer of df.write."""

    def __init__(self, target: Target, query: str | None) -> None:
        self.target = target
        self.query = query_bytes(query or uuid.uuid4().hex)

    def write(self, iterator: Iterator[SparkRow]) -> WriterCommitMessage:
        """Send the rows of one task."""
        return send_rows(self.target, iterator, self.query, 0)


class GroupStreamWriter(DataSourceStreamWriter):
    """The writer of df.writeStream."""

    def __init__(self, target: Target) -> None:
        self.target = target

    def write(self, iterator: Iterator[SparkRow]) -> WriterCommitMessage:
        """Send the rows of one task of a batch."""
        context = TaskContext.get()
        assert context is not None, "Spark runs it in a task"
        query, epoch = context.getLocalProperty(STREAM_QUERY), context.getLocalProperty(STREAM_EPOCH)
        assert query is not None, "Spark names a batch's query"
        assert epoch is not None, "Spark numbers a batch"
        return send_rows(self.target, iterator, query_bytes(query), int(epoch))

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """Nothing to do: the group has the messages."""

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """Nothing to do: messages cannot be taken back. The batch runs again, and receivers drop duplicates."""


def query_bytes(name: str) -> bytes:
    """A query's name as 16 bytes."""
    return hashlib.blake2b(name.encode(), digest_size=QUERY_BYTES).digest()
