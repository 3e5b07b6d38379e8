"""The state of the lag job: times that wait for their counterpart, histograms, flows, and pauses.

Lines of several sorts (`sort`) in one schema. Lines with one `key` have to meet in a fold.

times   when the messages of a block were sent, or delivered by one recorder: numbers within the block and times
seen    which messages of a block a recorder's histograms have already
delays  a histogram of (delivered - sent) of one origin at one recorder, by window of sending; unshifted by any clock
flow    messages and bytes sent or delivered, by window of that
edge    from which row to which a recorder's deliveries from one site were looked at, with the times at both ends
pause   a time without deliveries from that site
"""
from __future__ import annotations

import pyarrow as pa

from jgroups_py.pipeline.seqno_ranges import ORIGIN, RECORDER

TIMES, SEEN, DELAYS, FLOW, EDGE, PAUSE, START = "times", "seen", "delays", "flow", "edge", "pause", "start"
BLOCK_BITS = 16                          # of a seqno: which one of its block it is
BLOCK = 1 << BLOCK_BITS                  # seqnos of a block
KEPT_BLOCKS = 16                         # of one numbering, what is incomplete waits so long while streaming
BIN_NS = 20_000                          # of a histogram: percentiles are right to half of it

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
    pa.field("a", pa.binary()),                    # packed: bins; numbers within the block, null: from `row` on all
    pa.field("b", pa.binary()),                    # packed: counts; times
    pa.field("detail", pa.string()),               # start: what the recorder reported of itself
])
RECORDER_AND_ORIGIN = (*RECORDER, *ORIGIN)
