"""Options and counters of the link to nodes of gmqtt."""
from __future__ import annotations

import attrs

from jgroups_py.model.counters import Counters, counter, declare, drop, table


@attrs.frozen(kw_only=True)
class GmqttOptions:
    """Times are seconds, sizes bytes. name: of this node in Serf, and in the metadata of each call."""

    name: str
    queue_bytes: int = 64 << 20                          # for one peer; beyond it the oldest message is dropped
    keep_peer_s: float = 60.0                            # what is queued for a peer that failed
    window_events: int = 1_000                           # under way to one peer
    window_bytes: int = 1 << 20
    retry_s: float = 0.5                                 # backoff of Hello: 0, then this, twice this, ... as gmqtt does
    retry_most_s: float = 2.0
    sync_s: float = 5.0                                  # after a clean start, in which retained messages may be old
    heal_s: float = 10.0                                 # without a Hello: this node leaves Serf and joins again
    heal_again_s: float = 60.0                           # least time between two such rejoins
    max_peers: int = 1_000
    max_filters: int = 1_000_000                         # of one peer
    max_levels: int = 128


COUNTERS = declare(
    counter("hellos_sent", "Hellos sent to peers."),
    counter("hellos_refused", "Of these, those that were answered with an error, or not at all."),
    counter("clean_starts", "Streams to peers without a session of this node: all is sent, from id 0 on."),
    counter("resumed", "Streams to peers that went on where the former one had broken."),
    counter("streams_ended", "Streams to peers that broke."),
    counter("events_sent", "Events sent to peers, first transmissions."),
    counter("events_resent", "Events sent to peers again."),
    counter("events_acknowledged", "Events that peers acknowledged."),
    counter("events_received", "Events of peers that were carried out."),
    counter("messages_sent", "Messages sent to peers, first transmissions."),
    counter("messages_received", "Messages of peers."),
    counter("hellos_received", "Hellos of peers."),
    counter("rejoins", "How often this node left Serf and joined again, as a peer's stream was dead."),
    counter("missed_events", "Ids that peers left out."),
    counter("retained_known", "Retained messages of a clean start that are known here; not sent to subscribers."),
    counter("retained_conflicts", "Of these, those that differ from what a client here has set; not taken over."),
    counter("retained_refused", "Retained messages beyond their number; delivered, but not kept."),
    counter("properties_to_peers", "Properties that cannot go to gmqtt: correlation data that is not UTF-8."),
    counter("properties_from_peers", "Properties of peers' messages that MQTT does not allow."),
    drop("non_members", "Calls of nodes that are not members."),
    drop("stale_streams", "Events on streams that another one has replaced."),
    drop("repeated_events", "Events of peers that had been carried out before."),
    drop("malformed", "Events and acknowledgements of peers that cannot be decoded."),
    drop("bad_events", "Events of peers with a topic or filter that MQTT does not allow, or of an unknown kind."),
    drop("dropped_queue_full", "Messages that made room for newer ones in the full queue of a peer."),
    drop("dropped_peer_gone", "Messages for peers that left, or stayed away for longer than they are kept."),
    drop("dropped_expired", "Messages whose expiry interval ran out in the queue of a peer."),
    drop("dropped_in_flight_qos_0", "Messages of QoS 0 that were under way to a peer when it forgot this node."),
    drop("dropped_peers", "Members beyond the number of peers."),
    drop("dropped_filters", "Filters of a peer beyond their number."),
)


def gmqtt_counters() -> Counters:
    """Counters of one link; a name that is not declared here is refused."""
    return Counters(table(COUNTERS))
