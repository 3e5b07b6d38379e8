"""Watches relays for stalls (R12): what can be sent to another site must be acknowledged or declared lost in time.

Liveness (L) is judged at the end of a run, when no fault is left and many members have restarted. This audit looks at
every pair of relays that can communicate once a second during the run, and checks that there is progress.
"""
from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from jgroups_py.model.address import Address
from jgroups_py.model.outputs import BRIDGE
from jgroups_py.model.units import NS_PER_S, seconds
from jgroups_py.model.view import View
from jgroups_py.protocols.relay import Relay
from jgroups_py.protocols.relay.sites.table import STATUS_NAMES, UP, Site
from jgroups_py.simulator import history as h
from jgroups_py.simulator.ledger_audit import LedgerAudit
from jgroups_py.simulator.network import Network
from jgroups_py.simulator.process import Process

LOOK_NS = seconds(1)
ALLOWED_NS = seconds(10)                 # in addition to what the configuration of RELAY allows
MEETING_NS = seconds(60)                 # within it two relays with a free path must share a view of the bridge

Pair = tuple[Address, View, Address, View]


class WatchedWorld(Protocol):
    """The part of a world that the audit reads."""

    history: h.History
    network: Network
    processes: dict[str, Process]

    @property
    def now_ns(self) -> int:
        """The virtual time."""

    @property
    def audits(self) -> Mapping[Address, LedgerAudit]:
        """Incarnation -> the audit of its RELAY."""

    def after(self, delay_ns: int, call: Callable[..., None], *arguments: Any) -> None:
        """Call something later."""


class Stalls:
    """The stall audit of a world; it runs from the start of the first member with RELAY on."""

    def __init__(self, world: WatchedWorld) -> None:
        self.world = world
        self.begun = False
        self.waiting: dict[Pair, tuple[Any, int]] = {}               # sender, receiver -> (state, unchanged since)
        self.reported: dict[Pair, None] = {}

    def begin(self) -> None:
        """Check once a second from now on; a second call does nothing."""
        if not self.begun:
            self.begun = True
            self.world.after(LOOK_NS, self._check_all)

    def _check_all(self) -> None:
        self.world.after(LOOK_NS, self._check_all)
        relays = self._sole_relays()
        waiting: dict[Pair, tuple[Any, int]] = {}
        for one in relays:
            for other in relays:
                if one.site != other.site and self._free(one, other):
                    self._check(one, other, waiting)
        self.waiting = waiting

    def _sole_relays(self) -> list[Process]:
        """Running relays that are the only one of their site: halves of a split site fence each other in turns, so a
        stall between them and other sites is no bug."""
        audits = self.world.audits
        relays = [process for process in self.world.processes.values()
                  if process.running and process.me in audits and audits[process.me].relay.group.is_relay]
        return [process for process in relays if not process.paused and process.node.bridge is not None
                and sum(other.site == process.site for other in relays) == 1]

    def _free(self, one: Process, other: Process) -> bool:
        """Whether the bridge is not cut between two relays, in either direction."""
        network = self.world.network
        return not network.is_cut(one.name, other.name, BRIDGE) and not network.is_cut(other.name, one.name, BRIDGE)

    def _check(self, one: Process, other: Process, waiting: dict[Pair, tuple[Any, int]]) -> None:
        mine, its = self.world.audits[one.me].relay, self.world.audits[other.me].relay
        wanted = wait_of(mine, one, other, its)
        if wanted is None:
            return
        what, limit_ns, text = wanted
        pair = mine.me, mine.group.view, its.me, its.group.view
        known, since_ns = self.waiting.get(pair, (None, 0))
        if known != what:
            since_ns = self.world.now_ns
        waiting[pair] = what, since_ns
        waited_ns = self.world.now_ns - since_ns
        if waited_ns > limit_ns and pair not in self.reported:
            self.reported[pair] = None
            self.world.history.add(h.Stalled(
                self.world.now_ns, mine.me, f"towards {other.site}, whose relay is {other.incarnation}, nothing has "
                f"moved for {waited_ns // NS_PER_S} s: {text}"))


def wait_of(mine: Relay, one: Process, other: Process, its: Relay) -> tuple[Any, int, str] | None:
    """What a relay waits for from another one: (state that changes with progress, limit in ns, text); None: nothing."""
    config = mine.config
    bridge, its_bridge = mine.bridge_link.view, its.bridge_link.view
    its_own, the_other = one.node.bridge, other.node.bridge
    if bridge is None or its_bridge is None or its_own is None or the_other is None or the_other.me not in bridge or \
            its_own.me not in its_bridge:
        return "apart", MEETING_NS, "they are in no common view of the bridge"
    allowed_ns = max(config.lost_after_ns, config.site_down_after_ns, its.config.site_down_after_ns) + ALLOWED_NS
    site, back = mine.table.get(other.site), its.table.get(one.site)
    if any(entry is not None and not entry.open for entry in (site, back)):
        return None                                          # by order of an operator
    peer = mine.peers.accepted(other.site)
    if site is None or peer is None or site.status != UP:
        status = "unknown" if site is None else STATUS_NAMES[site.status]
        return "away", allowed_ns, f"{other.site} is {status} there" + ("" if peer else ", without a relay")
    unsettled = unsettled_for(mine, site)
    if not unsettled:
        return None
    shown = ", ".join(f"{one.name}'s from {acked} to {stop}" for one, acked, stop in unsettled)
    return tuple(sorted(site.acked.items())), allowed_ns, f"not acknowledged nor lost are {shown}"


def unsettled_for(mine: Relay, site: Site) -> list[tuple[Address, int, int]]:
    """(origin, first, stop) of what a site has not acknowledged and could be sent. Left out are messages that wait for
    a sync of this member's disk, and holes that a holder that has not started yet may fill from its disk."""
    found = []
    for origin, stop in mine.numbering.current_numbers().items() if mine.config.relay_multicasts else ():
        acked = site.acked.get(origin, 1)
        if acked >= stop:
            continue
        held = mine.hold.first_from(origin, acked)
        unsynced = mine.journal.unsynced(origin)
        on_its_way = unsynced is not None and unsynced <= acked
        if not on_its_way and not (held != acked and mine.journal.may_fill(origin, stop if held is None else held)):
            found.append((origin, acked, stop))
    return found
