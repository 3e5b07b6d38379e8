"""The properties of UNICAST."""
from __future__ import annotations

from typing import ClassVar

import attrs

from jgroups_py.model.units import count, duration, size

TABLE = "messages are kept as batches in windows, not in a table of rows"
THREADS = "there is one thread, so messages are always delivered in the batches in which they came"


@attrs.frozen
class UnicastConfig:
    """How long to wait, how much to request, how much to keep, and when a peer is given up."""

    ignored: ClassVar[dict[str, str]] = {
        **dict.fromkeys(("xmit_table_num_rows", "xmit_table_msgs_per_row", "xmit_table_resize_factor",
                         "xmit_table_max_compaction_time", "xmit_table_automatic_purging", "capacity",
                         "segment_capacity", "max_msg_batch_size", "max_bytes", "stable_interval"), TABLE),
        **dict.fromkeys(("max_batch_size", "reuse_message_batches", "send_atomically", "loopback",
                         "ack_batches_immediately"), THREADS),
        **dict.fromkeys(("sync_min_interval", "log_not_found_msgs", "exponential_backoff", "timeout"),
                        "acknowledgements carry numbers that only grow, so stale ones need no timestamps, and every "
                        "message carries the number from which on its sender keeps messages"),
        **dict.fromkeys(("xmits_enabled", "use_gms", "num_acks_received", "resend_last_seqno"),
                        "retransmission cannot be switched off"),
    }

    xmit_interval_ns: int = duration(
        "500ms", least="1ms", doc="Longest wait before something unanswered is sent again (a request for missing "
        "messages, the last message when no acknowledgement came), or twice as long as answers usually take, up to 16 "
        "times it. The first wait is a fraction of it, but longer than answers take. Lower repairs sooner, and repeats "
        "more until the time that answers take is measured.")
    ack_threshold: int = count(
        1000, least=1, doc="Messages received from a member that are acknowledged at once. Lower frees the sender's "
        "memory sooner and costs more acknowledgements.")
    ack_delay_ns: int = duration(
        "20ms", least=0, doc="Longest time that a received message goes unacknowledged. Lower frees the sender's "
        "memory sooner and costs more acknowledgements under light load.")
    gap_delay_ns: int = duration(
        "5ms", doc="How long a hole may last before its messages are requested, since frames may overtake each "
        "other. Lower repairs sooner; too low requests what is under way.")
    max_xmit_req_size: int = count(
        10_000, least=1, doc="Messages requested at a time.")
    max_resend_bytes: int = size(
        "1M", name="max_resend_size", least="64K", doc="Bytes retransmitted for one request; the rest has to be "
        "requested again. Higher repairs large holes sooner, and may overrun the receiver's socket buffer.")
    max_ahead: int = count(
        1 << 20, least=1000, doc="How far above the next number in order a message is kept; messages further ahead "
        "are dropped and retransmitted. Bounds what a broken sender can make a member keep.")
    max_ahead_bytes: int = size(
        "8M", least="64K", name="max_ahead_size", doc="Most bytes kept of all members together that cannot be "
        "delivered yet, as something before them is missing; beyond it they are dropped and retransmitted. Each "
        "member has its equal part of it, whatever others take. Keep it above UFC's max_credits and above "
        "max_resend_size, or recovery is slow.")
    max_non_members: int = count(
        1000, least=1, doc="With how many processes that never were in the view connections are kept; the oldest "
        "is closed for a new one, and continues when its process sends again. Bounds the memory for non-members.")
    max_non_member_bytes: int = size(
        "1M", least="64K", name="max_non_member_size", doc="Most payload bytes kept of all those together, behind "
        "holes.")
    conn_expiry_timeout_ns: int = duration(
        "2m", name="conn_expiry_timeout", doc="An idle connection is closed after once to twice this time; the "
        "next message opens a new one, without a handshake. 0: never.")
    conn_close_timeout_ns: int = duration(
        "4m", name="conn_close_timeout", doc="How long the connection to a member that left the view is kept, because "
        "it may return (false suspicion, merge). Then its unacknowledged messages are dropped and counted.")
    max_retransmit_time_ns: int = duration(
        "60s", name="max_retransmit_time", doc="How long messages to a non-member are retransmitted while no "
        "acknowledgement comes; 0: until conn_close_timeout. Members of the view are never given up.")
    max_unacknowledged_bytes: int = size(
        "16M", name="max_unacknowledged_size", least="64K", doc="Most bytes kept for a non-member that acknowledges "
        "nothing; beyond it they are dropped and counted. Bounds memory: credits apply to members only.")
    max_early_bytes: int = size(
        "4M", name="max_early_size", doc="Most bytes kept of messages that arrive before the first view; the rest is "
        "dropped and retransmitted.")
