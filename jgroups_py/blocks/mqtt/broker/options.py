"""What a broker may be told, and every limit it keeps."""
from __future__ import annotations

import enum

import attrs


class WhenFull(enum.Enum):
    """What happens with a message for a session whose queue is full."""

    DROP_OLDEST = "drop-oldest"
    DISCONNECT = "disconnect"
    """The client loses its connection (0x97); its session keeps what is queued, and drops its oldest meanwhile."""
    BLOCK = "block"
    """Its publishers are not read until there is room, at most `block_timeout_s`; then the oldest is dropped. For a
    session without a connection nobody waits."""


class AckWhen(enum.Enum):
    """What PUBACK and PUBREC mean."""

    LOCAL = "local"
    """This broker has the message in the queues of its own sessions."""
    PEERS = "peers"
    """And the matching brokers of this site have it too, or `ack_timeout_s` has passed."""


@attrs.frozen(kw_only=True)
class BrokerOptions:
    """Times are seconds, sizes bytes. What a limit turns away is counted under a name (`Broker.counters`)."""

    node_name: str = "node"                              # in assigned client ids and $SYS
    max_clients: int = 100_000                           # connections and sessions, each
    max_subscriptions: int = 10_000                      # of one client
    max_levels: int = 128                                # of a topic or filter
    max_packet_bytes: int = 16 << 20                     # told to clients; the decoder refuses larger ones
    max_qos: int = 2
    retain_available: bool = True
    max_retained: int = 1_000_000
    reveal_refusals: bool = True                         # 0x87 for what rules forbid; False: 0x80, no reason
    receive_maximum: int = 1_000                         # publications in flight from one client
    max_inflight: int = 1_000                            # towards one client, whatever it allows
    topic_alias_maximum: int = 64                        # that a client may use towards us, and we towards it
    queue_messages: int = 100_000                        # of one session, besides those in flight
    queue_bytes: int = 64 << 20
    when_full: WhenFull = WhenFull.DROP_OLDEST
    block_timeout_s: float = 5.0
    queue_qos_0: bool = False                            # for sessions without a connection
    max_session_expiry_s: int = 7 * 24 * 3600            # 3.1.1 sessions that are not clean live so long too
    max_queued_s: float = 0                              # of a message in a queue; 0: as long as its publisher allows
    connect_timeout_s: float = 10.0                      # from connection to CONNECT
    max_keep_alive_s: int = 0                            # 0: as the client wants; else for all
    ack: AckWhen = AckWhen.PEERS
    ack_timeout_s: float = 5.0
    match_cache: int = 100_000                           # topics
    sys_interval_s: float = 10.0                         # of $SYS; 0: none
