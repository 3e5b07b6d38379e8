"""The columns of the archive: one row per message sent or delivered, and one per fact that the member recorded.

A sealed segment has rows with the columns of `ROWS`. The path of its folder gives cluster, site, member, incarnation,
date and hour, which are not repeated inside (Spark takes them from the path); readers return both, `ALL`. The open
segment has lines with the columns of `LINES`, one for all messages of a batch; rows.py unfolds them.
"""
from __future__ import annotations

from typing import Final

from jgroups_py.archive.arrow import pa

VERSION: Final = 1

START, STOP = "start", "stop"                # of the recorder; detail: both clocks; start: version, host, settings
SENT, DELIVERED = "sent", "delivered"        # messages, one row each
VIEW, GLOBAL_VIEW = "view", "global_view"
SITE, RELAY = "site", "relay"                # another site's status; the relay of a site, with its epoch
LOST, UNREACHABLE = "lost", "unreachable"    # losses that were declared to the application
PASSED = "passed"                            # messages of topics to which no member of this site subscribes
COVERED = "covered"                          # messages in a state of another site that was installed: not delivered
SKIPPING = "skipping"                        # FLOW starts or stops to drop a sender's multicasts for a slow application
FORGOTTEN = "forgotten"                      # numbers of NAKACK that no member keeps any longer
GAP = "gap"                                  # messages that the recorder itself dropped
KINDS: Final = (START, STOP, SENT, DELIVERED, VIEW, GLOBAL_VIEW, SITE, RELAY, LOST, UNREACHABLE, PASSED, COVERED,
                SKIPPING, FORGOTTEN, GAP)
MESSAGES: Final = (SENT, DELIVERED)

STREAMS: Final = ("all", "local", "unreliable", "unicast", "mqtt")
"""An origin counts the messages of each stream from 1; of `unicast` those for each destination. Stream `mqtt`: what
clients of a broker publish, which other brokers get inside messages of other streams, if they want it."""
MQTT: Final = STREAMS[4]

HEADERS = pa.map_(pa.int32(), pa.binary())

ROWS = pa.schema([
    pa.field("row", pa.int64(), nullable=False),            # of this recorder (incarnation), from 0, without holes
    pa.field("kind", pa.string(), nullable=False),
    pa.field("wall_ns", pa.int64(), nullable=False),        # since 1970, by this host's clock
    pa.field("mono_ns", pa.int64(), nullable=False),        # this host's monotonic clock, the same instant
    pa.field("view_id", pa.string()),                       # the view it happened in: counter in 16 hex digits|hex
    pa.field("origin_site", pa.string()),                   # null without RELAY
    pa.field("origin", pa.string()),                        # the sender's incarnation, 32 hex digits
    pa.field("origin_name", pa.string()),                   # its logical name
    pa.field("stream", pa.string()),                        # which numbering `seqno` belongs to, see STREAMS
    pa.field("seqno", pa.int64()),                          # per origin and stream, from 1; lost, gap: the first
    pa.field("count", pa.int64(), nullable=False),          # messages that the row stands for: 1; lost, gap: how many
    pa.field("dest", pa.string()),                          # null: all; else an incarnation, 32 hex digits
    pa.field("flags", pa.int32()),
    pa.field("headers", HEADERS),                           # the application's (200 and up) and blocks' (below)
    pa.field("topic", pa.string()),                         # of a published message
    pa.field("size", pa.int32()),                           # payload bytes, whether recorded or not
    pa.field("payload", pa.binary()),
    pa.field("detail", pa.string()),                        # of a fact: a JSON object, keys as in design/archive.md
])
"""The columns of a row."""

PLACE = pa.schema([
    pa.field("cluster", pa.string(), nullable=False),
    pa.field("site", pa.string()),
    pa.field("member", pa.string(), nullable=False),
    pa.field("incarnation", pa.string(), nullable=False),
    pa.field("date", pa.string(), nullable=False),          # "2026-11-21", UTC, of the segment's first row
    pa.field("hour", pa.int32(), nullable=False),
])
"""The columns that the path of a segment gives."""

ALL = pa.schema([*PLACE, *ROWS])

LINES = pa.schema([
    *(field for field in ROWS if field.name not in ("size", "payload")),
    pa.field("rows", pa.int32(), nullable=False),           # how many rows the line unfolds to, with rising numbers
    pa.field("sizes", pa.list_(pa.int32())),                # one size for all rows, or one each; null: no payloads
    pa.field("payloads", pa.large_binary()),                # all payloads, one behind the other; null: not recorded
])
"""The columns of a line of the open segment; `row` and `seqno` are those of its first row."""

FEW_VALUES = ("kind", "view_id", "origin_site", "origin", "origin_name", "stream", "dest", "topic", "detail")
"""Columns with few different values: they are dictionaries in sealed segments."""
