"""Safeguards of MQTT brokers that federate (blocks/mqtt), shown by profiles mqtt and mqtt-sites."""
from __future__ import annotations

from types import ModuleType
from typing import Any

from jgroups_py.blocks.anti_entropy.part import PartOfReplica
from jgroups_py.blocks.mqtt.broker.broker import Broker
from jgroups_py.blocks.mqtt.broker.router import Router
from jgroups_py.blocks.mqtt.broker.session import NOTHING_SEEN, ClientSession
from jgroups_py.blocks.mqtt.broker.subscription_tree import SubscriptionTree
from jgroups_py.blocks.mqtt.federation.broker_tables import BrokerTables
from jgroups_py.blocks.mqtt.federation.copies import SessionCopies
from jgroups_py.blocks.mqtt.federation.core import FederationCore
from jgroups_py.blocks.mqtt.federation.group_members import GroupMembers
from jgroups_py.blocks.mqtt.federation.handover import Handovers
from jgroups_py.blocks.mqtt.federation.interest import GroupTurns, InterestOfPeers
from jgroups_py.blocks.mqtt.federation.late_asks import LateAsks
from jgroups_py.blocks.mqtt.federation.orphans import Orphans
from jgroups_py.blocks.mqtt.federation.parked import ParkedMessages
from jgroups_py.blocks.mqtt.federation.peer import FederationPeer
from jgroups_py.blocks.mqtt.federation.sites import OtherSite, Sites
from jgroups_py.blocks.mqtt.federation.stream import OutgoingStream
from jgroups_py.protocols.relay.outbound import topic_filter
from jgroups_py.testing.simulation import mqtt as mqtt  # registers the applications of the profiles
from jgroups_py.testing.simulation import mqtt_roaming as mqtt_roaming
from tests.simulator.planted_bugs.group import nothing
from tests.simulator.planted_bugs.safeguard import Patch, Safeguard

resend, on_hello, send_message = OutgoingStream.resend, FederationCore._on_hello, FederationCore.send_message
leave, join, detach, ended = Handovers._leave, Handovers._join, Broker._detach, Handovers.ended
put = Sites._put
deliver, route, change = ClientSession.deliver, Router.deliver, InterestOfPeers.change


def all_has_arrived(self: OutgoingStream, next: int, until: int) -> None:
    resend(self, until, until)


def each_hello_begins_again(self: FederationCore, peer: Any, frame: Any, now_ns: int) -> None:
    peer.in_session = 0
    on_hello(self, peer, frame, now_ns)


def nothing_waits(self: FederationCore, peer: Any, event: Any, token: int) -> None:
    send_message(self, peer, event, 0)


def without_fence(self: Handovers, owner: Any, now_ns: int, was_here: bool = True) -> None:
    leave(self, owner, now_ns, was_here)
    leaving = self.leaving.get(owner.client_id)
    if leaving is not None:
        leaving.missing.clear()


def only_the_session_is_found(self: Broker, client_id: str, now_ns: int) -> Any:
    return self.sessions.get(client_id)


def all_is_new(self: ClientSession, delivery: Any, now_ns: int) -> None:
    self.seen = NOTHING_SEEN
    deliver(self, delivery, now_ns)


def direct_only(self: Handovers, session: Any, moved: Any, deliveries: Any, late: Any, now_ns: int) -> None:
    join(self, session, moved, [], late, now_ns)


def none_of_them(self: FederationCore, *args: Any) -> list[Any]:
    return []


def owner_goes_at_once(self: Handovers, client_id: str, now_ns: int) -> None:
    ended(self, client_id, now_ns)
    if client_id in self._outlived:
        self._forget_owner(client_id, now_ns)


def always_with_will(self: Broker, connection: Any, now_ns: int, with_will: bool) -> None:
    detach(self, connection, now_ns, True)


def here_or_nowhere(self: GroupMembers, target: Any, here: Any, but: str = "") -> str:
    return ""


def the_first_one(self: GroupTurns, weights: Any) -> str:
    name: str = weights[0][0]
    return name


def all_groups(self: Router, publication: Any, groups: Any, now_ns: int, shared_only: bool = False) -> None:
    route(self, publication, [(match.group, match.filter) for match in self.tree.match(publication.topic).shared],
          now_ns, shared_only)


