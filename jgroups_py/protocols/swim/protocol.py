"""SWIM: members probe each other and gossip the results; the load of each does not depend on the group's size.

It has two uses; a layer above with the port ViewSource (GMS) decides which. *Failure detector*: the nodes are the
members of the view, each named by the digits of its address. A failure is passed up as a certain suspicion; this stands
in place of FD_ALL, FD_SOCK and VERIFY_SUSPECT, whose traffic grows with the group. *Alone*: an eventual membership of
named nodes with tags, without views. A node joins by an exchange with one that is in (initial_hosts, a discovery
protocol, JoinPlaces), and leaves by spreading its own Dead.

Updates (updates.py), probing (probing.py) and exchanges of the table (exchange.py) stand in files of their own, one
class building on the other. Sources: Das, Gupta, Motivala, "SWIM" (DSN 2002); Dadgar, Phillips, Currey, "Lifeguard"
(2018); HashiCorp's memberlist, whose values are the defaults. Deviations: at the head of each file.
"""
from __future__ import annotations

from jgroups_py.model.batch import Batch, Header
from jgroups_py.model.events import Connect, Disconnect, ExcludedHint, Left, SetTags, UserGossip, ViewChange
from jgroups_py.model.non_members import NonMembers
from jgroups_py.model.ports import MemberTable, ViewSource
from jgroups_py.model.swim_member import MEMBER_LEFT, Member
from jgroups_py.model.units import seconds
from jgroups_py.protocols.swim.config import parse_tags
from jgroups_py.protocols.swim.exchange import Exchange
from jgroups_py.protocols.swim.headers import (
    DEAD,
    LEFT,
    SUSPECT,
    Alive,
    Dead,
    Nack,
    PingFor,
    PingHeader,
    ProbeAck,
    PushPull,
    SuspectedHeader,
    UserMessage,
)
from jgroups_py.protocols.swim.metadata import pack_tags
from jgroups_py.protocols.swim.table import SwimNode
from jgroups_py.stack.protocol import on, receives, timer

HINT_INTERVAL_NS = seconds(3)


