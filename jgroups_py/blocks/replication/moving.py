"""Moving: the leader of a partition moves its replicas, and the leadership, to the hosts that placement names."""
from __future__ import annotations

from jgroups_py.blocks.replication.leading import Leading
from jgroups_py.blocks.replication.messages import TakeOver
from jgroups_py.blocks.replication.ports import PartitionPort
from jgroups_py.blocks.replication.quorums import Configuration
from jgroups_py.blocks.replication.state import ReplicaState
from jgroups_py.blocks.replication.term import Term
from jgroups_py.model.address import Address


class Moving:
    """The part of a replica that moves replicas, one step per review."""

    def __init__(self, port: PartitionPort, term: Term, state: ReplicaState, leading: Leading) -> None:
        self.port = port
        self.term = term
        self.state = state
        self.leading = leading
        self.handed: Address | None = None                 # the replica that got TakeOver in this view

    def view_changed(self) -> None:
        """In a new view the preferred replica may get TakeOver again."""
        self.handed = None

    def desired(self) -> tuple[Address, ...]:
        """The hosts that should have a replica: the best hosts of this view. While these are too few, absent replicas
        stay: they may return, and if the configuration shrank with each failure, ever fewer members would decide. For
        the same reason draining ones stay where without them too few would decide."""
        members = self.state.configuration.members
        best = self.port.target()
        if not best:
            return members                                 # all hosts drain: there is no destination
        away = [member for member in members if member not in self.port.members]
        found = (*best, *away)[:self.port.replicas]
        for member in self.state.present():
            if self.are_enough(found):
                break
            if member in members and member not in found:
                found = (*found, member)
        return found

    def are_enough(self, found: tuple[Address, ...]) -> bool:
        """Whether a configuration is as large as it can be, or sufficient without the draining hosts: a majority of it
        is here, and its size is odd, since an even one tolerates no more failures than one less."""
        if len(found) >= min(self.port.replicas, len(self.state.configuration.members)):
            return True
        return len(found) % 2 == 1 and Configuration(found).has_quorum(self.port.members)

    def review(self) -> None:
        """Take one step towards the desired replicas and leader."""
        if not self.term.is_leader or not self.leading.leads().ready:
            return
        port, leadership, config = self.port, self.leading.leads(), self.state.configuration
        port.report_live(sum(member in port.members for member in config.members))
        desired = self.desired()
        if config.old or self.state.is_changing or not port.has_announced(config.members):
            return port.arm("review", port.options.settle_ns)
        added = [member for member in desired if member not in config.members]
        removed = [member for member in config.members if member not in desired]
        if not added and not removed:
            self.set_learner(None)
            return self.hand_over()
        port.arm("review", port.options.settle_ns)
        if not added:
            return self.change(None, self.first_to_go(removed))
        if leadership.learner not in added:
            self.set_learner(added[0])
        elif leadership.has_caught_up(leadership.learner):
            grows = len(config.members) < port.replicas
            self.change(leadership.learner, None if grows or not removed else self.first_to_go(removed))
        return None

    def first_to_go(self, members: list[Address]) -> Address:
        """The replica to remove first: an absent one, else the least preferred, this leader last."""
        away = [member for member in members if member not in self.port.members]
        if away:
            return away[0]
        last = [member for member in self.port.preference(tuple(members)) if member != self.port.me]
        return last[-1] if last else self.port.me

    def set_learner(self, member: Address | None) -> None:
        """Send the log to a host that is to become a replica; None: to none."""
        leadership = self.leading.leads()
        if leadership.learner != member:
            leadership.set_learner(member)
            self.leading.announce()
            if member is not None:
                leadership.show(member)

    def change(self, added: Address | None, removed: Address | None) -> None:
        """Change the configuration by one member. The new one counts at once, with the old one until it is
        committed."""
        members = tuple(member for member in self.state.configuration.members if member != removed)
        members = members if added is None else (*members, added)
        joint = self.state.configuration.between(members)
        if joint.has_quorum(self.port.members):            # else it could not be completed in this view
            self.leading.change(joint)

    def hand_over(self) -> None:
        """Hand over to the preferred replica. Once in a view: if this replica leads again, the other could not win."""
        best = self.state.present()[0]
        if best in (self.port.me, self.handed):
            return
        peer = self.leading.leads().peers.get(best)
        if peer is not None and peer.match == self.state.log.stop:
            self.handed = best
            self.port.count("handed_over")
            self.port.send(best, TakeOver(self.port.partition, self.term.epoch))
        else:
            self.port.arm("review", self.port.options.settle_ns)
