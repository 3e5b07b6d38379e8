"""Watches relays for standstills (R12): what could go to another site must go there, or be declared lost, in time.

Liveness is judged at the end of a run, when nobody fails and much has been started anew. This looks once a second at
every pair of relays that are in office and can talk, and asks whether anything moves between them.
"""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jgroups_py.address import Address
from jgroups_py.outputs import BRIDGE
from jgroups_py.protocols.relay import Relay
from jgroups_py.protocols.relay.sites import STATUS_NAMES, UP, Site
from jgroups_py.sim import history as h
from jgroups_py.sim.process import Process
from jgroups_py.units import NS_PER_S, seconds
from jgroups_py.view import View

if TYPE_CHECKING:
    from jgroups_py.sim.world import World

LOOK_NS = seconds(1)
ALLOWED_NS = seconds(10)                 # beside what the configuration of RELAY allows
MEETING_NS = seconds(60)                 # for two relays whose way is free to be in one view of the bridge

Pair = tuple[Address, View, Address, View]


class Stalls:
    """The watch of a world. It looks from the start of the first member with RELAY on."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.begun = False
        self.waiting: dict[Pair, tuple[Any, int]] = {}               # sender and receiver -> what for, since when
        self.told: dict[Pair, None] = {}

    def begin(self) -> None:
        """Look from now on, again and again."""
        if not self.begun:
            self.begun = True
            self.world.after(LOOK_NS, self._look)

    def _look(self) -> None:
        self.world.after(LOOK_NS, self._look)
        offices = self._offices()
        waiting: dict[Pair, tuple[Any, int]] = {}
        for one in offices:
            for other in offices:
                if one.site != other.site and self._free(one, other):
                    self._judge(one, other, waiting)
        self.waiting = waiting

    def _offices(self) -> list[Process]:
        """Relays that run and whose site has no other one: halves of a split site fence each other, which takes turns.
        """
        relays = [process for process in self.world.processes.values()
                  if process.running and process.books is not None and process.books.relay.is_relay]
        return [process for process in relays if not process.paused and process.node.bridge is not None
                and sum(other.site == process.site for other in relays) == 1]

    def _free(self, one: Process, other: Process) -> bool:
        """Whether nothing lies on the way between two relays."""
        network = self.world.network
        return not network.is_cut(one.name, other.name, BRIDGE) and not network.is_cut(other.name, one.name, BRIDGE)

    def _judge(self, one: Process, other: Process, waiting: dict[Pair, tuple[Any, int]]) -> None:
        mine, its = relay_of(one), relay_of(other)
        wanted = wait_of(mine, one, other, its)
        if wanted is None:
            return
        what, limit_ns, text = wanted
        pair = mine.me, mine.view, its.me, its.view
        known, since_ns = self.waiting.get(pair, (None, 0))
        if known != what:
            since_ns = self.world.now_ns
        waiting[pair] = what, since_ns
        waited_ns = self.world.now_ns - since_ns
        if waited_ns > limit_ns and pair not in self.told:
            self.told[pair] = None
            self.world.history.add(h.Stalled(
                self.world.now_ns, mine.me, f"towards {other.site}, whose relay is {other.incarnation}, nothing has "
                f"moved for {waited_ns // NS_PER_S} s: {text}"))


def relay_of(process: Process) -> Relay:
    """The RELAY of a process that has one."""
    assert process.books is not None, "only members with RELAY are watched"
    return process.books.relay


def wait_of(mine: Relay, one: Process, other: Process, its: Relay) -> tuple[Any, int, str] | None:
    """What a relay waits for with another one: something that changes when it moves, how long it may stay as it is,
    and the words for it. None: nothing."""
    config = mine.config
    bridge, its_bridge = mine.sending.bridge_view, its.sending.bridge_view
    ours, theirs = one.node.bridge, other.node.bridge
    if bridge is None or its_bridge is None or ours is None or theirs is None or theirs.me not in bridge or \
            ours.me not in its_bridge:
        return "apart", MEETING_NS, "they are in no common view of the bridge"
    allowed_ns = max(config.lost_after_ns, config.site_down_after_ns, its.config.site_down_after_ns) + ALLOWED_NS
    site, back = mine.table.get(other.site), its.table.get(one.site)
    if any(entry is not None and not entry.open for entry in (site, back)):
        return None                                          # an operator wants it so
    peer = mine.sending.peers.accepted(other.site)
    if site is None or peer is None or site.status != UP:
        status = "unknown" if site is None else STATUS_NAMES[site.status]
        return "away", allowed_ns, f"{other.site} is {status} there" + ("" if peer else ", without a relay")
    owed = owed_to(mine, site)
    if not owed:
        return None
    shown = ", ".join(f"{one.name}'s from {acked} to {stop}" for one, acked, stop in owed)
    return tuple(sorted(site.acked.items())), allowed_ns, f"not acknowledged nor lost are {shown}"


def owed_to(mine: Relay, site: Site) -> list[tuple[Address, int, int]]:
    """Origin, first and stop of what a site is owed and could be sent; not what waits for the disk of this member, nor
    holes that a holder which is not there yet may fill from its disk."""
    found = []
    for origin, stop in mine.current_numbers().items() if mine.config.relay_multicasts else ():
        acked = site.acked.get(origin, 1)
        if acked >= stop:
            continue
        held = mine.hold.first_from(origin, acked)
        unsynced = mine.journal.unsynced(origin)
        on_its_way = unsynced is not None and unsynced <= acked
        if not on_its_way and not (held != acked and mine.journal.may_fill(origin, stop if held is None else held)):
            found.append((origin, acked, stop))
    return found
