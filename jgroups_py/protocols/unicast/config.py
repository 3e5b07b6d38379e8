"""The properties of UNICAST."""
from __future__ import annotations

from typing import ClassVar

import attrs

from jgroups_py.units import count, duration, size

TABLE = "messages are kept as runs in windows, not in a table of rows"
THREADS = "there is one thread, so messages are always delivered as the runs in which they came"


@attrs.frozen
class UnicastConfig:
    """How long to wait, how much to ask for, when to give up."""

    ignored: ClassVar[dict[str, str]] = {
        **dict.fromkeys(("xmit_table_num_rows", "xmit_table_msgs_per_row", "xmit_table_resize_factor",
                         "xmit_table_max_compaction_time", "xmit_table_automatic_purging", "capacity",
                         "segment_capacity", "max_msg_batch_size", "max_bytes", "stable_interval"), TABLE),
        **dict.fromkeys(("max_batch_size", "reuse_message_batches", "send_atomically", "loopback",
                         "ack_batches_immediately"), THREADS),
        **dict.fromkeys(("sync_min_interval", "log_not_found_msgs", "exponential_backoff", "timeout"),
                        "acknowledgements carry numbers that only grow, so stale ones need no timestamps, and every "
                        "message says from which number on its sender holds messages"),
        **dict.fromkeys(("xmits_enabled", "use_gms", "num_acks_received", "resend_last_seqno"),
                        "retransmission cannot be switched off"),
    }

    xmit_interval_ns: int = duration(
        "500ms", least="1ms", doc="Longest wait before something unanswered is sent again (a request for missing "
        "messages, the last message when no acknowledgement came), or twice as long as answers usually take, up to 16 "
        "times it. The first wait is a fraction of it, but longer than answers take. Lower repairs sooner, and repeats "
        "more until it is known how long answers take.")
    ack_threshold: int = count(
        1000, least=1, doc="Messages received from a member that are acknowledged at once. Lower frees the sender's "
        "memory sooner and costs more acknowledgements.")
    ack_delay_ns: int = duration(
        "20ms", least=0, doc="Longest time that a received message goes unacknowledged. Lower frees the sender's "
        "memory sooner and costs more acknowledgements under light load.")
    gap_delay_ns: int = duration(
        "5ms", doc="How long a hole may stand before its messages are asked for, since frames may overtake each "
        "other. Lower repairs sooner; too low asks for what is on its way.")
    max_xmit_req_size: int = count(
        10_000, least=1, doc="Messages asked for in one request.")
    max_resend_bytes: int = size(
        "1M", name="max_resend_size", least="64K", doc="Bytes sent again for one request; the rest has to be asked "
        "for again. Higher repairs large holes sooner, and may overrun the receiver's socket buffer.")
    max_ahead: int = count(
        1 << 20, least=1000, doc="How far above the number wanted next a message is kept; messages further ahead are "
        "dropped and come again. Bounds what a broken sender can make us keep.")
    max_ahead_bytes: int = size(
        "8M", least="64K", name="max_ahead_size", doc="Most bytes kept of all members together that cannot be "
        "delivered yet, as something before them is missing; what comes beyond is dropped and comes again. Each "
        "member has its equal part of it, whatever others take. Keep it above UFC's max_credits and above "
        "max_resend_size, or recovery is slow.")
    max_strangers: int = count(
        1000, least=1, doc="Connections with so many that never were in the view are kept, the latest; an older one "
        "goes on where it was when it speaks again. Bounds what others can make us remember.")
    max_stranger_bytes: int = size(
        "1M", least="64K", name="max_stranger_size", doc="Most payload bytes kept of all those together, beyond what "
        "can be delivered at once.")
    conn_expiry_timeout_ns: int = duration(
        "2m", name="conn_expiry_timeout", doc="An idle connection is forgotten after once to twice this time; the "
        "next message opens a new one, which costs nothing. 0: never.")
    conn_close_timeout_ns: int = duration(
        "4m", name="conn_close_timeout", doc="How long the connection to a member that left the view is kept, because "
        "it may come back (false suspicion, merge). Then its unacknowledged messages are dropped and counted.")
    max_retransmit_time_ns: int = duration(
        "60s", name="max_retransmit_time", doc="How long messages to somebody outside the view are sent again while "
        "no acknowledgement comes; 0: until conn_close_timeout. Members of the view are never given up.")
    max_unheard_bytes: int = size(
        "16M", name="max_unheard_size", least="64K", doc="What is kept for somebody outside the view who acknowledges "
        "nothing; beyond it all of that is given up and counted. Bounds memory: credits hold back members only.")
    max_early_bytes: int = size(
        "4M", name="max_early_size", doc="What is kept of the messages that come before our first view; the rest is "
        "dropped and comes again.")