def always_the_only_one(self: SubscriptionTree[Any, Any], filter: str) -> int:
    return 1


def any_number(self: InterestOfPeers, name: str, told: Any) -> Any:
    known = self.peers.get(name)
    if known is not None and told.incarnation == known.incarnation and told.number > known.number:
        known.number = told.number
        return []
    return change(self, name, told)


def only_new_values(self: BrokerTables, number: int, changes: Any, now_ns: int) -> None:
    set_values(self, number, [each for each in changes if each.after is not None], now_ns)


set_values = BrokerTables._changed


def nobody_waits(self: SessionCopies, then: Any) -> bool:
    then()
    return True


def all_is_acknowledged(self: FederationPeer) -> int:
    self.held_acks.clear()
    self.acked_next = self.in_next
    return self.in_next


def only_sent(self: FederationCore, name: str, kind: int, body: bytes) -> None:
    self.send_event(name, kind, body)


def for_all_sites(self: Sites, data: bytes, token: int, sites: Any) -> None:
    put(self, data, token, None)


def every_topic(self: Any, topic: str) -> bool:
    return True


def no_rules(self: Sites, name: str) -> bool:
    return False


def nothing_differs(self: PartOfReplica, root: bytes, mark: bytes) -> list[bytes]:
    return []


def guard(
    name: str, left: str, owner: type | ModuleType, method: str, without: Any, breaks: str, profile: str = "mqtt",
) -> Safeguard:
    """A safeguard of one method."""
    return Safeguard(name, "MQTT", left, (Patch(owner, method, without),), profile, breaks)


def all_raise_numbers(self: GroupMembers, peer: Any, item: Any, now_ns: int) -> Any:
    self._host._note(item.publication)               # type: ignore[attr-defined]
    return served_here(self, peer, item, now_ns)


served_here = GroupMembers.served_here


def to_any(self: GroupMembers, name: str, item: Any, target: Any, now_ns: int) -> bool:
    return self.give_on(item, target, None, now_ns)


def back_once(self: GroupMembers, peer: FederationPeer, item: Any) -> str:
    return "" if item.is_moved else peer.name


def never(self: Any, *asked: Any) -> bool:
    return False


def all_if_a_part(self: ParkedMessages, peer: Any, event: Any, now_ns: int) -> Any:
    if self._is_wanted(peer, event.item):
        peer.stream.accept_again(event)
        return None
    return event


