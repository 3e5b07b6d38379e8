"""`jgroups archive replay`: multicasts the recorded multicasts again, in their order, at their speed or faster.

Every multicast of the archive is sent once, with its payload, application headers, flags and topic. Each sender's
messages are taken from one recorder, the one that has most of them, so that a sender's order does not depend on clocks;
senders are merged by time. Requests and answers of building blocks are left out: no request is pending for them.
"""
from __future__ import annotations

import json
import threading
from argparse import Namespace
from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import attrs

from jgroups_py.archive.arrow import pa, pc
from jgroups_py.archive.encryption import ArchiveKeys
from jgroups_py.archive.layout import RecorderId
from jgroups_py.archive.reading import read
from jgroups_py.archive.schema import DELIVERED
from jgroups_py.channel.message import FIRST_APP_HEADER, MessageBatch
from jgroups_py.channel.sync import JChannel
from jgroups_py.cli.archive.cat import rows_by_time
from jgroups_py.cli.showing import complain, show
from jgroups_py.model.errors import ConfigError
from jgroups_py.model.units import NS_PER_S
from jgroups_py.wire.topic_headers import TOPICS_ID

PIECE = 64                                   # messages handed to the channel at once
PROGRESS_SECONDS = 2.0
ARRIVE_SECONDS = 30.0                        # timeout for the delivery of the last messages
Key = tuple[str, str]
Row = dict[str, Any]


@attrs.define
class ReplayTally:
    """Messages sent, messages left out by reason, and messages delivered back to the sender."""

    messages: int = 0
    payload_bytes: int = 0
    of_blocks: int = 0
    without_payload: int = 0
    arrived: int = 0
    seconds: float = 0.0


class Sender:
    """The member that sends. It counts its own messages as they are delivered, so that it leaves after the last one."""

    def __init__(self, channel: JChannel, rate: float) -> None:
        self.tally = ReplayTally()
        self._channel = channel
        self._rate = rate
        self._topics = channel.spec.config_of("TOPICS") is not None
        self._changed = threading.Condition()
        self._began: tuple[float, int] | None = None         # when the first row was sent, and its time
        self._reported = monotonic()
        channel.receiver = self

    def receive_batch(self, batch: MessageBatch) -> None:
        """Count this member's own messages; those of other members are ignored."""
        if batch.src == self._channel.address:
            with self._changed:
                self.tally.arrived += len(batch)
                self._changed.notify_all()

    def send(self, rows: Iterable[Row]) -> None:
        """Send all rows, each when it is due, and wait for their delivery."""
        began = monotonic()
        for _, alike in groupby(rows, lambda row: (row["headers"], row["flags"], row["topic"], row["wall_ns"])):
            batch = list(alike)
            self._wait_for(batch[0]["wall_ns"])
            for at in range(0, len(batch), PIECE):
                self._send_batch(batch[at:at + PIECE])
        with self._changed:
            self._changed.wait_for(lambda: self.tally.arrived >= self.tally.messages, ARRIVE_SECONDS)
        self.tally.seconds = round(monotonic() - began, 3)

    def _wait_for(self, wall_ns: int) -> None:
        if self._began is None:
            self._began = monotonic(), wall_ns
        if self._rate:
            due = self._began[0] + (wall_ns - self._began[1]) / NS_PER_S / self._rate
            sleep(max(0.0, due - monotonic()))
        if monotonic() - self._reported > PROGRESS_SECONDS:
            self._reported = monotonic()
            complain(f"{self.tally.messages:,} messages sent")

    def _send_batch(self, batch: list[Row]) -> None:
        row, payloads = batch[0], [row["payload"] for row in batch]
        headers = {key: value for key, value in row["headers"] or () if key >= FIRST_APP_HEADER}
        if row["topic"] is not None and self._topics:
            for payload in payloads:
                self._channel.send(None, payload, row["flags"], headers=headers, topic=row["topic"])
        else:
            self._channel.send_batch(None, payloads, row["flags"], headers=headers)
        self.tally.messages += len(payloads)
        self.tally.payload_bytes += sum(map(len, payloads))


def replay(args: Namespace, recorders: list[RecorderId]) -> int:
    """Send the recorded multicasts; 1 if not all of them were delivered here."""
    channel = JChannel(args.stack, name=args.name, properties=dict(args.properties))
    sources = best_recorders(args.directory, recorders, args.keys)
    if not sources:
        raise ConfigError(f"{args.directory} has no delivered multicast")
    sender = Sender(channel, args.speed)
    rows = wanted_rows(rows_by_time(args.directory, recorders, args.begin_ns, args.end_ns, (DELIVERED,),
                                    args.keys), sources, sender.tally)
    with channel.connect(args.cluster):
        sender.send(rows)
    tally = sender.tally
    if tally.without_payload and not tally.messages:
        raise ConfigError(f"{args.directory} has no payloads; record with ARCHIVE's payload=true to replay")
    if args.json:
        print(json.dumps(attrs.asdict(tally)))
    else:
        show(f"{tally.messages:,} messages ({tally.payload_bytes:,} bytes) multicast into {args.cluster} in "
              f"{tally.seconds:g} s; left out: {tally.of_blocks:,} of building blocks, {tally.without_payload:,} "
              "recorded without payload")
    return 0 if tally.arrived >= tally.messages else 1


def best_recorders(
    directory: Path, recorders: Iterable[RecorderId], keys: ArchiveKeys | None = None,
) -> dict[Key, str]:
    """(origin, stream) -> the incarnation of the recorder that has most of its multicasts."""
    most: dict[Key, tuple[int, bool, str]] = {}
    for recorder in recorders:
        for key, number in counted(directory, recorder, keys).items():
            found = number, recorder.incarnation == key[0], recorder.incarnation
            most[key] = max(most.get(key, found), found)     # the sender's own recorder, if it has as many
    return {key: incarnation for key, (_, _, incarnation) in most.items()}


def counted(directory: Path, recorder: RecorderId, keys: ArchiveKeys | None = None) -> dict[Key, int]:
    """(origin, stream) -> how many of its multicasts a recorder has."""
    found: dict[Key, int] = {}
    for batch in read(directory, recorder, columns=["kind", "origin", "stream", "dest"], keys=keys):
        table = pa.Table.from_batches([batch])
        table = table.filter(pc.and_(pc.equal(table["kind"], DELIVERED), pc.is_null(table["dest"])))
        for row in table.group_by(["origin", "stream"]).aggregate([([], "count_all")]).to_pylist():
            key = row["origin"], row["stream"]
            found[key] = found.get(key, 0) + row["count_all"]
    return found


def wanted_rows(rows: Iterable[Row], sources: dict[Key, str], tally: ReplayTally) -> Iterator[Row]:
    """The rows to send; what is left out is counted."""
    for row in rows:
        if row["dest"] or sources[row["origin"], row["stream"]] != row["incarnation"]:
            continue
        if any(key < FIRST_APP_HEADER and key != TOPICS_ID for key, _ in row["headers"] or ()):
            tally.of_blocks += 1
        elif row["payload"] is None:
            tally.without_payload += 1
        else:
            yield row
