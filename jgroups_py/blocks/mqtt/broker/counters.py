"""What a broker counts: each loss and each refusal under a name that is declared here."""
from __future__ import annotations

from jgroups_py.model.counters import Counters, counter, declare, drop, table

COUNTERS = declare(
    counter("received", "PUBLISH packets of clients."),
    counter("received_bytes", "Payload bytes of them."),
    counter("sent", "PUBLISH packets to clients, first transmissions."),
    counter("resent", "PUBLISH and PUBREL packets that were repeated after a reconnect."),
    counter("connects", "Clients that connected."),
    counter("taken_over", "Connections closed because the client connected again."),
    counter("wills", "Will messages published."),
    counter("ack_timeouts", "Publications acknowledged before all peers had taken them over."),
    drop("dropped_expired", "Messages whose expiry interval ran out in a queue."),
    drop("dropped_queue_full", "Messages that made room for newer ones in the full queue of a session."),
    drop("dropped_offline_qos_0", "Messages of QoS 0 for sessions without a connection."),
    drop("dropped_too_large", "Messages larger than the Maximum Packet Size of the subscriber."),
    drop("dropped_session_ended", "Queued or unacknowledged messages of sessions that ended."),
    drop("dropped_by_client", "Messages of QoS 2 that the subscriber refused with a PUBREC of 0x80 or above."),
    drop("dropped_had_elsewhere", "Messages that a session had at the node that it came from."),
    drop("dropped_no_member", "Shared subscriptions matched whose only members ended their sessions meanwhile."),
    counter("moved_to_other_member",
            "Messages of a shared subscription given to another member, as the session ended."),
    drop("refused_publish", "Publications that access control does not allow."),
    drop("refused_topic", "Publications to $SYS, or with more levels than are allowed."),
    counter("refused_retained", "Retained messages beyond their number; delivered, but not kept."),
    counter("refused_subscribe", "Subscriptions that access control or a limit does not allow."),
    counter("refused_connect", "CONNECT packets answered with a failure."),
    counter("refused_full", "Connections beyond their number."),
    drop("not_connected", "Packets before CONNECT."),
    counter("protocol_errors", "Clients disconnected because they broke the standard."),
    counter("malformed", "Clients disconnected because of bytes that are no packets."),
    counter("keep_alive_timeouts", "Clients from which nothing came in 1.5 times their keep-alive."),
    counter("connect_timeouts", "Connections on which no CONNECT came in time."),
    counter("unexpected_acks", "Acknowledgements of packet ids that are not in flight, or of another state."),
    counter("slow_consumers", "Clients disconnected because their queue was full."),
    counter("paused_publishers", "Times that a publisher was not read for a while because a subscriber was full."),
    counter("block_timeouts", "Subscribers that stayed full longer than publishers wait."),
    counter("expired_sessions", "Sessions that ended after their expiry interval."),
)

SERVER_COUNTERS = declare(
    counter("accepted", "Connections, those with TLS after their handshake."),
    counter("tls_begun", "TLS handshakes that were begun; those that failed are not among `accepted`."),
    counter("websocket_ended", "WebSockets that ended, or were none."),
    counter("refused_passwords", "Clients refused because too many passwords waited to be checked."),
    counter("write_pauses", "Times that a client did not read fast enough, and its messages had to wait."),
    counter("unread_pauses", "Times that nothing was read from a client that did not read its acknowledgements."),
    counter("closed_unsent", "Connections cut because what had been sent did not arrive in time."),
    counter("exceptions", "Errors in the broker; each closed the connection that caused it."),
)
"""What the server on sockets counts besides."""


def broker_counters() -> Counters:
    """Counters of one broker; a name that is not declared here is refused."""
    return Counters(table(COUNTERS))
