"""Safeguards of the local group: NAKACK, UNICAST, GMS."""
from __future__ import annotations

from typing import Any

from jgroups_py.events import Filled, Frozen
from jgroups_py.protocols.gms import gms as gms_module
from jgroups_py.protocols.gms.flush import Flush
from jgroups_py.protocols.gms.gms import Gms
from jgroups_py.protocols.nakack.nakack import Nakack
from jgroups_py.protocols.unicast.closing import Closing
from jgroups_py.protocols.unicast.protocol import Unicast
from tests.sim.planted_bugs.safeguard import Patch, Safeguard


def nothing(self: Any, *_: Any) -> None:
    """What is asked for is not done."""


def no_windows(self: Nakack, header: Any, batch: Any) -> None:
    self.pass_up(batch)


def no_digest_exchange(self: Nakack, event: Any) -> None:
    self.pass_up(Filled(event.cut))


def no_freeze(self: Nakack, event: Any) -> None:
    self.pass_up(Frozen({member: self.reach(member) for member in self.members}))


def one_is_enough(self: Flush, member: Any) -> bool:
    return True


def unicasts_as_they_come(self: Unicast, header: Any, batch: Any) -> None:
    if self.members is not None:
        self.pass_up(batch)


def misses_nothing(agreed: Any, mine: Any, me: Any) -> dict[Any, int]:
    return {}


view_changed = Closing.view_changed


def fresh_connections(self: Unicast, event: Any) -> None:
    for peer in list(self.outgoing):
        self.close_outgoing(peer)
    view_changed(self, event)


def guard(name: str, rule: str, left: str, owner: type, method: str, without: Any, breaks: str) -> Safeguard:
    """A safeguard of one method, shown by profile group."""
    return Safeguard(name, rule, left, (Patch(owner, method, without),), "group", breaks)


GROUP_SAFEGUARDS = (
    Safeguard("sums of what was missed", "GMS", "a MergeView names nothing that was missed",
              (Patch(gms_module, "lacking", misses_nothing),), "group", "S9"),
    guard("windows of NAKACK", "NAKACK", "multicasts go up as they come", Nakack, "data", no_windows, "F"),
    guard("digest exchange before a view", "GMS", "nothing is fetched from holders", Nakack, "fill",
          no_digest_exchange, "S5"),
    guard("freeze during a view change", "GMS", "sending and delivering go on", Nakack, "freeze", no_freeze, "S5"),
    guard("resending multicasts", "NAKACK", "requests are ignored", Nakack, "asked", nothing, "L"),
    guard("all acknowledge a view before it is installed", "GMS", "the first acknowledgement is enough", Flush, "ack",
          one_is_enough, "S5"),
    guard("suspicions", "GMS", "failure detectors are not heard", Gms, "suspect", nothing, "L"),
    guard("merging", "GMS", "split groups stay apart", Gms, "merge_needed", nothing, "L"),
    guard("windows of UNICAST", "UNICAST", "unicasts go up as they come", Unicast, "data", unicasts_as_they_come,
          "S2"),
    guard("resending unicasts", "UNICAST", "requests are ignored", Unicast, "asked_again", nothing, "L"),
    Safeguard("unacknowledged unicasts outlive a view", "UNICAST", "a view change throws them away",
              (Patch(Closing, "view_changed", fresh_connections),), "relay", "L"),
)
