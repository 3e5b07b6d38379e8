"""News of nodes: which to believe, which to tell on, and what to answer to those about ourselves.

Incarnations order the news of one node; only the node itself raises its own. On reception of

    Alive(i)        believed if i is higher than what is known;
    Suspected(i)    believed of a node that is alive with incarnation <= i; a further voice confirms it;
    Dead(i)         believed of a node that is up with incarnation <= i; said by itself it means that it left;
    any of us       we are there: Alive with a higher incarnation refutes it.

Every news that is believed is told on. Sources: SWIM, section 4.2; memberlist's state.go (its precedence). Deviations:

* Who is accused with an incarnation that it has left behind says again what it is now: the accuser missed it.
* Another start under a known name is let in once the old one, pinged where it was, does not answer (memberlist refuses
  a changed address until the old one counts as dead).
* A member that was stopped itself gives its suspects more time before it fails them.
* Incarnations that no node can have reached are counted and dropped: the highest one could not be refuted any more.
  A node raises its own by one for each refutation, so what is believed of one grows with the time that it is known
  (`ceiling`), the same for all members: what one of them believes, the accused can outbid and the others believe, too.
"""
from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

import attrs

from jgroups_py import wire
from jgroups_py.address import Address, PhysicalAddress
from jgroups_py.batch import Batch, Header
from jgroups_py.events import SendTo, Suspect, Tell, Unsuspect
from jgroups_py.members import CONFLICT, FAILED, JOINED, MEMBER_LEFT, REFUTED, SUSPECTED, UPDATED, Accusation
from jgroups_py.outputs import MemberChanged
from jgroups_py.ports import AddressBook
from jgroups_py.protocol import CONTROL, Protocol, timer
from jgroups_py.protocols.swim import suspicion
from jgroups_py.protocols.swim.awareness import Awareness
from jgroups_py.protocols.swim.config import SwimConfig
from jgroups_py.protocols.swim.gossip import Gossip, transmit_limit
from jgroups_py.protocols.swim.headers import ALIVE, DEAD, LEFT, SUSPECT, Alive, Dead, Suspected, UserMessage
from jgroups_py.protocols.swim.metadata import MAX_META_BYTES
from jgroups_py.protocols.swim.ring import Ring
from jgroups_py.protocols.swim.suspicion import Suspicion
from jgroups_py.protocols.swim.table import GONE, Node
from jgroups_py.swim_events import UserHeard
from jgroups_py.units import NS_PER_S

INCARNATION_LIMIT = 1 << 31       # all are below
FIRST_INCARNATIONS = 1 << 24      # a node may have so many at once, if it was forged against ...
INCARNATIONS_PER_S = 32           # ... and gets so many more in time: the limit is two years away
MAX_NAME_LENGTH = 255
CLAIM_ROUNDS = 5                 # so many probe intervals between two looks into the same claim on a name


def ceiling(first: int, since_ns: int, now_ns: int) -> int:
    """The highest incarnation that a node can have `now_ns`, of which `first` was known `since_ns`."""
    grown = FIRST_INCARNATIONS + INCARNATIONS_PER_S * (now_ns - since_ns) // NS_PER_S
    return min(first + grown, INCARNATION_LIMIT - 1)


