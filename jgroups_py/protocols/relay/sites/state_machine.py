"""The states of another site, as the relay decides them: one table of states and events (relay rule 14).

A site is UP, DOWN (its relay is not on the bridge; messages are held for it) or OFFLINE (nothing is held). While an
operator's drain runs, what was numbered before it is still sent, and nothing that came later: the site is DRAINING, or
DRAINING_DOWN if its relay is not on the bridge. On the wire these are UP and DOWN, since only the relay drains.

Conditions are checked by the caller: whether an operator forbids the return, whether the accepted relay is there. What
follows from a step (TRIM, losses, STANDING) is done by SiteDecisions and Admin.
"""
from __future__ import annotations

from enum import Enum

from jgroups_py.protocols.relay.headers import DOWN, OFFLINE, UP


class SiteState(Enum):
    """The states of another site at the relay."""

    UP = "UP"
    DOWN = "DOWN"
    OFFLINE = "OFFLINE"
    DRAINING = "DRAINING"
    DRAINING_DOWN = "DRAINING_DOWN"


class SiteEvent(Enum):
    """The events that may change the state."""

    HELLO = 0            # HELLO of its accepted relay
    ABSENT = 1           # no accepted relay on the bridge for `site_down_after`
    LEFT = 2             # GOODBYE of its last member
    GIVEN_UP = 3         # a limit of the hold, an operator, a drain that is done, or the site asked to be forgotten
    RETURNED = 4         # HELLO of a site that no operator forbids, or an operator's `online` while its relay is there
    DRAIN = 5            # an operator ordered a drain (or a hold, which begins as one)
    DRAIN_ENDED = 6      # its time is over, a hold begins, another order came, or this member is no longer the relay


def _table() -> dict[SiteState, tuple[SiteState, ...]]:
    up, down, offline, draining, absent = SiteState
    return {
        #          HELLO     ABSENT   LEFT     GIVEN_UP RETURNED  DRAIN     DRAIN_ENDED
        up:       (up,       down,    down,    offline, up,       draining, up),
        down:     (up,       down,    down,    offline, down,     absent,   down),
        offline:  (offline,  offline, offline, offline, up,       offline,  offline),
        draining: (draining, absent,  absent,  offline, draining, draining, up),
        absent:   (draining, absent,  absent,  offline, absent,   absent,   down),
    }


TRANSITIONS = _table()

STATUS_OF = {SiteState.UP: UP, SiteState.DRAINING: UP, SiteState.DOWN: DOWN, SiteState.DRAINING_DOWN: DOWN,
             SiteState.OFFLINE: OFFLINE}
"""State -> the status on the wire and in reports to the application."""


def state_of(status: int, *, draining: bool) -> SiteState:
    """The state that follows from the status and whether a drain runs; when a site is OFFLINE its drain is over."""
    if status == OFFLINE:
        return SiteState.OFFLINE
    if draining:
        return SiteState.DRAINING if status == UP else SiteState.DRAINING_DOWN
    return SiteState.UP if status == UP else SiteState.DOWN


def after(state: SiteState, event: SiteEvent) -> SiteState:
    """The state that follows from an event: a look-up in the table, which has an entry for each pair."""
    return TRANSITIONS[state][event.value]
