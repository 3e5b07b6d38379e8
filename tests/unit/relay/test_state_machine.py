"""A site's state: all pairs of state and event, and what of it is reported to members."""
from __future__ import annotations

import pytest

from jgroups_py.protocols.relay.headers import DOWN, OFFLINE, UP
from jgroups_py.protocols.relay.sites.state_machine import STATUS_OF, TRANSITIONS, SiteEvent, SiteState, state_of
from jgroups_py.protocols.relay.sites.table import Site
from tests.unit.relay.layer import address

# What happens to a site: (state, event) -> state, where the state changes; all other pairs leave it as it is.
CHANGES = """
UP            ABSENT      DOWN
UP            LEFT        DOWN
UP            GIVEN_UP    OFFLINE
UP            DRAIN       DRAINING
DOWN          HELLO       UP
DOWN          GIVEN_UP    OFFLINE
DOWN          DRAIN       DRAINING_DOWN
OFFLINE       RETURNED    UP
DRAINING      ABSENT      DRAINING_DOWN
DRAINING      LEFT        DRAINING_DOWN
DRAINING      GIVEN_UP    OFFLINE
DRAINING      DRAIN_ENDED UP
DRAINING_DOWN HELLO       DRAINING
DRAINING_DOWN GIVEN_UP    OFFLINE
DRAINING_DOWN DRAIN_ENDED DOWN
"""
EXPECTED = {(SiteState[state], SiteEvent[event]): SiteState[then]
            for state, event, then in map(str.split, CHANGES.strip().splitlines())}
ME = address("me")


def site_in(state: SiteState) -> Site:
    """A site that came to this state."""
    site = Site("SFO", STATUS_OF[state])
    site.draining = {ME: 7} if state in (SiteState.DRAINING, SiteState.DRAINING_DOWN) else None
    assert site.state is state
    return site


@pytest.mark.parametrize("event", SiteEvent, ids=lambda event: event.name)
@pytest.mark.parametrize("state", SiteState, ids=lambda state: state.name)
def test_every_pair_of_state_and_event(state: SiteState, event: SiteEvent) -> None:
    site = site_in(state)
    if event is SiteEvent.DRAIN:
        site.drain_up_to({ME: 9})
    else:
        changed = site.step(event)
        assert changed is ((state, event) in EXPECTED)
    assert site.state is EXPECTED.get((state, event), state)
    assert (site.draining is None) is (site.state not in (SiteState.DRAINING, SiteState.DRAINING_DOWN))


def test_the_table_has_an_entry_for_each_pair() -> None:
    assert list(TRANSITIONS) == list(SiteState)
    assert {len(row) for row in TRANSITIONS.values()} == {len(SiteEvent)}
    assert [event.value for event in SiteEvent] == list(range(len(SiteEvent)))


@pytest.mark.parametrize(("state", "status"), [
    (SiteState.UP, UP), (SiteState.DOWN, DOWN), (SiteState.OFFLINE, OFFLINE), (SiteState.DRAINING, UP),
    (SiteState.DRAINING_DOWN, DOWN)])
def test_the_status_of_a_site_is_reported_as_up_down_or_offline(state: SiteState, status: int) -> None:
    site = site_in(state)
    assert site.row().status == STATUS_OF[state] == status
    assert state_of(status, draining=site.draining is not None) is state


def test_a_site_that_is_offline_is_not_drained() -> None:
    site = site_in(SiteState.OFFLINE)
    site.drain_up_to({ME: 9})
    assert (site.state, site.draining) == (SiteState.OFFLINE, None)


def test_a_drain_that_a_row_of_another_half_overrules_ends() -> None:
    assert site_in(SiteState.DRAINING).step(SiteEvent.DRAIN_ENDED)
    assert not site_in(SiteState.UP).step(SiteEvent.DRAIN_ENDED)
