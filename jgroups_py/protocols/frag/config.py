"""The properties of FRAG."""
from __future__ import annotations

from typing import ClassVar

import attrs

from jgroups_py.model.errors import ConfigError
from jgroups_py.model.units import duration, size


@attrs.frozen
class FragConfig:
    """How large a fragment may be, and how much is kept of incomplete messages."""

    ignored: ClassVar[dict[str, str]] = {
        "max_retained_buffer": "there are no buffers to retain: fragments are kept as they arrived",
        "fragment_id": "messages are numbered from 1",
    }

    frag_size_bytes: int = size(
        "60K", least=512, name="frag_size", doc="Largest message that is sent whole, and the size of the fragments of "
        "larger ones. Must leave room for headers in max_bundle_size and be below the flow control's max_credits.")
    window_bytes: int = size(
        "1M", name="window", doc="Bytes of a large multicast that are under way through this member's stack. "
        "Higher is faster on a fast network; what is under way when a member joins is sent again.")
    max_message_bytes: int = size(
        "256M", name="max_message_size", most="2G", doc="Largest message that is sent or reassembled; larger ones "
        "are dropped with an error in the log.")
    max_reassembly_bytes: int = size(
        "1G", name="max_reassembly_size", doc="Bytes kept of incomplete messages, of all members together; a message "
        "that would exceed it is dropped and counted. So is one that would exceed a quarter of it by what fragments "
        "take beside their payloads.")
    max_non_member_bytes: int = size(
        "1M", least="64K", name="max_non_member_size", doc="Bytes kept of incomplete messages of non-members, of all "
        "together, with a few hundred bytes for each message. Larger messages of non-members never arrive.")
    non_member_timeout_ns: int = duration(
        "10s", least="1ms", doc="The message of a non-member is dropped if it is still incomplete after this time. "
        "Lower frees room sooner, higher spares slow networks.")

    def __attrs_post_init__(self) -> None:
        if self.max_reassembly_bytes < self.max_message_bytes:
            raise ConfigError("max_reassembly_size must not be below max_message_size "
                              f"({self.max_reassembly_bytes} < {self.max_message_bytes})")
        if self.window_bytes < self.frag_size_bytes:
            raise ConfigError(f"window must not be below frag_size ({self.window_bytes} < {self.frag_size_bytes})")
