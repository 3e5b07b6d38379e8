"""What a federation may be told, and what it counts."""
from __future__ import annotations

import attrs

from jgroups_py.blocks.mqtt.broker.options import WhenFull
from jgroups_py.model.counters import Counters, counter, declare, drop, table


@attrs.frozen(kw_only=True)
class FederationOptions:
    """Times are seconds, sizes bytes. name: of this broker; unique in the federation, and kept over restarts.

    when_full: what happens when `queue_bytes` are queued for a peer. BLOCK: acknowledgements to publishers wait for
    room, as long as the broker's `ack_timeout_s`; a queue of twice the bound drops its oldest all the same. DISCONNECT:
    the queue is dropped, and nothing is queued for the peer until it answers.

    silent_s: acknowledgements of messages do not wait for a peer that owes an answer and that nothing has come from for
    so long, or longer if its answers usually take longer.

    topics_in, topics_out: filters of what this site takes from other sites and gives to them (site_rules.py); empty:
    everything. All brokers of a site need the same.
    """

    name: str
    silent_s: float = 0.05
    keep_peer_s: float = 60.0                            # what is queued for a peer that is away
    queue_bytes: int = 64 << 20                          # for one peer
    when_full: WhenFull = WhenFull.DROP_OLDEST
    window_bytes: int = 1 << 20                          # under way to one peer
    batch_bytes: int = 64 << 10                          # of a frame of events, begun
    retry_s: float = 1.0                                 # without an answer
    digest_s: float = 2.0                                # between comparisons of interest and tables
    handover_s: float = 5.0                              # a CONNECT waits for a session at another node at most
    max_peers: int = 1_000                               # names that are remembered
    session_copies: int = 0                              # of each session, at other nodes; 0: none
    adopt_s: float = 2.0                                 # nodes wait for each other before a session is adopted
    topics_in: tuple[str, ...] = ()
    topics_out: tuple[str, ...] = ()


COUNTERS = declare(
    counter("events_sent", "Events sent to peers, first transmissions."),
    counter("events_resent", "Events sent to peers again."),
    counter("events_received", "Events of peers that were carried out."),
    counter("messages_sent", "Messages sent to peers, first transmissions."),
    counter("messages_received", "Messages of peers."),
    counter("interest_sent", "Changes of filters sent to all peers."),
    counter("trees_sent", "Whole trees of filters sent to one peer."),
    counter("trees_wanted", "Whole trees of filters that a peer was asked for, as changes were missing."),
    counter("peer_restarts", "Peers that came back as a new process."),
    counter("parked", "Messages kept for subscribers of a peer that has restarted."),
    counter("unparked", "Of these, messages that a filter was set again for."),
    counter("missed_events", "Events that a peer had dropped before they could be sent."),
    counter("silences", "Times that acknowledgements began to wait no longer for a peer that nothing came from."),
    counter("unawaited_messages", "Messages of QoS 1 and 2 for a silent peer, acknowledged before the peer had them: "
            "they are queued here."),
    counter("sessions_out", "Sessions that moved to another node."),
    counter("sessions_in", "Sessions that came from another node."),
    counter("handover_timeouts", "Clients that got a session before all of an earlier one had come, and reverse."),
    counter("late_messages", "Messages of peers that came by the former node of a session, after the session."),
    counter("onward_late", "Times that an acknowledgement waited no longer for the node that a session has moved to."),
    counter("copy_events_sent", "Events with changes of sessions sent to the nodes that have copies of them."),
    counter("copies_sent_whole", "Whole sessions sent to nodes that are to have copies of them."),
    counter("copies_late", "Times that an acknowledgement waited no longer for copies of sessions."),
    counter("sessions_adopted", "Sessions of nodes that had ended which began here, of a copy."),
    counter("adoptions_late", "Times that sessions were adopted before all peers had sent what they had for them."),
    counter("rerouted", "Messages of a shared subscription given to another node, as it had no member any more."),
    counter("site_messages_sent", "Messages sent to other sites, once for all of them."),
    counter("given_to_sites", "Messages for a shared subscription given to another site, as this one has no member."),
    counter("site_messages_received", "Messages of other sites."),
    counter("site_filters_sent", "Changes of filters sent to other sites."),
    counter("site_trees_sent", "Times that all filters of this site were sent to the others."),
    counter("site_trees_wanted", "Times that another site was asked for all its filters."),
    counter("lost_at_sites", "Numbers of RELAY of this broker's site that another site will never get."),
    counter("lost_from_sites", "Numbers of RELAY of other sites that this broker will never get."),
    drop("repeated_events", "Events of peers that had been carried out before."),
    drop("early_events", "Events of peers before which others are missing."),
    drop("dropped_away_qos_0", "Messages of QoS 0 for peers that are away."),
    drop("dropped_queue_full", "Messages that made room for newer ones in the full queue of a peer."),
    drop("dropped_site_queue", "Messages for other sites that waited for the group until their queue was full."),
    drop("dropped_site_offline", "Messages that only sites wanted which RELAY holds nothing for (OFFLINE)."),
    drop("kept_in_site", "Messages that another site wants and topics_out does not let out."),
    drop("dropped_topics_in", "Messages and retained messages of other sites that topics_in does not let in."),
    drop("dropped_topics_out", "Requests of other sites to compare all retained messages, though one of the two sites "
         "has topics_in or topics_out."),
    drop("dropped_peer_gone", "Messages for peers that stayed away for longer than they are kept."),
    drop("dropped_disconnected", "Messages for peers whose queue was full, with the policy to disconnect."),
    drop("dropped_unclaimed", "Messages that were kept for subscribers of a restarted peer, and that none came for."),
    drop("dropped_expired", "Messages whose expiry interval ran out in the queue of a peer."),
    drop("dropped_unwanted", "Messages of peers for which no session is here any more, as it ended, moved or "
         "unsubscribed."),
    drop("dropped_begun", "Messages of QoS 0 and 2 for members of shared subscriptions at a peer that has ended; they "
         "may have arrived."),
    drop("dropped_no_member", "Messages for a shared subscription that has no member at any node any more."),
    drop("dropped_handover", "Messages of a session that moved which came too late, or were begun with QoS 2 while it "
         "was in use at the new node."),
    drop("dropped_left_early", "Sessions that moved while a node could not be reached, beyond 100,000: what it still "
         "brings is not sent on to them."),
    drop("dropped_copy", "Changes for copies of sessions that are not here, and messages of copies that make no "
         "sense."),
    drop("malformed", "Frames and events of peers whose bytes make no sense."),
    drop("unknown_events", "Events of a kind that this version does not have."),
    drop("foreign", "Frames of members that are no peers."),
)


def federation_counters() -> Counters:
    """Counters of one federation; a name that is not declared here is refused."""
    return Counters(table(COUNTERS))
