"""The state of the lag job: times of sending and of delivery that are not matched yet, histograms, flows, and pauses.

Lines of several sorts (column `sort`) in one schema. Lines with one `key` must come to `fold` together.

times   when the messages of a block were sent, or delivered by one recorder: numbers within the block and times
seen    which messages of a block a recorder's histograms contain already
delays  a histogram of (delivered - sent) of one origin at one recorder, by window of sending; clocks not corrected
flow    messages and bytes sent or delivered, by window of sending or delivery
edge    a stretch of a recorder's rows that was searched for pauses in the deliveries from one site, with the times at
        its first and its last delivery
pause   a time without deliveries from one site, inside a stretch or between two
start   row `start` of a recorder, which names its host
"""
from __future__ import annotations

import pyarrow as pa

from jgroups_py.pipeline.seqno_ranges import ORIGIN, RECORDER

TIMES, SEEN, DELAYS, FLOW, EDGE, PAUSE, START = "times", "seen", "delays", "flow", "edge", "pause", "start"
BLOCK_BITS = 16                          # the low bits of a seqno are its number within its block
BLOCK = 1 << BLOCK_BITS                  # seqnos of a block
KEPT_BLOCKS = 16                         # while streaming, an incomplete block is dropped after so many newer ones
BIN_NS = 20_000                          # width of a bin: percentiles are exact to half of it

STATE = pa.schema([
    pa.field("sort", pa.string()), pa.field("key", pa.string()),
    *(pa.field(name, pa.string()) for name in (*RECORDER, "kind", *ORIGIN)),
    pa.field("block", pa.int64()),
    pa.field("window", pa.int64()),                # number since 1970
    pa.field("n", pa.int64()),                     # messages
    pa.field("bytes", pa.int64()),
    pa.field("least", pa.int64()),                 # delays: lowest; times: first; pause, edge: begin
    pa.field("most", pa.int64()),                  # delays: highest; pause: length; edge: wall_ns of the end;
                                                   # flow: the highest seqno of stream "all"
    pa.field("row", pa.int64()), pa.field("row_stop", pa.int64()),           # edge; row, times: the first number
    pa.field("mono_ns", pa.int64()), pa.field("mono_stop_ns", pa.int64()),                                # edge
    pa.field("a", pa.binary()),                    # packed: bins; numbers within the block, null: `n` from `row` on
    pa.field("b", pa.binary()),                    # packed: counts; times
    pa.field("detail", pa.string()),               # start: the detail of that row
])
RECORDER_AND_ORIGIN = (*RECORDER, *ORIGIN)
