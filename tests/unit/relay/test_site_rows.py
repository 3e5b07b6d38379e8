"""What relays take over from each other about a site, and whose confirmations and greetings count."""
from __future__ import annotations

from itertools import pairwise

import attrs
import pytest

from jgroups_py.model.address import Address
from jgroups_py.model.batch import Batch
from jgroups_py.model.outputs import Unreachable
from jgroups_py.model.units import millis, seconds
from jgroups_py.model.view import ViewId
from jgroups_py.protocols.relay.headers import Confirm, HelloHeader, SiteRow, ViewHeader
from jgroups_py.protocols.relay.origin.hold import MESSAGE_BYTES
from jgroups_py.protocols.relay.sites.table import OFFLINE, UP, Site
from tests.unit.relay.sites import Sites, cut_off, numbered, reported, statuses

ORIGIN, OTHER = (Address(name.encode().ljust(16, b"\0"), name) for name in ("o", "p"))


@pytest.fixture
def world() -> Sites:
    return Sites(NYC="ABC", SFO="DEF").build()


def row(acked: dict[Address, int], owed: dict[Address, int]) -> SiteRow:
    return SiteRow("SFO", UP, None, (), acked, owed, {}, 0)


@pytest.mark.parametrize(("here", "there", "owed"), [(3, 7, 3), (7, 3, 3), (1, 7, 1), (7, 1, 1)])
def test_what_one_half_owes_a_site_is_owed_although_the_site_was_new_to_the_other_half_later(here, there, owed):
    site = Site("SFO")
    site.combine(row({ORIGIN: 9}, {ORIGIN: here} if here > 1 else {}))
    site.combine(row({ORIGIN: 9}, {ORIGIN: there} if there > 1 else {}))
    assert site.owed.get(ORIGIN, 1) == owed
    assert site.book(ORIGIN, 9).numbered == 9 - owed


def test_of_an_origin_that_was_not_known_here_the_row_says_from_where_the_site_is_owed():
    site = Site("SFO")
    site.combine(row({OTHER: 4}, {}))
    site.combine(row({ORIGIN: 9}, {ORIGIN: 5}))
    assert site.owed == {ORIGIN: 5}
    assert site.acked == {OTHER: 4, ORIGIN: 9}


def test_what_was_dropped_before_the_site_was_known_is_lost_only_where_a_part_of_it_was_owed():
    site = Site("SFO")
    site.acknowledge({ORIGIN: 3})
    site.never_owed({ORIGIN: 5, OTHER: 4})
    assert site.acked == {ORIGIN: 5, OTHER: 4}
    assert site.owed == {OTHER: 4}
    assert {origin: tuple(ranges) for origin, ranges in site.lost.items()} == {ORIGIN: ((3, 5),)}


def test_holes_of_every_origin_that_is_gone_are_given_up_for_every_site_that_has_them():
    world = Sites(NYC="ABC", SFO="DE", LON="XY").build(lost_after_ns="10s")
    for name in "ABC":
        world[name].multicast("something")
    world.run(seconds(2))
    relay = world["A"].relay
    sites = [relay.table.sites[name] for name in ("SFO", "LON")]
    for origin, has in ((ORIGIN, (5, 3)), (OTHER, (4, 5))):         # behind those that are present
        relay.numbering.numbers[origin] = 5
        for site, number in zip(sites, has, strict=True):
            site.acked[origin] = number
    world.run(seconds(8))
    assert [site.acked.get(ORIGIN) for site in sites] == [5, 3]
    world.run(seconds(6))
    assert [(site.acked.get(ORIGIN), site.acked.get(OTHER)) for site in sites] == [(5, 5), (5, 5)]
    assert [{origin: tuple(ranges) for origin, ranges in site.lost.items()} for site in sites] == \
        [{OTHER: ((4, 5),)}, {ORIGIN: ((3, 5),)}]


@pytest.mark.parametrize(("over", "status"), [(0, UP), (1, OFFLINE)])
def test_a_hold_that_is_just_full_once_what_all_have_is_dropped_costs_no_site_anything(over: int, status: int) -> None:
    relay = Sites(NYC="AB", SFO="DE").build(hold_bytes="1M")["A"].relay
    site = relay.table.sites["SFO"]
    sixteenth = bytes((1 << 16) - MESSAGE_BYTES)
    relay.hold.add(ORIGIN, 1, Batch(ORIGIN, None, (b"SFO has it",)), relay.now_ns)
    relay.hold.add(ORIGIN, 2, Batch(ORIGIN, None, (*[sixteenth] * 15, sixteenth + bytes(over))), relay.now_ns)
    relay.numbering.numbers[ORIGIN] = 18
    site.acked[ORIGIN] = 2
    assert relay.hold.nbytes > relay.config.hold_bytes
    relay.trimmer.limit_bytes()
    assert site.status == status


def test_unicasts_to_a_site_are_given_up_when_it_goes_down_and_not_at_the_next_retransmission():
    world = Sites(NYC="ABC", SFO="DEF").build(resend_interval_ns="40s", unicast_timeout_ns="10m")
    world.lose = lambda src, batch: True
    world["F"].unicast(world["C"].me, "letter")
    cut_off(world, "A")
    while statuses(world["F"])[-1] != "DOWN":
        world.run(millis(100), millis(100))
        assert world.now_ns < seconds(35), "it went DOWN before the unicast was retransmitted"
    assert len(reported(world["F"], Unreachable)) == 1


def test_view_is_sent_before_the_hello_that_acknowledges(world: Sites) -> None:
    said: list[type] = []

    def watch(src: Address, batch: Batch) -> bool:
        said.extend(type(header) for header in batch.headers if isinstance(header, HelloHeader | ViewHeader))
        return False
    world.lose = watch
    world.sites["SFO"].crash("D")
    world.run(seconds(1))
    assert said.index(ViewHeader) < said.index(HelloHeader), "the grace for vanished members begins with VIEW"
    assert all(before is ViewHeader for before, after in pairwise(said) if after is HelloHeader)


def test_a_confirmation_of_another_view_acknowledges_nothing(world: Sites) -> None:
    world["E"].group.hand_over = lambda batch: None       # the backup of SFO never confirms
    world["C"].multicast(*numbered(0, 10))
    world.run(seconds(1))
    assert world["A"].relay.hold.messages == 10
    relay = world["D"].relay
    old = Confirm(ViewId(relay.group.view.id.counter - 1, relay.group.view.coordinator), {"NYC": {world["C"].me: 11}})
    world["D"].receive(Batch(world["E"].me, world["D"].me, (), (old,)))
    world.run(seconds(1))
    assert world["A"].relay.hold.messages == 10, "a member of an earlier view had delivered, perhaps none that is left"
    world["D"].receive(Batch(world["E"].me, world["D"].me, (), (attrs.evolve(old, view_id=relay.group.view.id),)))
    world.run(seconds(1))
    assert world["A"].relay.hold.messages == 0
