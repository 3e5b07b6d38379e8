"""Safeguards of SWIM."""
from __future__ import annotations

from jgroups_py.protocols.swim.exchange import Exchange
from jgroups_py.protocols.swim.headers import Alive, Dead
from jgroups_py.protocols.swim.table import SwimNode
from jgroups_py.protocols.swim.updates import MembershipUpdates
from tests.simulator.planted_bugs.group import nothing
from tests.simulator.planted_bugs.safeguard import Patch, Safeguard

on_alive = MembershipUpdates.on_alive


def any_incarnation(self: MembershipUpdates, alive: Alive) -> None:
    """An Alive of any age is applied to a node that is up."""
    node = self.nodes.get(alive.node)
    if node is not None and node.is_up and node.member == alive.member and alive.incarnation < node.incarnation:
        self.apply_alive(node, alive)
    else:
        on_alive(self, alive)


def any_start(self: Exchange, node: SwimNode, incarnation: int) -> None:
    """The end of another start is applied to the current one."""
    self.on_dead(Dead(incarnation, node.name, node.name))


SWIM_SAFEGUARDS = (
    Safeguard("a suspected member refutes", "SWIM", "members do not answer suspicions about themselves",
              (Patch(MembershipUpdates, "on_accusation", nothing),), "swim", "W2"),
    Safeguard("a suspicion ends", "SWIM", "suspected members stay suspected",
              (Patch(MembershipUpdates, "suspicion_expired", nothing),), "swim", "W1"),
    Safeguard("failed members are tried again", "SWIM", "messages go to members that are up only",
              (Patch(Exchange, "reconnect", nothing),), "swim", "W2"),
    Safeguard("incarnations order the updates about a member", "SWIM", "older updates replace newer ones",
              (Patch(MembershipUpdates, "on_alive", any_incarnation),), "swim", "W3"),
    Safeguard("incarnations with one name are distinguished", "SWIM", "the end of one ends another",
              (Patch(Exchange, "report_end_of_start", any_start),), "swim", "W4"),
    Safeguard("failures go up to GMS", "SWIM", "they stay in SWIM",
              (Patch(MembershipUpdates, "mark_failed",
               lambda self, node, update, accusations: self.set_state(node, 2)),), "swim-group", "L"),
)
