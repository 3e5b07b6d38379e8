"""The properties of NAKACK."""
from __future__ import annotations

from typing import ClassVar

import attrs

from jgroups_py.model.errors import ConfigError
from jgroups_py.model.units import count, duration, flag, show_duration, size

TABLE = "messages are kept as batches in a window that has no rows to size"
THREADS = "one loop thread passes batches up; there is nothing to batch, reuse or block"
LOGGING = "drops are counted by name, not logged one by one"
RING = "the window has no fixed size; flow control (MFC) bounds what senders may have unstable"


@attrs.frozen
class NakackConfig:
    """How soon missing messages are requested, how much is outstanding, and how much is kept."""

    ignored: ClassVar[dict[str, str]] = {
        **dict.fromkeys(("xmit_table_num_rows", "xmit_table_msgs_per_row", "xmit_table_resize_factor",
                         "xmit_table_max_compaction_time", "xmit_table_automatic_purging",
                         "xmit_history_max_size", "max_xmit_buf_size", "dynamic_buffers"), TABLE),
        **dict.fromkeys(("max_batch_size", "max_msg_batch_size", "reuse_message_batches", "send_atomically",
                         "sends_can_block", "loopback"), THREADS),
        **dict.fromkeys(("log_discard_msgs", "log_not_found_msgs", "suppress_time_non_member_warnings",
                         "print_stability_history_on_failed_xmit"), LOGGING),
        **dict.fromkeys(("capacity", "ack_threshold"), RING),
        **dict.fromkeys(("retransmit_timeout", "retransmit_timeouts", "exponential_backoff",
                         "use_stats_for_retransmission", "use_range_based_retransmitter",
                         "max_rebroadcast_timeout"), "requests are repeated at a pace of their own, from ask_again up "
                        "to xmit_interval"),
        "discard_delivered_msgs": "delivered messages are kept until stable: virtual synchrony needs them",
        "use_mcast_xmit_req": "one member is asked at a time, another if it does not answer",
        "gc_lag": "stable messages are dropped at once",
    }

    first_ask_ns: int = duration(
        "5ms", least="100us", doc="How long a hole may be mere reordering before its messages are requested. It grows "
        "by itself, up to a quarter of xmit_interval, while requests turn out to be premature. Lower recovers sooner; "
        "higher sends fewer needless requests.")
    ask_again_ns: int = duration(
        "20ms", least="1ms", doc="Shortest time after which an unanswered request is repeated; it doubles up to "
        "xmit_interval while no answer comes.")
    xmit_interval_ns: int = duration(
        "500ms", least="1ms", doc="Longest time between two requests for the same message. Lower recovers sooner "
        "when much is lost; higher loads a struggling group less.")
    max_xmit_req: int = count(
        65536, least=1, name="max_xmit_req_size", doc="Most messages of one sender that are requested and outstanding "
        "at a time. Higher recovers faster, lower avoids bursts that are lost again.")
    ask_bytes: int = size(
        "512K", least="4K", name="max_xmit_req_bytes", doc="Most bytes of one sender's messages that are requested and "
        "outstanding at a time, estimated from the sizes of earlier ones.")
    resend_bytes: int = size(
        "256K", least="4K", doc="Most bytes retransmitted at once; what was requested beyond that follows after "
        "resend_pause. Keep it below the receivers' socket buffers.")
    resend_pause_ns: int = duration("2ms", least="100us", doc="Pause between two bursts of retransmissions.")
    use_mcast_xmit: bool = flag(
        False, doc="Whether retransmissions are multicast. Better where many members lose the same frame; "
        "worse where losses differ, as all members then receive what one of them missed.")
    xmit_from_random_member: bool = flag(
        False, doc="Whether requests go to another member than the sender first, which takes load off a busy sender.")
    resend_last_seqno: bool = flag(
        True, doc="Whether a sender that fell silent announces its last number, so that the loss of its last "
        "messages is noticed.")
    announce_ns: int = duration(
        "100ms", least="1ms", doc="Time without a multicast after which a sender announces that first; it doubles "
        "with each repetition, up to 64 times as long, until its messages are stable.")
    announce_times: int = count(
        0, name="resend_last_seqno_max_times", also=("resend_last_seqno_max_count",),
        doc="How often it announces that at most; 0: until its messages are stable.")
    max_ahead_bytes: int = size(
        "8M", least="64K", name="max_ahead_size", doc="Most bytes kept of all senders together that cannot yet be "
        "delivered, as something before them is missing; what is furthest ahead of the sender that takes most is "
        "dropped first, counted, and requested later. Keep it above MFC's max_credits, or recovery is slow; higher "
        "lets broken senders fill more memory.")
    early_batches: int = count(
        50, name="become_server_queue_size", doc="Most batches kept that belong to a view which is not installed "
        "here yet; older ones are dropped and requested later.")
    early_bytes: int = size("4M", name="become_server_queue_bytes", doc="Most payload bytes of such batches.")

    def __attrs_post_init__(self) -> None:
        if not self.first_ask_ns <= self.xmit_interval_ns or not self.ask_again_ns <= self.xmit_interval_ns:
            raise ConfigError(f"first_ask ({show_duration(self.first_ask_ns)}) and ask_again "
                              f"({show_duration(self.ask_again_ns)}) may not exceed xmit_interval "
                              f"({show_duration(self.xmit_interval_ns)})")
