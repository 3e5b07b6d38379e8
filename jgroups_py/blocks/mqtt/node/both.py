"""GroupAndGmqtt: a broker in a group of nodes of this package and in gmqtt's federation at once. Pure.

Each node of the group is a node of gmqtt too. Between two nodes of the group there is no link of gmqtt (grpc.py: the
tag `jg`). A message goes

    from a client here     to nodes of the group by the group, to each gmqttd by the link of this node
    from the group         to sessions here: the node where it was published has sent it to each gmqttd
    from a gmqttd          to sessions here: it has sent it to each node of the group that wants it

and nowhere else: once to each node, without a loop. Three things are decided in one place:

    a shared subscription  the node of the publisher chooses a gmqttd or the group; in the group one node is chosen next
    retained messages      what a gmqttd sets or clears is written into the table of the group, if it differs from the
                           entry there; a gmqttd that has none gets all of them from one node of the group
    an acknowledgement     waits for both
"""
from __future__ import annotations

from collections.abc import Callable, Sequence

import attrs

from jgroups_py.blocks.mqtt.broker.broker import Broker
from jgroups_py.blocks.mqtt.broker.ports import Forwarding, GroupChoice
from jgroups_py.blocks.mqtt.broker.publication import Publication
from jgroups_py.blocks.mqtt.broker.session import ClientSession
from jgroups_py.blocks.mqtt.federation.core import FederationCore
from jgroups_py.blocks.mqtt.gmqtt.link import GmqttLink, Target


@attrs.define(eq=False)
class HeldToken:
    """An acknowledgement. waits: how many of the group and the link have yet to release it."""

    token: int
    waits: int


class GroupAndGmqtt:
    """The port `ports.Federation` of a broker, served by the group and by the link to gmqtt. Call `attach` first."""

    def __init__(self, core: FederationCore, link: GmqttLink) -> None:
        self.core = core
        self.link = link
        self._broker: Broker | None = None
        self._of_core: dict[int, HeldToken] = {}
        self._of_link: dict[int, HeldToken] = {}
        self._last_token = 0
        self._latest: HeldToken | None = None

    def attach(self, broker: Broker) -> None:
        """The broker that this is the federation of."""
        self._broker = broker
        self.core.attach(broker)
        self.core.shares_tokens = False                  # each is joined with one of the link
        self.core.release = lambda token, now_ns: self._release(self._of_core, token, now_ns)
        self.link.attach(_LinkedBroker(broker, self.core, self._of_link, self._release))
        self.link.kept = self._kept
        self.link.sends_retained = self.is_first

    # --- calls of the broker (ports.Federation) -----------------------------------------------------------------------

    def interest(self, group: str, filter: str, members: int, online: int) -> None:
        """See ports.Federation."""
        self.core.interest(group, filter, members, online)
        self.link.interest(group, filter, members, online)

    def publish(self, publication: Publication, groups: Sequence[GroupChoice], now_ns: int) -> Forwarding:
        """See ports.Federation."""
        by_link = self.link.publish(publication, self._with_the_group(publication.topic, groups), now_ns)
        by_group = self.core.publish(publication, groups, now_ns, served=by_link.elsewhere)
        waits = bool(by_link.token) + bool(by_group.token)
        token = 0
        if waits:
            token = self._last_token = self._last_token + 1
            held = self._latest = HeldToken(token, waits)
            if by_link.token:
                self._of_link[by_link.token] = held
            if by_group.token:
                self._of_core[by_group.token] = held
        return Forwarding(token, by_link.elsewhere | by_group.elsewhere, by_link.peers + by_group.peers)

    def retained(self, publication: Publication, now_ns: int) -> None:
        """See ports.Federation."""
        self.core.retained(publication, now_ns)

    def move(self, publication: Publication, group: str, filter: str, now_ns: int) -> bool:
        """See ports.Federation. To the group alone: a gmqttd would give the message to its other subscribers, too."""
        return self.core.move(publication, group, filter, now_ns)

    def connecting(self, client_id: str, clean_start: bool, now_ns: int) -> bool:
        """See ports.Federation."""
        return self.core.connecting(client_id, clean_start, now_ns)

    def ended(self, client_id: str, now_ns: int) -> None:
        """See ports.Federation."""
        self.core.ended(client_id, now_ns)

    def dropped(self, client_id: str) -> None:
        """See ports.Federation."""
        self.core.dropped(client_id)

    def routed(self, token: int) -> int:
        """See ports.Federation."""
        of_copies = self.core.routed(0)
        if not of_copies:
            return token
        held = self._latest
        if not token or held is None or held.token != token:
            self._last_token += 1
            held = HeldToken(self._last_token, 0)
        held.waits += 1
        self._of_core[of_copies] = held
        return held.token

    def attached(self, session: ClientSession, now_ns: int) -> None:
        """See ports.Federation."""
        self.core.attached(session, now_ns)

    def detached(self, session: ClientSession, now_ns: int) -> None:
        """See ports.Federation."""
        self.core.detached(session, now_ns)

    def leaving(self, session: ClientSession) -> None:
        """See ports.Federation."""
        self.core.leaving(session)

    # --- decided in one place -----------------------------------------------------------------------------------------

    def is_first(self) -> bool:
        """Whether this node has the lowest name in the group as it is now."""
        return all(self.core.name < name for name in self.core.names_up())

    def _with_the_group(self, topic: str, groups: Sequence[GroupChoice]) -> list[GroupChoice]:
        """Shared subscriptions, with the members here and at nodes of the group as one number: one choice for gmqtt."""
        found = {(each.group, each.filter): each for each in groups}
        for match in self.core.interest_of_peers.match(topic).shared:
            counts = [count for name, count in match.members.items() if self.core.peers[name].is_up]
            here = found.get((match.group, match.filter))
            found[match.group, match.filter] = GroupChoice(
                match.group, match.filter, sum(each.members for each in counts) + (here.members if here else 0),
                sum(each.online for each in counts) + (here.online if here else 0))
        return list(found.values())

    def _kept(self, publication: Publication, now_ns: int) -> None:
        """A gmqttd has set or cleared a retained message. It sends that to every node of the group itself."""
        known = self.core.retained_in_table(publication.topic)
        is_same = not publication.payload if known is None else (
            (known.payload, known.qos) == (publication.payload, publication.qos))
        if not is_same:
            self.core.retained(publication, now_ns)

    def _release(self, held: dict[int, HeldToken], token: int, now_ns: int) -> None:
        found = held.pop(token, None)
        if found is not None:
            found.waits -= 1
            if not found.waits:
                assert self._broker is not None, "attach comes first"
                self._broker.release(found.token, now_ns)

    def interest_in(self, topic: str) -> dict[str, list[str]]:
        """Peer -> its filters that match a topic."""
        return {**self.core.interest_of_peers.filters_for(topic), **self.link.interest_in(topic)}


@attrs.frozen(eq=False)
class _LinkedBroker:
    """The broker for the link. Messages of gmqttds are numbered like those of clients here, so that a session that
    moves to another node gets each of them once."""

    broker: Broker
    core: FederationCore
    held: dict[int, HeldToken]
    settle: Callable[[dict[int, HeldToken], int, int], None]

    def deliver(self, publication: Publication, groups: Sequence[Target], now_ns: int) -> None:
        self.core.number_as_own(publication)
        self.broker.deliver(publication, groups, now_ns)

    def release(self, token: int, now_ns: int) -> None:
        self.settle(self.held, token, now_ns)