class Swim(Exchange, MemberTable):
    """The layer: frames, and the two uses of SWIM."""

    def start(self) -> None:
        super().start()
        self.views = self.stack.find(ViewSource) is not None
        self.user_messages = 0                         # how many were spread, which numbers their topics
        self.non_members = NonMembers(HINT_INTERVAL_NS)
        if not self.views:
            self.meta = pack_tags(parse_tags(self.config.tags), self.config.weight)

    @receives(PingHeader)
    @receives(PingFor)
    @receives(ProbeAck)
    @receives(Nack)
    @receives(SuspectedHeader)
    @receives(Alive)
    @receives(Dead)
    @receives(PushPull)
    @receives(UserMessage)
    def on_frame(self, header: Header, batch: Batch) -> None:
        """A frame: the lowest header first, then those above it, which are mostly piggybacked updates."""
        if self.views and self.my_name and batch.src.raw.hex() not in self.nodes:
            self.report_non_member(batch)
        for item in (header, *reversed(batch.headers)):
            handler = self.handlers.get(item.__class__)
            if handler is None:
                self.drop("unexpected_headers", batch, f"{type(item).__name__} has no meaning here", number=1)
            else:
                handler(item, batch)

    # --- alone --------------------------------------------------------------------------------------------------------

    @on(Connect)
    def connecting(self, event: Connect) -> None:
        super().connecting(event)
        if self.views or self.leaving:
            return
        self.activate(self.config.node_name or self.me.name or self.me.raw.hex())
        self.announce()
        self.set_timer("join", 0)
        self.set_timer("reconnect", self.config.reconnect_interval_ns)

    def activate(self, name: str) -> None:
        """Take part as the node `name`, at first in a group of one when alone."""
        self.my_name = name
        # At random times, or members that started together would probe together.
        self.set_timer("probe", self.rng.randint(1, self.config.probe_interval_ns))
        self.set_timer("exchange", self.rng.randint(1, self.config.push_pull_interval_ns))

    @on(SetTags)
    def set_tags(self, event: SetTags) -> None:
        self.meta = pack_tags(event.tags, event.weight)
        if self.my_name:
            self.announce_change()

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
            self.finish_leaving()
            return
        # Dead with the node as its own source means that it left. Until it is spread, pings are still answered.
        self.spread(self.my_name, Dead(self.incarnation, self.my_name, self.my_name))
        self.set_timer("leave", self.config.leave_timeout_ns)
        self.set_timer("until_spread", self.config.gossip_interval_ns)

    @timer("until_spread")
    def check_leave_spread(self) -> None:
        """Finish once the queue has sent the leave as often as any update, and dropped it."""
        if self.my_name in self.gossip.level_of:
            self.set_timer("until_spread", self.config.gossip_interval_ns)
        else:
            self.finish_leaving()

    @timer("leave")
    def finish_leaving(self) -> None:
        """The leave is spread, takes too long, or no other member needs it; this member may not even have joined."""
        self.reset()
        self.pass_up(Left())

    def reset(self) -> None:
        """Out of the group: stop all timers, empty the table."""
        self.my_name = ""
        for name in ("probe", "late_ack", "verdict", "gossip", "exchange", "reconnect", "join", "leave",
                     "until_spread"):
            self.cancel_timer(name)
        self.probe = None
        for node in list(self.nodes.values()):
            self.remove(node)

    def mark_left(self, name: str) -> None:
        """Called by a layer above (SERF): a node that counts as failed had announced that it leaves."""
        node = self.nodes.get(name)
        if node is not None and node.state == DEAD:
            self.set_state(node, LEFT)
            self.report_change(MEMBER_LEFT, node)

    # --- under GMS ----------------------------------------------------------------------------------------------------

    @on(ViewChange)
    def view_changed(self, event: ViewChange) -> None:
        members = {member.raw.hex(): member for member in event.view.members if member != self.me}
        for node in [node for name, node in self.nodes.items() if name not in members]:
            self.remove(node)
        new = [name for name in members if name not in self.nodes]
        for name in new:
            self.nodes[name] = SwimNode(name, members[name], changed_ns=self.now_ns, since_ns=self.now_ns)
            self.ring.add(name)
            self.up_count += 1
        self.non_members.forget()
        if not self.my_name:
            self.activate(self.me.raw.hex())
        if new:
            # Afterwards: the layers below must have the view before frames go to its new members.
            self.later(lambda: self.exchange_listeners(new))

    def exchange_listeners(self, new: list[str]) -> None:
        """Spread where this member accepts links; if all others are new to it, get their addresses by an exchange."""
        if not self.my_name:
            return
        self.announce()
        if len(new) == len(self.nodes):
            for name in self.ring.pick(1, self.is_up):
                self.exchange(self.nodes[name].member, None)

    def report_non_member(self, batch: Batch) -> None:
        """Report to GMS, at a bounded rate, a non-member that acts as a member: it may have missed its exclusion."""
        src = batch.src
        if src != self.me and self.non_members.is_due(src, self.now_ns):
            self.pass_up(ExcludedHint(src, asked=True))

    @on(Left)
    def left(self, event: Left) -> None:
        if self.views:
            self.reset()

    def known_members(self) -> tuple[Member, ...]:
        if not self.my_name:
            return ()
        mine = SwimNode(
            self.my_name, self.me, self.addresses.my_physical(), incarnation=self.incarnation, meta=self.meta)
        nodes = (mine, *(self.nodes[name] for name in sorted(self.nodes)))
        return tuple(node.shown(self.display_name(node.name)) for node in nodes)

    def stats(self) -> dict[str, float]:
        states = [node.state for node in self.nodes.values()]
        return {"members": self.up_count + bool(self.my_name), "suspects": states.count(SUSPECT),
                "failed_now": states.count(DEAD), "left_now": states.count(LEFT), "health": self.awareness.score,
                "incarnation": self.incarnation, "updates_waiting": len(self.gossip), **super().stats()}
