"""The ledger (rule 15): per destination site and origin, numbered = acknowledged + held + lost."""
from __future__ import annotations

from random import Random

import pytest

from jgroups_py.model.units import millis, seconds
from jgroups_py.protocols.relay.headers import SeenHeader
from jgroups_py.protocols.relay.sites.table import Book, Site
from tests.unit.relay.sites import Member, Sites, cut_off


@pytest.fixture
def world() -> Sites:
    return Sites(NYC="ABC", SFO="DEF").build()


def own(member: Member, site: str = "SFO") -> Book:
    return member.relay.reports.ledger()[site][member.me]


def test_the_ledger_accounts_for_each_message_of_the_origin_at_any_moment(world: Sites) -> None:
    c = world["C"]
    assert own(c) == Book(0, 0, 0, 0)
    world.lose = lambda src, batch: isinstance(batch.headers[-1], SeenHeader)
    c.multicast("c0", "c1", "c2")
    assert own(c) == Book(3, 0, 3, 0), "numbered, but not even multicast yet"
    world.run(seconds(1))
    assert own(c) == Book(3, 0, 3, 0)
    world.lose = lambda src, batch: False
    world.run(seconds(2))
    assert own(c) == Book(3, 3, 0, 0)
    cut_off(world, "D")
    c.multicast("c3", "c4")
    world.run(millis(500))
    c.order("offline", "SFO")
    world.run(millis(500))
    assert own(c) == Book(5, 3, 0, 2)


def test_the_relay_counts_what_its_site_delivered(world: Sites) -> None:
    world["C"].multicast("c0", "c1")
    world["B"].multicast("b0")
    world.run(seconds(1))
    for name in "ABC":
        ledger = world[name].relay.reports.ledger()["SFO"]
        assert ledger[world["C"].me] == Book(2, 2, 0, 0)
        assert ledger[world["B"].me] == Book(1, 1, 0, 0)


def test_the_sums_are_plain_numbers_in_the_figures(world: Sites) -> None:
    world["C"].multicast("c0", "c1")
    world.run(seconds(1))
    stats = world["A"].relay.stats()
    assert [stats[f"{figure}_SFO"] for figure in ("status", "numbered", "acknowledged", "held", "lost")] == [
        0, 2, 2, 0, 0]


def test_a_site_that_is_new_later_is_owed_nothing_from_before() -> None:
    site = Site("SFO")
    origin = Sites(NYC="A").build()["A"].me
    site.begin({origin: 11})
    assert site.book(origin, 11) == Book(0, 0, 0, 0)
    assert site.book(origin, 15) == Book(4, 0, 4, 0)
    assert site.lose({origin: 13}) == 2
    assert site.book(origin, 15) == Book(4, 0, 2, 2)


def test_what_two_halves_settled_adds_up_after_the_merge() -> None:
    origin = Sites(NYC="A").build()["A"].me
    one, other = Site("SFO"), Site("SFO")
    one.acknowledge({origin: 6})
    other.acknowledge({origin: 3})
    other.lose({origin: 9})
    one.combine(other.row())
    assert one.book(origin, 12) == Book(11, 2, 3, 6)
    assert [tuple(ranges) for ranges in one.unreported.values()] == [((3, 9),)]
    one.combine(other.row())
    assert one.book(origin, 12) == Book(11, 2, 3, 6)


@pytest.mark.parametrize("seed", range(5))
def test_it_adds_up_at_every_moment_whatever_happens(seed: int) -> None:
    rng = Random(seed)
    world = Sites(NYC="ABC", SFO="DE", LON="XY").build(hold_age_ns="20s", split_grace_ns="1s")
    lossy = {"ratio": 0.0}
    world.lose = lambda src, batch: rng.random() < lossy["ratio"]
    for _ in range(60):
        name = rng.choice("ABC")
        world[name].multicast(*["m"] * rng.randint(1, 5))
        match rng.randrange(6):
            case 0:
                lossy["ratio"] = rng.choice((0.0, 0.0, 0.5, 1.0))
            case 1:
                world[name].order(rng.choice(("offline", "online")), rng.choice(("SFO", "LON")))
            case 2:
                world.run(seconds(2), millis(50))
        world.run(millis(rng.choice((5, 50, 300))))
        for member in "ABC":
            check(world[member])
    lossy["ratio"] = 0.0
    for site in ("SFO", "LON"):
        world["A"].order("online", site)
    world.run(seconds(30), millis(100))
    for member in "ABC":
        for site in ("SFO", "LON"):
            assert own(world[member], site).held == 0


def check(member: Member) -> None:
    """The sums, and that what counts as held is held."""
    relay = member.relay
    for name, books in relay.reports.ledger().items():
        for book in books.values():
            assert book.numbered == book.acknowledged + book.held + book.lost
            assert min(book.numbered, book.acknowledged, book.held, book.lost) >= 0
        settled = relay.table.sites[name].acked.get(member.me, 1)
        kept = sum(max(0, stop - max(first, settled)) for first, stop in relay.hold.ranges(member.me))
        assert own(member, name).held == kept + relay.numbering.next_number - relay.numbering.numbers.get(member.me, 1)
