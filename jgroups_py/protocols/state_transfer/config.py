"""The properties of STATE_TRANSFER."""
from __future__ import annotations

from typing import ClassVar

import attrs

from jgroups_py.model.units import duration, size

POOL = "there are no threads to pool: a state is a stream of messages"
SOCKETS = "the state travels through the stack, not on a socket of its own"


@attrs.frozen
class StateTransferConfig:
    """Bounds of a state transfer in bytes and in time."""

    ignored: ClassVar[dict[str, str]] = {
        **dict.fromkeys(("max_pool", "pool_thread_keep_alive", "max_pool_size", "use_default_transport"), POOL),
        **dict.fromkeys(("bind_addr", "bind_port", "bind_interface", "external_addr", "external_port", "port_range",
                         "recv_buf_size"), SOCKETS),
        "buffer_size": "the channel decides how large the chunks are that it passes to the stack",
    }

    window_bytes: int = size(
        "2M", least="64K", name="window", doc="Bytes of a state that may be under way. Higher is faster on a fast "
        "network; lower bounds the memory of the receiver.")
    max_buffer_bytes: int = size(
        "64M", name="max_buffer", doc="Bytes of multicasts that the requester keeps back until the cut is reached; "
        "beyond it the transfer fails.")
    provide_timeout_ns: int = duration(
        "2s", name="provide_timeout", doc="How long a provider waits until it has delivered what the requester has; "
        "then it refuses, and the requester requests the state of another member.")
    retry_interval_ns: int = duration(
        "200ms", least="1ms", name="retry_interval", doc="How long a requester waits, after all members "
        "refused, before it sends them requests again.")
