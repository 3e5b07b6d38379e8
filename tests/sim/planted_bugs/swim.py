"""Safeguards of SWIM."""
from __future__ import annotations

from jgroups_py.protocols.swim.exchange import Exchange
from jgroups_py.protocols.swim.headers import Alive, Dead
from jgroups_py.protocols.swim.rumours import Rumours
from jgroups_py.protocols.swim.table import Node
from tests.sim.planted_bugs.group import nothing
from tests.sim.planted_bugs.safeguard import Patch, Safeguard

hear_alive = Rumours.hear_alive


def any_incarnation(self: Rumours, alive: Alive) -> None:
    """An Alive of any age is believed of a node that is up."""
    node = self.nodes.get(alive.node)
    if node is not None and node.is_up and node.member == alive.member and alive.incarnation < node.incarnation:
        self.believe(node, alive)
    else:
        hear_alive(self, alive)


def whoever_is_meant(self: Exchange, node: Node, incarnation: int) -> None:
    """The end of another start is believed of the one that is there."""
    self.hear_dead(Dead(incarnation, node.name, node.name))


SWIM_SAFEGUARDS = (
    Safeguard("who is accused refutes", "SWIM", "members bear what is said of them",
              (Patch(Rumours, "accused", nothing),), "swim", "W2"),
    Safeguard("a suspicion ends", "SWIM", "suspects stay suspects",
              (Patch(Rumours, "not_refuted", nothing),), "swim", "W1"),
    Safeguard("failed members are tried again", "SWIM", "only members that are up are talked to",
              (Patch(Exchange, "reconnect", nothing),), "swim", "W2"),
    Safeguard("incarnations order the news of a node", "SWIM", "what was true once is believed again",
              (Patch(Rumours, "hear_alive", any_incarnation),), "swim", "W3"),
    Safeguard("starts of a name are told apart", "SWIM", "the end of one is believed of another",
              (Patch(Exchange, "mistaken", whoever_is_meant),), "swim", "W4"),
    Safeguard("failures go up to GMS", "SWIM", "only SWIM knows them",
              (Patch(Rumours, "fail", lambda self, node, news, accusations: self.turn(node, 2)),), "swim-group", "L"),
)
