"""SWIM: members probe each other and gossip about it; the load on each does not depend on how many there are.

Two uses, told apart by whether GMS stands above. *Failure detector*: the members are those of the view, each under the
digits of its address; who fails is passed up as a certain suspicion, in place of FD_ALL, FD_SOCK and VERIFY_SUSPECT,
whose traffic grows with the group. *Alone*: an eventual membership of named nodes with tags, without views; nodes join
by meeting one that is in (initial_hosts, a discovery protocol, JoinPlaces) and leave with a word of their own.

News (rumours.py), probing (probing.py), exchanges of all that is known (exchange.py) stand in files of their own, one
class building on the other. Sources: Das, Gupta, Motivala, "SWIM" (DSN 2002); Dadgar, Phillips, Currey, "Lifeguard"
(2018); HashiCorp's memberlist, whose values are the defaults. Deviations stand at the head of each file.
"""
from __future__ import annotations

from jgroups_py.batch import Batch, Header
from jgroups_py.events import Connect, Disconnect, ExcludedHint, Left, ViewChange
from jgroups_py.members import MEMBER_LEFT, Member
from jgroups_py.ports import Membership, MemberTable
from jgroups_py.protocol import on, receives, timer
from jgroups_py.protocols.swim.config import parse_tags
from jgroups_py.protocols.swim.exchange import Exchange
from jgroups_py.protocols.swim.headers import (
    DEAD,
    LEFT,
    SUSPECT,
    Ack,
    Alive,
    Dead,
    Nack,
    Ping,
    PingFor,
    PushPull,
    Suspected,
    UserMessage,
)
from jgroups_py.protocols.swim.metadata import pack_tags
from jgroups_py.protocols.swim.table import Node
from jgroups_py.strangers import Strangers
from jgroups_py.swim_events import SetTags, UserGossip
from jgroups_py.units import seconds

HINT_INTERVAL_NS = seconds(3)


class Swim(Exchange, MemberTable):
    """See the module."""

    def start(self) -> None:
        super().start()
        self.views = self.stack.find(Membership) is not None
        self.user_messages = 0                         # how many were sent
        self.strangers = Strangers(HINT_INTERVAL_NS)
        if not self.views:
            self.meta = pack_tags(parse_tags(self.config.tags), self.config.weight)

    @receives(Ping)
    @receives(PingFor)
    @receives(Ack)
    @receives(Nack)
    @receives(Suspected)
    @receives(Alive)
    @receives(Dead)
    @receives(PushPull)
    @receives(UserMessage)
    def heard(self, header: Header, batch: Batch) -> None:
        """A frame: the lowest header first, then the news that ride along."""
        if self.views and self.my_name and batch.src.raw.hex() not in self.nodes:
            self.stranger(batch)
        for item in (header, *reversed(batch.headers)):
            handler = self.talk.get(item.__class__)
            if handler is None:
                self.count("unexpected_headers")
            else:
                handler(item, batch)

    # --- alone --------------------------------------------------------------------------------------------------------

    @on(Connect)
    def connecting(self, event: Connect) -> None:
        super().connecting(event)
        if self.views or self.leaving:
            return
        self.begin_as(self.config.node_name or self.me.name or self.me.raw.hex())
        self.announce()
        self.set_timer("join", 0)
        self.set_timer("reconnect", self.config.reconnect_interval_ns)

    def begin_as(self, name: str) -> None:
        """We are in a group, if only our own."""
        self.my_name = name
        # Members that started together must not probe together.
        self.set_timer("probe", self.rng.randint(1, self.config.probe_interval_ns))
        self.set_timer("exchange", self.rng.randint(1, self.config.push_pull_interval_ns))

    @on(SetTags)
    def set_tags(self, event: SetTags) -> None:
        self.meta = pack_tags(event.tags, event.weight)
        if self.my_name:
            self.renew()

    @on(UserGossip)
    def spread_user(self, event: UserGossip) -> None:
        self.user_messages += 1
        self.spread(self.user_messages, UserMessage(event.payload))

    @on(Disconnect)
    def leave(self, event: Disconnect) -> None:
        if self.views:
            return
        self.leaving = True
        if not self.up_count:
            self.out()
            return
        self.spread(self.my_name, Dead(self.incarnation, self.my_name, self.my_name))
        self.set_timer("leave", self.config.leave_timeout_ns)
        self.set_timer("told", self.config.gossip_interval_ns)

    @timer("told")
    def look_whether_told(self) -> None:
        """We go once the word has been sent as often as any news."""
        if self.my_name in self.gossip.level_of:
            self.set_timer("told", self.config.gossip_interval_ns)
        else:
            self.out()

    @timer("leave")
    def out(self) -> None:
        """Nobody needs us any more; we may not even have begun."""
        self.rest()
        self.pass_up(Left())

    def rest(self) -> None:
        """Out of the group: all stops."""
        self.my_name = ""
        for name in ("probe", "late", "verdict", "gossip", "exchange", "reconnect", "join", "leave", "told"):
            self.cancel_timer(name)
        self.probe = None
        for node in list(self.nodes.values()):
            self.drop(node)

    def has_left(self, name: str) -> None:
        """A layer above knows that a node which counts as failed had said that it leaves."""
        node = self.nodes.get(name)
        if node is not None and node.state == DEAD:
            self.turn(node, LEFT)
            self.tell(MEMBER_LEFT, node)

    # --- under GMS ----------------------------------------------------------------------------------------------------

    @on(ViewChange)
    def view_changed(self, event: ViewChange) -> None:
        members = {member.raw.hex(): member for member in event.view.members if member != self.me}
        for node in [node for name, node in self.nodes.items() if name not in members]:
            self.drop(node)
        new = [name for name in members if name not in self.nodes]
        for name in new:
            self.nodes[name] = Node(name, members[name], changed_ns=self.now_ns, since_ns=self.now_ns)
            self.ring.add(name)
            self.up_count += 1
        self.strangers.forget()
        if not self.my_name:
            self.begin_as(self.me.raw.hex())
        if new:
            # Layers below must know the view before we speak to its members.
            self.later(lambda: self.meet(new))

    def meet(self, new: list[str]) -> None:
        """Tell newcomers, and if we are one ourselves hear from somebody, where members accept links."""
        if not self.my_name:
            return
        self.announce()
        if len(new) == len(self.nodes):
            for name in self.ring.pick(1, self.is_up):
                self.exchange(self.nodes[name].member, None)

    def stranger(self, batch: Batch) -> None:
        """Somebody outside the view takes itself for a member: GMS will tell it."""
        src = batch.src
        if src != self.me and self.strangers.is_news(src, self.now_ns):
            self.pass_up(ExcludedHint(src, asked=True))

    @on(Left)
    def left(self, event: Left) -> None:
        if self.views:
            self.rest()

    def known_members(self) -> tuple[Member, ...]:
        if not self.my_name:
            return ()
        mine = Node(self.my_name, self.me, self.addresses.my_physical(), incarnation=self.incarnation, meta=self.meta)
        nodes = (mine, *(self.nodes[name] for name in sorted(self.nodes)))
        return tuple(node.shown(self.known_as(node.name)) for node in nodes)

    def stats(self) -> dict[str, float]:
        states = [node.state for node in self.nodes.values()]
        return {"members": self.up_count + bool(self.my_name), "suspects": states.count(SUSPECT),
                "failed_now": states.count(DEAD), "left_now": states.count(LEFT), "health": self.awareness.score,
                "incarnation": self.incarnation, "news_waiting": len(self.gossip), **super().stats()}