MQTT_SAFEGUARDS = (
    guard("a peer gets what it lacks", "after a break the stream goes on with what is new", OutgoingStream, "resend",
          all_has_arrived, "Q1"),
    guard("a stream goes on where it stood", "each PeerHello begins it again", FederationCore, "_on_hello",
          each_hello_begins_again, "Q10"),
    guard("acknowledgements wait for peers", "PUBACK and PUBREC follow at once", FederationCore, "send_message",
          nothing_waits, "Q1"),
    guard("filters go to a peer that comes", "it gets changes alone", FederationCore, "_send_tree", nothing, "Q14"),
    guard("changes of filters are applied", "they are counted as known", InterestOfPeers, "change", any_number, "Q14"),
    guard("peers know of a filter once", "each subscriber is told", SubscriptionTree, "count", always_the_only_one,
          "Q5"),
    guard("one node serves a shared subscription", "every node does that gets the message", Router, "deliver",
          all_groups, "Q6"),
    guard("members at other nodes are members", "a node chooses its own alone", GroupMembers, "choose",
          here_or_nowhere, "Q6"),
    guard("nodes take turns with shared subscriptions", "the first one always serves them", GroupTurns, "choose",
          the_first_one, "Q7"),
    guard("cleared messages are cleared everywhere", "peers keep what they have", BrokerTables, "_changed",
          only_new_values, "Q8"),
    guard("DISCONNECT withdraws the will", "it is published after every connection", Broker, "_detach",
          always_with_will, "Q9"),
    guard("wills are published", "none is", Broker, "_publish_will", nothing, "Q9"),
    guard("the former connection is closed", "it stays open when the session moves", Broker, "take_connection",
          only_the_session_is_found, "Q10"),
    guard("a session waits for the fence", "it moves at once", Handovers, "_leave", without_fence, "Q10"),
    guard("what a former node gets late goes on", "it is dropped there", Handovers, "sent_late", nothing, "Q10"),
    guard("what comes late is asked for", "it is lost with the node that it would come by", LateAsks, "ask", nothing,
          "Q10"),
    guard("what went on to a node that has ended is asked for", "it is lost with that node", FederationCore,
          "sent_on_to", none_of_them, "Q10"),
    guard("who was away while a session moved may still have something for it", "it is dropped at the former node",
          FederationCore, "names_away", none_of_them, "Q10"),
    guard("a session takes along what it had", "its queue stays behind", Handovers, "_join", direct_only, "Q10"),
    guard("a session knows what it had elsewhere", "what comes late comes twice", ClientSession, "deliver", all_is_new,
          "Q10"),
    Safeguard("a session's owner outlives it", "MQTT", "it goes at once, also that of the next one",
              (Patch(Handovers, "ended", owner_goes_at_once), Patch(Handovers, "owner_deleted", nothing)), "mqtt",
              "Q10"),
    guard("PUBACK waits ack_timeout_s at most", "it waits for the peer", Broker, "_ack_overdue", nothing, "Q11"),
    guard("PUBACK does not wait for a silent peer", "it waits until failure detection, or ack_timeout_s",
          FederationCore, "_fell_silent", nothing, "Q11"),
    guard("PUBACK waits for a peer that answers", "what comes does not count as an answer", FederationPeer, "heard",
          nothing, "Q1"),
    guard("publishers wait for the copies of sessions", "PUBACK follows when the session's own node has the message",
          SessionCopies, "wait", nobody_waits, "Q1"),
    guard("a peer's publishers wait for the copies here", "its events are acknowledged at once", FederationPeer,
          "ack_next", all_is_acknowledged, "Q1"),
    guard("sessions of a node that has ended are adopted", "nothing is decided when a node ends", Orphans, "_decide",
          nothing, "Q10"),
    guard("messages for groups raise no number of their origin", "the highest of all counts", GroupMembers,
          "served_here", all_raise_numbers, "Q10"),
    guard("a session comes from here if the asking node waits for it too", "it goes to that node", Handovers,
          "is_coming", never, "Q10"),
    guard("CONNECT waits handover_s at most", "it waits for the former node", Handovers, "look", nothing, "Q11"),
    guard("publishers wait for what is sent on to a session's next node", "PUBACK follows when the former node has it",
          FederationCore, "send_onward", only_sent, "Q1"),
    guard("a message names the sites that want it", "it is for all sites", Sites, "_put", for_all_sites, "Q5",
          "mqtt-sites"),
    guard("the part for a group goes alone", "plain subscribers get it before what is parked for them",
          ParkedMessages, "_send_wanted", all_if_a_part, "Q3", "mqtt-sites"),
    Safeguard("a message for a group that comes back goes to another node", "MQTT", "it goes to any, once",
              (Patch(GroupMembers, "_give_on_again", to_any),
               Patch(GroupMembers, "_chooser", back_once)), "mqtt", "Q6"),
    guard("a site without a member gives a message on", "it is dropped there", Sites, "give_on", never, "Q6",
          "mqtt-sites"),
    guard("the bridge carries a message to the sites that it names", "all get it", topic_filter, "sites_of", nothing,
          "T3", "mqtt-sites"),
    guard("topics_out is asked where a message is published", "all topics leave the site", Sites, "may_leave",
          every_topic, "Q15", "mqtt-sites"),
    guard("topics_in is asked where a message arrives", "all topics enter the site", Sites, "may_enter", every_topic,
          "Q15", "mqtt-sites"),
    guard("topics_in of another site is asked before sending", "what it will drop crosses", OtherSite, "takes",
          every_topic, "Q15", "mqtt-sites"),
    guard("sites with rules do not compare whole tables", "they do", Sites, "is_ruled", no_rules, "Q15", "mqtt-sites"),
    guard("sites with rules compare what they give", "a site that starts late gets nothing of before", PartOfReplica,
          "_begun", nothing_differs, "Q8", "mqtt-sites"),
)
