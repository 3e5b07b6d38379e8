"""Replica: one partition at one member. Here: which message and timer goes where, views, and moving replicas."""
from __future__ import annotations

from typing import Any

from jgroups_py.address import Address
from jgroups_py.blocks.replicas.leading import Leading
from jgroups_py.blocks.replicas.log import Entry
from jgroups_py.blocks.replicas.messages import (
    Append,
    Appended,
    Canvass,
    Canvassed,
    Leads,
    Message,
    State,
    Stated,
    Status,
    TakeOver,
    Verb,
    Vote,
    Voted,
)
from jgroups_py.blocks.replicas.quorums import Configuration
from jgroups_py.blocks.replicas.state import Role, Ticket

NEARLY = 64                                # entries that a learner may lack when it becomes a replica


class Replica(Leading):
    """See the module, and state.py for the algorithm."""

    # --- from the host ----------------------------------------------------------------------------------------------

    def created(self, config: Configuration) -> None:
        """The store begins, and we are one of the first replicas."""
        if self.log.stop == 1 and not self.hollow:
            self.log.append(Entry(0, change=config))
            self.commit(2)
            self.wait_for_leader()

    def view_changed(self) -> None:
        """Another view: a leader that has a quorum in it shows itself, all others wait for it."""
        self.handed = None
        if self.is_leader and self.has_quorum():
            leadership = self.leads()
            for member, peer in leadership.peers.items():
                if member not in self.host.members:
                    peer.transfer = None
            leadership.show_all()
            if leadership.ready:
                self.host.leading(self)
            return
        self.step_down()
        self.leader, self.attempts = None, 0
        self.wait_for_leader()

    def receive(self, message: Message, src: Address) -> None:
        """From another host."""
        getattr(self, RECEIVERS[type(message)])(message, src)

    def due(self, name: str) -> None:
        """A timer fired."""
        getattr(self, TIMERS[name])()

    def request(self, ticket: Ticket, verb: Verb, request: bytes, least: int, data: bytes) -> None:
        """A client's request: answered now, later, or by a hint where to go."""
        if verb is Verb.READ:
            return self.read(ticket, least, data)
        if not self.is_leader:
            return self.refuse(ticket)
        if verb is Verb.STRONG:
            return self.leads().ask(ticket, data)
        return self.write(ticket, request, data)

    def read(self, ticket: Ticket, least: int, query: bytes) -> None:
        """Any replica answers that is in touch with the leader and has reached `least`."""
        if self.hollow or self.leader is None or self.me not in self.configuration.everybody or self.committed < least:
            return self.refuse(ticket)
        self.host.count("reads")
        return self.host.answer(ticket, self, Status.OK, self.once.machine.read(query))

    # --- answers to a leader ----------------------------------------------------------------------------------------

    def answered(self, message: Appended | Stated, src: Address) -> None:
        if message.epoch > self.epoch:
            self.adopt(message.epoch)
        elif self.is_leader and message.epoch == self.epoch:
            if isinstance(message, Appended):
                self.leads().appended(message, src)
            else:
                self.leads().stated(message, src)

    def again(self) -> None:
        if self.leadership is not None:
            self.leadership.again()

    def tell(self) -> None:
        if self.leadership is not None:
            self.leadership.tell()

    # --- moving -----------------------------------------------------------------------------------------------------

    def desired(self) -> tuple[Address, ...]:
        """Who should have a replica: the best hosts of this view. While these are too few, who is away stays: it may be
        back, and a configuration that shrinks with each failure would let fewer and fewer decide. For the same reason
        those that drain stay where without them too few would decide."""
        host, members = self.host, self.configuration.members
        best = host.target(self.partition)
        if not best:
            return members                                 # everybody drains: where to?
        away = [member for member in members if member not in host.members]
        found = (*best, *away)[:host.replicas]
        for member in self.present():
            if self.are_enough(found):
                break
            if member in members and member not in found:
                found = (*found, member)
        return found

    def are_enough(self, found: tuple[Address, ...]) -> bool:
        """Whether a configuration is as large as it can be, or can do without those that drain: most of it is here, and
        it is not even, which would tolerate no more failures than one less."""
        if len(found) >= min(self.host.replicas, len(self.configuration.members)):
            return True
        return len(found) % 2 == 1 and Configuration(found).has_quorum(self.host.members)

    def review(self) -> None:
        """Take one step towards who should have a replica, and lead."""
        if not self.is_leader or not self.leads().ready:
            return
        host, leadership, config = self.host, self.leads(), self.configuration
        host.judge(self)
        desired = self.desired()
        if config.old or self.log.changed_at >= self.committed or not host.knows(config.members):
            return self.arm("review", host.options.settle_ns)
        come = [member for member in desired if member not in config.members]
        go = [member for member in config.members if member not in desired]
        if not come and not go:
            self.learn(None)
            return self.hand_over()
        self.arm("review", host.options.settle_ns)
        if not come:
            return self.change(None, self.worst(go))
        if leadership.learner not in come:
            self.learn(come[0])
        elif self.has_caught_up(leadership.learner):
            grows = len(config.members) < host.replicas
            self.change(leadership.learner, None if grows or not go else self.worst(go))
        return None

    def worst(self, members: list[Address]) -> Address:
        """Whom to let go first: who is away, else the least preferred, ourselves last."""
        away = [member for member in members if member not in self.host.members]
        if away:
            return away[0]
        last = [member for member in self.host.preference(self.partition, tuple(members)) if member != self.me]
        return last[-1] if last else self.me

    def learn(self, member: Address | None) -> None:
        """Feed the log to a host that is to become a replica."""
        leadership = self.leads()
        if leadership.learner != member:
            leadership.learner = member
            leadership.keep_peers()
            self.host.leading(self)
            if member is not None:
                leadership.show(member)

    def has_caught_up(self, member: Address | None) -> bool:
        peer = None if member is None else self.leads().peers.get(member)
        return peer is not None and peer.match >= self.committed and self.log.stop - peer.match <= NEARLY

    def fed(self, member: Address) -> None:
        leadership = self.leadership
        if leadership is not None and leadership.learner == member and self.has_caught_up(member):
            self.set_timer("review", 0)

    def change(self, come: Address | None, go: Address | None) -> None:
        """Another configuration, by one member; it counts at once, together with the old one until it is committed."""
        members = tuple(member for member in self.configuration.members if member != go)
        members = members if come is None else (*members, come)
        joint = self.configuration.between(members)
        if joint.has_quorum(self.host.members):
            self.leads().learner = None
            self.host.count("configurations")
            self.add(Entry(self.epoch, change=joint))

    def hand_over(self) -> None:
        """Let the preferred replica lead. Once in a view: if we lead again, it could not."""
        best, leadership = self.present()[0], self.leads()
        if best in (self.me, self.handed):
            return
        peer = leadership.peers.get(best)
        if peer is not None and peer.match == self.log.stop:
            self.handed = best
            self.host.count("handed_over")
            self.send(best, TakeOver(self.partition, self.epoch))
        else:
            self.arm("review", self.host.options.settle_ns)

    def stats(self) -> dict[str, Any]:
        """For people."""
        return {"role": self.role.value if self.me in self.configuration.everybody else "none", "epoch": self.epoch,
                "committed": self.committed, "leader": self.leader, "members": self.configuration.members}


RECEIVERS: dict[type[Message], str] = {
    Canvass: "asked", Canvassed: "told", Vote: "vote", Voted: "got_vote", TakeOver: "take_over",
    Append: "append", State: "state", Appended: "answered", Stated: "answered", Leads: "heard_leads",
}
TIMERS = {"elect": "elect_due", "again": "again", "tell": "tell", "review": "review"}

__all__ = ["Replica", "Role"]
