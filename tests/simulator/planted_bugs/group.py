"""Safeguards of the local group: NAKACK, UNICAST, GMS."""
from __future__ import annotations

from typing import Any

from jgroups_py.model.events import Filled, Frozen
from jgroups_py.protocols.fd_sock.protocol import FdSock
from jgroups_py.protocols.frag import Frag
from jgroups_py.protocols.gms import protocol as gms_module
from jgroups_py.protocols.gms.flush import Flush
from jgroups_py.protocols.gms.merge import MergeCoordinator
from jgroups_py.protocols.gms.proposer import ViewProposer
from jgroups_py.protocols.nakack.protocol import Nakack
from jgroups_py.protocols.unicast.peers import UnicastPeers
from jgroups_py.protocols.unicast.protocol import Unicast
from jgroups_py.protocols.unicast.receiver import UnicastReceiver
from tests.simulator.planted_bugs.safeguard import Patch, Safeguard


def as_it_is(self: Frag, batch: Any, view: Any, joined: Any) -> Any:
    return batch


def nothing(self: Any, *_: Any) -> None:
    """Does nothing."""


def no_windows(self: Nakack, header: Any, batch: Any) -> None:
    self.pass_up(batch)


def no_digest_exchange(self: Nakack, event: Any) -> None:
    self.pass_up(Filled(event.cut))


def no_freeze(self: Nakack, event: Any) -> None:
    self.pass_up(Frozen({member: self.reach(member) for member in self.members}))


def one_is_enough(self: Flush, member: Any) -> bool:
    return True


def unicasts_as_they_come(self: UnicastReceiver, header: Any, batch: Any) -> None:
    if self.peers.members is not None:
        self.pass_up(batch)


def misses_nothing(agreed: Any, mine: Any, me: Any) -> dict[Any, int]:
    return {}


view_changed, suspect = UnicastPeers.on_view_change, FdSock.suspect


def no_answer_is_an_end(self: FdSock, member: Any, certain: bool) -> None:
    suspect(self, member, True)


def fresh_connections(self: UnicastPeers, event: Any) -> None:
    for peer in list(self.sending.outgoing):
        self.sending.close_outgoing(peer)
    view_changed(self, event)


def guard(name: str, rule: str, left: str, owner: type, method: str, without: Any, breaks: str) -> Safeguard:
    """A safeguard of one method, shown by profile group."""
    return Safeguard(name, rule, left, (Patch(owner, method, without),), "group", breaks)


GROUP_SAFEGUARDS = (
    Safeguard("sums of what was missed", "GMS", "a MergeView names nothing that was missed",
              (Patch(gms_module, "missed_counts", misses_nothing),), "group", "S9"),
    guard("windows of NAKACK", "NAKACK", "multicasts go up in the order of arrival", Nakack, "on_data", no_windows,
          "F"),
    guard("digest exchange before a view", "GMS", "nothing is fetched from holders", Nakack, "on_fill",
          no_digest_exchange, "S5"),
    guard("freeze during a view change", "GMS", "sending and delivering go on", Nakack, "on_freeze", no_freeze, "S5"),
    guard("retransmitting multicasts", "NAKACK", "requests are ignored", Nakack, "on_retransmit_request", nothing, "L"),
    guard("all acknowledge a view before it is installed", "GMS", "the first acknowledgement is enough", Flush, "ack",
          one_is_enough, "S5"),
    guard("suspicions", "GMS", "reports of failure detectors are ignored", ViewProposer, "on_suspect", nothing, "L"),
    guard("no answer proves nothing", "FD_SOCK", "a link that is not answered in time proves an end", FdSock,
          "suspect", no_answer_is_an_end, "M5"),
    guard("merging", "GMS", "groups are never merged", MergeCoordinator, "on_merge_needed", nothing, "L"),
    Safeguard("the attempt that is delivered counts", "FRAG", "so does what was given up of a message begun again",
              (Patch(Frag, "with_attempt", as_it_is),), "order", "S9"),
    guard("windows of UNICAST", "UNICAST", "unicasts go up in the order of arrival", UnicastReceiver, "on_data",
          unicasts_as_they_come, "S2"),
    guard("retransmitting unicasts", "UNICAST", "requests are ignored", Unicast, "on_nak", nothing, "L"),
    Safeguard("unacknowledged unicasts outlive a view", "UNICAST", "a view change throws them away",
              (Patch(UnicastPeers, "on_view_change", fresh_connections),), "relay", "L"),
)
