"""Properties of GMS."""
from __future__ import annotations

from typing import ClassVar

import attrs

from jgroups_py.model.units import count, duration, flag

NOT_NEEDED = "view changes here are agreed in rounds that repeat and time out by themselves"
LOG = "what happened is in the view, the counters and the log"


@attrs.frozen
class GmsConfig:
    """When membership gives up waiting."""

    ignored: ClassVar[dict[str, str]] = {
        **dict.fromkeys((
            "use_delta_views", "use_flush_if_present", "use_merger2", "use_merger3", "merge_killer_interval",
            "merge_kill_timeout", "check_if_member_leaving", "handle_concurrent_startup", "reject_join_from_existing_"
            "member", "leave_attempts", "max_leave_attempts", "resume_task_timeout", "flush_invoker_class", "shun",
            "disable_initial_coord",
            "view_handler_history_size", "install_view_locally_first", "become_server_queue_size",
            "membership_change_policy", "all_clients_retry_timeout"), NOT_NEEDED),
        **dict.fromkeys(("print_local_addr", "print_physical_addrs", "print_view_details", "log_view_warnings",
                         "log_collect_msgs", "num_prev_mbrs", "num_prev_views"), LOG),
    }

    join_timeout_ns: int = duration(
        "1s", least="10ms", doc="How long a joiner looks for members and waits for a coordinator's answer. The first "
        "member waits this long before it is alone in its view. Lower makes starting alone faster and concurrent "
        "starts in slow networks form several groups first.")
    max_join_attempts: int = count(
        10, least=0, doc="After so many searches without getting in, the joiner becomes a group of its own, which "
        "MERGE3 unites with others later; 0: never give up.")
    join_pause_ns: int = duration(
        "1s", doc="How long no joiner is admitted after one did not answer a view change, during which no member "
        "delivers; twice as long each further time in a row, up to 16 times. Lower lets joiners in sooner beside "
        "broken ones; higher leaves the group more time to deliver.")
    leave_timeout_ns: int = duration(
        "1s", doc="How long a leaver waits for the view without it, then it goes anyway.")
    merge_timeout_ns: int = duration(
        "5s", least="100ms", doc="How long a group that is ready waits for the merged view, and a leader for a merge; "
        "meanwhile such a group does not send. Where round trips were measured, 16 of them if that is longer, up to "
        "four times this.")
    silence_ns: int = duration(
        "2s", least="80ms", name="view_ack_collection_timeout", doc="A member that does not answer a view change "
        "for so long, though asked eight times, is excluded. Lower shortens the pause that a hung member causes; "
        "higher excludes fewer slow ones.")
    view_bundling: bool = flag(True, doc="Whether joins, leaves and suspicions are collected for max_bundling_time.")
    max_bundling_ns: int = duration(
        "10ms", name="max_bundling_time", doc="How long requests are collected before a view change starts. (Those "
        "that arrive while one runs are always collected.)")