class Rumours(Protocol):
    """The table of nodes and the news about them; probing and exchanges build on it."""

    control_only = True
    Config = SwimConfig
    config: SwimConfig
    needs = {"addresses": AddressBook}
    addresses: AddressBook

    def start(self) -> None:
        self.my_name = ""                              # "": we are in no group
        self.incarnation = 1
        self.since_ns = self.now_ns                    # when we began to hear of nodes
        self.meta = b""
        self.listener: PhysicalAddress | None = None
        self.views = False                             # GMS says who the members are
        self.leaving = False
        self.nodes: dict[str, Node] = {}               # all others, by name
        self.up_count = 0                              # of them, alive or suspected
        self.ring = Ring(self.rng)
        self.gossip = Gossip()
        self.awareness = Awareness(self.config.awareness_max_mult - 1 if self.config.lifeguard else 0)
        self.frame_bytes = wire.headers_nbytes(Batch(self.me, self.me))
        self.claimed_ns: int | None = None             # when somebody else's claim on our name was last answered
        self.talk: dict[type[Header], Callable[[Any, Batch], None]] = {
            Alive: lambda news, batch: self.hear_alive(news), Suspected: lambda news, batch: self.hear_suspected(news),
            Dead: lambda news, batch: self.hear_dead(news), UserMessage: self.hear_user}

    # --- sending ------------------------------------------------------------------------------------------------------

    def post(self, node: Node, *headers: Header) -> None:
        """Send to a node; news ride along."""
        self.post_to(node.member, node.place, *headers)

    def post_to(self, dest: Address | None, place: PhysicalAddress | None, *headers: Header) -> None:
        """Send to whoever receives at `place`; dest None: whoever that is. place None: the transport knows it."""
        self.put(dest, place, (*self.riders(headers), *headers))

    def put(self, dest: Address | None, place: PhysicalAddress | None, headers: tuple[Header, ...]) -> None:
        """Send just these."""
        batch = Batch(self.me, dest, (), headers, CONTROL)
        if place is not None:
            self.pass_down(SendTo(place, batch))
        elif dest is not None:
            self.pass_down(batch)
        else:
            self.count("nowhere_to_send")

    def riders(self, headers: tuple[Header, ...]) -> list[Header]:
        """News that fit into the same frame."""
        if not len(self.gossip):
            return []
        out = bytearray()
        wire.encode_headers(headers, out)
        room = self.config.packet_bytes - self.frame_bytes - len(out)
        return self.gossip.take(room, transmit_limit(self.config.retransmit_mult, self.up_count + 1))

    def spread(self, topic: Hashable, header: Header) -> None:
        """Tell everybody, by gossip."""
        self.gossip.put(topic, header)
        if not self.timer_is_set("gossip"):
            # Those who heard the same news at the same time should not tell it at the same time.
            self.set_timer("gossip", self.rng.randint(1, self.config.gossip_interval_ns))

    @timer("gossip")
    def tell_some(self) -> None:
        """Send news to a few; the timer rests while there are none, or nobody to tell."""
        told = self.ring.pick(self.config.gossip_nodes, self.hears_gossip)
        told.sort(key=lambda name: not self.is_up(name))     # or the dead might use up all that is sent of a news
        for name in told:
            news = self.riders(())
            if not news:
                return
            node = self.nodes[name]
            self.count("gossip_frames")
            self.put(node.member, node.place, tuple(news))
        if told and len(self.gossip):
            self.set_timer("gossip", self.config.gossip_interval_ns)

    def hears_gossip(self, name: str) -> bool:
        """Whether it is told news: who is up, and who failed a short while ago, that it may refute."""
        node = self.nodes[name]
        return node.is_up or (
            node.state == DEAD and self.now_ns - node.changed_ns <= self.config.gossip_to_the_dead_ns)

    def is_up(self, name: str) -> bool:
        """Whether the node of this name is up."""
        return self.nodes[name].is_up

    def tell(self, change: str, node: Node, accusations: tuple[Accusation, ...] = ()) -> None:
        """Tell the application."""
        self.count(change)
        named = tuple(attrs.evolve(accusation, by=self.known_as(accusation.by)) for accusation in accusations)
        self.pass_up(Tell(MemberChanged(change, node.shown(self.known_as(node.name)), named)))

    def known_as(self, name: str) -> str:
        """What people call the node of this name: under GMS the member's logical name."""
        node = self.nodes.get(name)
        member = node.member if node is not None else self.me if name == self.my_name else None
        return str(member) if self.views and member is not None else name

    # --- about us -----------------------------------------------------------------------------------------------------

    def says(self) -> Alive:
        """What we say of ourselves."""
        place = None if self.views else self.addresses.my_physical()
        return Alive(self.incarnation, self.my_name, place, self.me, self.listener, self.meta)

    def announce(self) -> None:
        """Let everybody hear of us."""
        self.spread(self.my_name, self.says())

    def renew(self) -> None:
        """Something of us changed."""
        self.incarnation = min(self.incarnation + 1, INCARNATION_LIMIT - 1)
        self.announce()

    def accused(self, incarnation: int) -> None:
        """Somebody says that we are dead or about to be."""
        if self.leaving or self.is_absurd(incarnation, None):
            return
        if incarnation >= self.incarnation:
            self.incarnation = incarnation
            self.count("refutations")
            self.awareness.change(1)
            self.renew()
        else:
            self.announce()                            # whoever says so has missed what we said since

    def claimed(self, alive: Alive) -> None:
        """News of another start under our name: an earlier one is outbid; seldom, for it may still be there."""
        if self.leaving or alive.incarnation < self.incarnation or self.is_absurd(alive.incarnation, None):
            return
        if self.claimed_ns is None or self.now_ns - self.claimed_ns >= self.config.probe_interval_ns:
            self.claimed_ns = self.now_ns
            self.count("name_claims")
            self.incarnation = alive.incarnation
            self.renew()

    def is_absurd(self, incarnation: int, node: Node | None) -> bool:
        """Whether a node cannot have come so far; None: we ourselves, or one that is not known yet."""
        first, since_ns = (node.first, node.since_ns) if node is not None else (0, self.since_ns)
        if incarnation <= ceiling(first, since_ns, self.now_ns):
            return False
        self.count("absurd_incarnations_dropped")
        return True

    # --- alive --------------------------------------------------------------------------------------------------------

    def hear_alive(self, alive: Alive) -> None:
        """Alive, from the node itself or told on."""
        node = self.nodes.get(alive.node)
        if not self.my_name:
            return
        if len(alive.meta) > MAX_META_BYTES or len(alive.node) > MAX_NAME_LENGTH:
            self.count("oversized_news")               # could not be told on in a packet
            return
        if alive.node == self.my_name:
            if alive.member != self.me:
                self.claimed(alive)
        elif node is None:
            if not self.views and not self.is_absurd(alive.incarnation, None):
                self.admit(alive)
        elif alive.incarnation <= node.incarnation or self.is_absurd(alive.incarnation, node):
            return
        elif alive.member != node.member and node.is_up:
            self.challenge(node, alive)
        else:
            self.believe(node, alive)

    def admit(self, alive: Alive) -> None:
        """A node that was not known."""
        node = self.nodes[alive.node] = Node(alive.node, alive.member, state=DEAD, first=alive.incarnation,
                                             since_ns=self.now_ns)
        self.ring.add(node.name)
        self.believe(node, alive)

    def believe(self, node: Node, alive: Alive) -> None:
        """It lives, and what it says is newer than what was known."""
        was, known = node.state, (node.member, node.place, node.meta)
        node.learn(alive)
        self.turn(node, ALIVE)
        self.spread(node.name, alive)
        if was in GONE:
            self.tell(JOINED, node)
        elif was == SUSPECT:
            self.tell(REFUTED, node)
        if was not in GONE and known != (node.member, node.place, node.meta):
            self.tell(UPDATED, node)
        if was == DEAD and self.views:
            self.pass_up(Unsuspect((node.member,)))

    def turn(self, node: Node, state: int) -> None:
        """The node is in another state now."""
        self.up_count += (state not in GONE) - node.is_up
        if state != SUSPECT:
            node.suspicion = None
            self.cancel_timer("suspicion", node.name)
        if state != node.state:
            node.state, node.changed_ns = state, self.now_ns

    def challenge(self, node: Node, alive: Alive) -> None:
        """Another start of a node that should be up: find out whether the old one is still there."""
        patience_ns = CLAIM_ROUNDS * self.config.probe_interval_ns
        if node.challenged_ns is not None and self.now_ns - node.challenged_ns < patience_ns:
            if node.challenger is not None:
                node.challenger = alive
            return
        node.challenger, node.challenged_ns = alive, self.now_ns
        self.look_for(node)

    def look_for(self, node: Node) -> None:
        """Ping a node where it was known to be; `answers_still` or `is_replaced` follows."""
        raise NotImplementedError

    def answers_still(self, node: Node) -> None:
        """The old start is there: the name is its own."""
        node.challenger = None
        self.tell(CONFLICT, node)

    def is_replaced(self, node: Node) -> None:
        """The old start is gone: the new one takes its place."""
        alive, node.challenger, node.challenged_ns = node.challenger, None, None
        if alive is None or alive.incarnation <= node.incarnation:
            return
        gone = Dead(node.incarnation, node.name, self.my_name)
        if node.is_up:
            self.fail(node, gone, ())
        self.believe(node, alive)
        self.spread((node.name, "gone"), gone)         # spares others the same look

    # --- suspected ----------------------------------------------------------------------------------------------------

    def hear_suspected(self, news: Suspected) -> None:
        """Somebody had no answer."""
        if news.node == self.my_name:
            self.accused(news.incarnation)
            return
        node = self.nodes.get(news.node)
        if node is None or news.incarnation < node.incarnation or self.is_absurd(news.incarnation, node):
            return
        voice = Accusation(news.source, news.tried, self.now_ns)
        if node.suspicion is not None:
            if node.suspicion.confirm(voice):
                self.count("confirmations")
                self.await_refutation(node, node.suspicion)
                self.spread(node.name, news)
        elif node.state == ALIVE:
            self.suspect(node, news, voice)

    def suspect(self, node: Node, news: Suspected, voice: Accusation) -> None:
        """A case begins."""
        config, nodes = self.config, self.up_count + 1
        shortest_ns = suspicion.least_ns(config.suspicion_mult, nodes, config.probe_interval_ns)
        wanted = suspicion.wanted(config.suspicion_mult, nodes) if config.lifeguard else 0
        longest_ns = shortest_ns * config.suspicion_max_mult if config.lifeguard else shortest_ns
        node.incarnation = news.incarnation
        self.turn(node, SUSPECT)
        node.suspicion = Suspicion(self.now_ns, wanted, shortest_ns, longest_ns, [voice])
        self.await_refutation(node, node.suspicion)
        self.spread(node.name, news)                   # hearsay too: the suspect itself shall hear of it
        self.tell(SUSPECTED, node, (voice,))

    def await_refutation(self, node: Node, case: Suspicion) -> None:
        self.set_timer("suspicion", max(0, case.deadline_ns() - self.now_ns), node.name)

    @timer("suspicion")
    def not_refuted(self, name: str) -> None:
        """The time is over."""
        node = self.nodes[name]
        case = node.suspicion
        assert case is not None, "the timer runs while a case does"
        late_ns = self.now_ns - case.deadline_ns()
        if self.config.lifeguard and late_ns >= self.config.probe_interval_ns:
            self.count("overslept")                    # the refutation may lie unread: we did not run ourselves
            case.since_ns += late_ns + case.shortest_ns
            self.await_refutation(node, case)
            return
        self.fail(node, Dead(node.incarnation, name, self.my_name), tuple(case.accusations))

    # --- dead ---------------------------------------------------------------------------------------------------------

    def hear_dead(self, news: Dead) -> None:
        """A node failed, or left."""
        if news.node == self.my_name:
            self.accused(news.incarnation)
            return
        node = self.nodes.get(news.node)
        if node is None or news.incarnation < node.incarnation or not node.is_up:
            return
        if self.is_absurd(news.incarnation, node):
            return
        accusations = tuple(node.suspicion.accusations) if node.suspicion is not None else ()
        if news.source == news.node:
            node.incarnation = news.incarnation
            self.turn(node, LEFT)
            self.spread(node.name, news)
            self.tell(MEMBER_LEFT, node)
        else:
            self.fail(node, news, accusations or (Accusation(news.source, 0, self.now_ns),))
        if node.challenger is not None:
            self.is_replaced(node)

    def fail(self, node: Node, news: Dead, accusations: tuple[Accusation, ...]) -> None:
        """The node is gone, without a goodbye."""
        assert node.is_up, "a node fails once"
        node.incarnation = news.incarnation
        self.turn(node, DEAD)
        self.spread(node.name, news)
        self.tell(FAILED, node, accusations)
        if self.views:
            self.pass_up(Suspect((node.member,), certain=True))

    # --- what layers above spread -------------------------------------------------------------------------------------

    def hear_user(self, message: UserMessage, batch: Batch) -> None:
        """Something for a layer above, which decides whether to spread it further."""
        self.pass_up(UserHeard(message.payload, batch.src))
