"""Sites that become known late, founders that merge, claims in the wrong order, and claims of the wrong members."""
from __future__ import annotations

import pytest

from jgroups_py.model.address import Address
from jgroups_py.model.batch import Batch
from jgroups_py.model.events import BridgeDelivered, GetState
from jgroups_py.model.outputs import MessagesLost
from jgroups_py.model.units import millis, seconds
from jgroups_py.model.view import ViewId
from jgroups_py.protocols.relay.headers import (
    BaseHeader,
    Confirm,
    Copy,
    Disseminate,
    FetchHeader,
    Forward,
    HelloHeader,
    NeedHeader,
    Order,
    SiteRow,
)
from jgroups_py.protocols.relay.headers import ViewHeader as SiteView
from jgroups_py.protocols.relay.inbound.vectors import copied
from jgroups_py.protocols.relay.part import RELIABLE
from jgroups_py.protocols.relay.sites.table import UP, Site, SiteTable
from tests.unit.relay.sites import Member, Sites, lost, numbered, statuses
from tests.unit.relay.sites import Site as Group


def sites(options: dict[str, object] | None = None, **plan: str) -> Sites:
    return Sites(**plan).build(**(options or {}))


def founder(world: Sites, site: str, name: str) -> Member:
    """A newcomer that has not found its group and founds one of its own."""
    group = world.sites[site]
    member = group.members[name] = Member(group, name)
    group.install([name])
    world.run(millis(100))
    return member


# --- what a relay by merge knows of the others' numbers (A1) ----------------------------------------------------------

def test_a_founder_that_leads_the_merged_group_forwards_what_the_others_multicast() -> None:
    world = sites(NYC="BC")
    world["B"].multicast("b0", "b1")
    world["C"].multicast("c0")
    world.run(seconds(1))
    founder(world, "NYC", "X")
    world.sites["NYC"].install(["X", "B", "C"])
    world.run(seconds(1))
    world.sites["SFO"] = Group(world, "SFO", "DE", {})
    world.run(seconds(1))
    for name in "BCX":
        world[name].multicast(f"{name} to all")
    world.run(seconds(1))
    assert sorted(payload.decode() for _, payload in world["E"].got) == ["B to all", "C to all", "X to all"]
    assert lost(world["B"]) == lost(world["E"]) == []
    assert world["X"].relay.reports.ledger()["SFO"][world["B"].me].numbered == 1, "earlier messages count as owed"


def test_have_reports_how_far_the_own_sites_origins_were_when_the_view_began() -> None:
    world = sites(NYC="BC")
    world["B"].multicast("b0", "b1")
    world.run(seconds(1))
    founder(world, "NYC", "X")
    nyc = world.sites["NYC"]
    nyc.install(["X", "B", "C"])
    world["B"].multicast("b2")                                   # before X has the answers
    world.run(millis(100))
    relay = world["X"].relay
    assert relay.numbering.ends == {world["B"].me: 3}
    assert relay.numbering.numbers[world["B"].me] == 4
    assert relay.numbering.current_numbers()[world["B"].me] == 4
    relay.numbering.raise_ends({world["X"].me: 99, world["B"].me: 1 << 40, world["C"].me: 1 << 40})
    ends = relay.numbering.ends
    assert ends == {world["B"].me: 3, world["C"].me: 1 << 40}, "an implausible number of an own origin was taken"
    assert relay.stats()["implausible_dropped"] == 1


def test_a_hole_of_a_present_origin_is_declared_lost_at_both_sites_and_what_follows_arrives() -> None:
    world = sites({"lost_after_ns": seconds(5), "split_grace_ns": seconds(1)}, NYC="ABC", SFO="DE")
    world.run(seconds(1))
    world.lose = lambda src, batch: True
    world["C"].multicast(*numbered(0, 5))
    world.run(millis(200))
    for member in world.sites["NYC"].members.values():     # whatever the reason: all copies of two of them are gone
        hold, me = member.relay.hold, world["C"].me
        batches = [held for first, stop in ((1, 2), (4, 6)) for held in list(hold.pieces(me, first, stop))]
        if me in hold.batches:
            hold.batches[me] = batches
    world.lose = lambda src, batch: False
    world.run(seconds(4))
    assert world["E"].texts("c") == ["c0"]
    assert lost(world["A"]) == lost(world["E"]) == []
    world.run(seconds(4))
    assert world["E"].texts("c") == ["c0", "c3", "c4"]
    assert lost(world["A"]) == lost(world["C"]) == [("SFO", 2, 4)]
    assert lost(world["E"]) == [(None, 2, 4)]
    book = world["C"].relay.reports.ledger()["SFO"][world["C"].me]
    assert (book.numbered, book.acknowledged, book.held, book.lost) == (5, 3, 0, 2)


def test_a_hole_waits_its_full_time_though_another_one_was_there_before() -> None:
    world = sites({"lost_after_ns": seconds(5)}, NYC="ABC", SFO="DE")
    trimmer, me = world["A"].relay.trimmer, world["C"].me
    world["A"].relay.numbering.ends[me] = 5
    world.run(seconds(4))
    assert trimmer.holes["SFO", me][0] == 1
    world["A"].relay.table.sites["SFO"].acked[me] = 3      # it got 1 and 2 after all
    world.run(seconds(4))
    assert trimmer.holes["SFO", me][0] == 3
    assert lost(world["C"]) == []
    world.run(seconds(3))
    assert lost(world["C"]) == [("SFO", 3, 5)]


# --- what of other sites' messages is meant for whom (A6, A8) ---------------------------------------------------------

def test_no_losses_from_before_its_start_are_reported_to_a_founder_that_merges() -> None:
    world = sites(NYC="BC", SFO="DE")
    world["D"].multicast("d0", "d1", "d2")
    world.run(seconds(1))
    world.without_bridge = "X"                              # it meets no other site before it merges
    founder(world, "NYC", "X")
    world.sites["NYC"].install(["B", "C", "X"])
    world.run(seconds(1))
    world["D"].multicast("d3")
    world.run(seconds(1))
    assert (world["X"].texts("d"), lost(world["X"])) == (["d3"], [])


def test_losses_before_a_merge_are_reported_to_a_member_for_which_the_site_was_meant() -> None:
    world = sites({"split_grace_ns": seconds(1)}, NYC="BCX", SFO="DE")
    world.without_bridge = "X"
    nyc = world.sites["NYC"]
    nyc.install(["B", "C"])
    nyc.install(["X"])
    world["D"].multicast("d0", "d1", "d2")
    world.run(seconds(3))
    nyc.install(["B", "C", "X"])
    world["D"].multicast("d3")
    world.run(seconds(3))
    assert (world["X"].texts("d"), lost(world["X"])) == (["d3"], [(None, 1, 4)])


def test_what_a_third_member_has_is_wanted_too_where_neither_relay_nor_member_have_anything_of_it() -> None:
    """SFO's messages were meant for A, which has none, not for C, the relay; B has all. A gets them or the loss."""
    world = sites({"split_grace_ns": seconds(3)}, SFO="DE")
    world.sites["NYC"] = Group(world, "NYC", "A", {"split_grace_ns": seconds(3)})
    world.run(millis(200))
    world.lose = lambda src, batch: True                   # A has met SFO, and gets nothing from it
    world["D"].multicast("d0")
    world.run(millis(200))
    nyc = world.sites["NYC"]
    world.leave_bridge(world["A"], "cut off")
    world["A"].relay.bridge_link.wanted = False
    world.lose = lambda src, batch: False
    founder(world, "NYC", "B")
    world.run(millis(500))
    assert world["B"].texts("d") == ["d0"]
    world.without_bridge = "C"
    founder(world, "NYC", "C")
    world.leave_bridge(world["B"], "cut off")
    world["B"].relay.bridge_link.wanted = False
    world.without_bridge = ""
    nyc.install(["C", "A", "B"])
    assert world["A"].me in world["C"].relay.acknowledger.confirmers
    world.join_bridge(world["C"])
    world.run(seconds(5))
    assert world["A"].texts("d") == ["d0"] or lost(world["A"]) == [(None, 1, 2)]
    world["D"].multicast("d1")
    world.run(seconds(1))
    assert all(world[name].texts("d")[-1] == "d1" for name in "ABC")
    assert world["D"].relay.hold.messages == 0, "D cannot trim, since A did not confirm"


@pytest.mark.parametrize("asked", [True, False])
def test_a_base_that_was_refused_in_one_epoch_is_sent_again_before_the_first_forward_of_the_next(asked: bool) -> None:
    world = sites({"split_grace_ns": seconds(1)}, NYC="AB", SFO="DE")
    nyc, sfo = world.sites["NYC"], world.sites["SFO"]
    world.without_bridge = "BE"                             # E's half has the higher epoch, but no bridge yet
    for group, name in ((nyc, "A"), (nyc, "B"), (sfo, "D"), (sfo, "E")):
        group.install([name])
    world["D"].multicast("d0")
    world.run(seconds(3))                                   # A has it, and the grace for B's half is over
    a, b, d, e = (world[name] for name in "ABDE")

    def unheard(src: Address | None, batch: Batch) -> bool:
        return src == a.bridge and batch.dest == e.bridge   # so E knows nothing of d0
    world.lose = unheard
    world.without_bridge = ""
    world.join_bridge(e)
    world.run(millis(100))
    world.lose = lambda src, batch: src == d.bridge or unheard(src, batch)
    world.join_bridge(b)
    world.run(millis(500))                                  # B obeys E
    world.lose = unheard
    world.run(millis(500))                                  # and refuses what D says
    assert (lost(b), b.relay.peers.get(d.bridge) is not None) == ([], True)
    sfo.members["F"] = Member(sfo, "F")
    sfo.install(["D", "F"])                                 # now D's half has it
    if asked:
        d.notify(BridgeDelivered(Batch(b.bridge, d.bridge, (), (NeedHeader({d.me: 1}),), 0)))
    d.multicast("d1")                                             # goes out before F has answered SYNC, so before HELLO
    world.run(seconds(1))
    assert (b.texts("d"), lost(b)) == (["d1"], [(None, 1, 2)])


def test_a_base_counts_in_the_epoch_that_it_carries() -> None:
    world = sites(NYC="AB", SFO="DE")
    world["D"].multicast("d0")
    world.run(millis(200))
    d, relay = world["D"], world["A"].relay
    relay.table.sites["SFO"].epoch = ViewId(50, d.me)

    def says(counter: int, number: int) -> None:
        base = BaseHeader("SFO", ViewId(counter, d.me), {d.me: number}, {})
        world["A"].notify(BridgeDelivered(Batch(d.bridge, world["A"].bridge, (), (base,), 0)))
        world.run(millis(20))
    says(49, 9)
    assert lost(world["B"]) == [], "a lower epoch is refused"
    says(99, 5)
    assert lost(world["B"]) == [(None, 2, 5)]


# --- epochs of members (A5), what halves know of each other -----------------------------------------------------------

def addresses(world: Sites) -> tuple[Address, ...]:
    return tuple(world[name].me for name in "ABC")


def test_members_follow_the_epoch_of_their_view_and_not_the_highest_one_received() -> None:
    a, b, c = addresses(sites(NYC="ABC"))
    site = Site("SFO")
    site.see(ViewId(4, a), (a, b))
    assert site.accepts(ViewId(6, a)), "a FORWARD of a new epoch comes before its VIEW"
    assert (site.row().epoch, site.row().members) == (ViewId(4, a), (a, b))
    table = SiteTable()
    table.sites["SFO"] = Site("SFO")
    table.sites["SFO"].see(ViewId(5, a), (a, b, c))
    table.follow((site.row(),), {})
    assert table.sites["SFO"].members == (a, b, c), "a row with older members and a high epoch goes not back"
    assert not site.accepts(ViewId(5, a))
    site.see(ViewId(6, a), (a,))
    table.combine((site.row(),), {}, {})
    assert (table.sites["SFO"].members, table.sites["SFO"].epoch) == ((a,), ViewId(6, a))


def test_a_site_is_owed_from_the_lowest_number_in_the_tables_of_all_halves() -> None:
    a, b, _ = addresses(sites(NYC="ABC"))
    site = Site("SFO")
    site.begin({a: 10})
    site.combine(SiteRow("SFO", UP, None, (), {a: 12, b: 7}, {a: 6, b: 7}))
    assert site.owed == {a: 6, b: 7}, "of a it was owed from 6 on; of b nothing below 7"
    assert site.acked == {a: 12, b: 7}
    site.combine(SiteRow("SFO", UP, None, (), {a: 12, b: 9}, {a: 8}))
    assert site.owed == {a: 6}, "and b from the first on, as a half knows that owes all"
    assert (site.book(a, 12).numbered, site.book(b, 9).numbered) == (6, 8)


def test_a_hello_is_preceded_by_the_view() -> None:
    """If members vanished, the grace begins before what the rest has acknowledged counts."""
    world = sites(NYC="AB", SFO="DEF")
    world["A"].multicast("a0", "a1")
    world.run(seconds(1))
    seen: list[str] = []
    original = world["D"].relay.bridge_link.send_to

    def spy(to: Address, header: object, *rest: object) -> None:
        if isinstance(header, (HelloHeader, SiteView)):
            seen.append(type(header).__name__)
        original(to, header, *rest)                        # type: ignore[arg-type]
    world["D"].relay.bridge_link.send_to = spy                       # type: ignore[method-assign,assignment]
    world["A"].multicast("a2")
    world.sites["SFO"].install(["D", "E"])
    world.run(millis(50))
    assert seen[:2] == ["ViewHeader", "HelloHeader"]
    site = world["A"].relay.table.sites["SFO"]
    assert site.graces
    assert site.graces[0].kept[world["A"].me] <= 3


def test_a_confirmation_of_another_view_does_not_count() -> None:
    world = sites(NYC="AB", SFO="DE")
    world["A"].multicast("a0")
    world.run(millis(200))
    d, e = world["D"], world["E"]
    relay = d.relay
    before = copied(relay.acknowledger.confirmed[e.me])
    stale = Confirm(ViewId(99, d.me), {"NYC": {world["A"].me: 50}})
    d.receive(Batch(e.me, d.me, (), (stale,), 0))
    assert relay.acknowledger.confirmed[e.me] == before
    assert relay.acknowledger.ackable("NYC", world["A"].me) == 2
    fresh = Confirm(relay.group.view.id, {"NYC": {world["A"].me: 50}})
    d.receive(Batch(e.me, d.me, (), (fresh,), 0))
    assert relay.acknowledger.confirmed[e.me]["NYC"][world["A"].me] == 50


# --- claims of the wrong members ------------------------------------------------------------------------------------

def test_orders_copies_and_requests_of_non_members_are_counted_and_dropped() -> None:
    world = sites(NYC="AB", SFO="DE")
    world.lose = lambda src, batch: True
    world["B"].multicast("b0")
    world.run(millis(100))
    a = world["A"]
    stranger, held = world["D"].me, a.relay.hold.messages
    order = Order(1, "offline", "SFO", 0, 0)
    sent = len(world.sites["NYC"].sent)
    for header in (order, FetchHeader({world["B"].me: ((1, 2),)}), Copy(stranger, 1, 0, 0),
                   Confirm(a.relay.group.view.id, {"SFO": {stranger: 9}})):
        a.receive(Batch(stranger, a.me, (b"x",), (header,), 0))
    assert a.relay.stats()["non_member_dropped"] == 4
    assert (statuses(a), a.relay.hold.messages, len(world.sites["NYC"].sent)) == (["UP"], held, sent)
    assert stranger not in a.relay.acknowledger.confirmed
    a.receive(Batch(world["B"].me, a.me, (), (order,), 0))
    world.run(millis(100))
    assert statuses(a) == ["UP", "OFFLINE"], "an order of a member was refused"


@pytest.mark.parametrize("far", [(1 << 32) + 4, 1 << 40, (1 << 62) - 1])
def test_a_disseminate_or_base_with_an_implausible_number_is_dropped(far: int) -> None:
    world = sites(NYC="AB", SFO="DE")
    world["B"].multicast("b0", "b1")
    world.run(millis(200))
    d, e, b = world["D"], world["E"], world["B"]
    forged = Disseminate("NYC", b.me, far, far, 0)
    e.receive(Batch(d.me, None, (b"forged",), (forged,), 0))
    e.receive(Batch(d.me, None, (), (BaseHeader("NYC", world["A"].relay.group.view.id, {b.me: far}, {}),), 0))
    assert (e.relay.stats()["implausible_dropped"], lost(e)) == (2, [])
    b.multicast("b2")
    world.run(millis(200))
    assert e.texts("b") == ["b0", "b1", "b2"]


def test_a_relay_takes_no_forward_and_no_base_from_far_above() -> None:
    world = sites(NYC="AB", SFO="DE")
    world["B"].multicast("b0")
    world.run(millis(200))
    a, d, b = world["A"], world["D"], world["B"]
    epoch = a.relay.group.view.id
    for header in (Forward("NYC", epoch, b.me, 1 << 40, 1 << 40, 0), BaseHeader("NYC", epoch, {b.me: 1 << 40}, {})):
        d.notify(BridgeDelivered(Batch(a.bridge, d.bridge, (b"x",), (header,), 0)))
    world.run(millis(200))
    assert d.relay.stats()["implausible_dropped"] > 0
    b.multicast("b1")
    world.run(millis(200))
    assert (world["E"].texts("b"), lost(world["E"])) == (["b0", "b1"], [])


# --- states of other sites --------------------------------------------------------------------------------------------

@pytest.mark.parametrize("merges", [False, True])
@pytest.mark.parametrize("speaks", [False, True])
def test_a_joiner_gets_a_state_though_others_multicast_before_it_joined(merges: bool, speaks: bool) -> None:
    world = sites(NYC="BC", SFO="DE")
    nyc = world.sites["NYC"]
    world["B"].multicast("b0", "b1")
    world["D"].multicast("d0")
    world.run(seconds(1))
    if merges:
        founder(world, "NYC", "X")
        nyc.install(["X", "B", "C"])
    else:
        nyc.add("X")
    world.run(seconds(1))
    if speaks:
        world["C"].multicast("c0")
    x = world["X"]
    x.stack.inject(GetState(world["D"].me, seconds(5)), world.now_ns)
    x.drain()
    world.run(seconds(3), millis(50))
    assert x.state_ends == [""]
    wanted = sorted([b"b0", b"b1", b"d0", *([b"c0"] if speaks else [])])
    assert [sorted(member.log) for member in nyc.members.values()] == [wanted] * 3


def test_what_a_site_that_starts_again_multicast_before_it_met_the_others_arrives() -> None:
    """The other site knows it, and so has a place for it: nothing is declared lost."""
    world = Sites(NYC="AB", SFO="C").build(split_grace_ns="20s")
    world["A"].multicast("a0")
    world.run(seconds(1))
    world.without_bridge = "AB"                             # the bridge is slow to come
    world.sites["NYC"].restart()
    world["A"].multicast("a1", "a2")
    world.run(seconds(5))
    assert world["A"].relay.hold.messages == 2, "nothing says yet that no other site is owed them"
    world.without_bridge = ""
    world.join_bridge(world["A"])
    world.run(seconds(2))
    assert world["C"].texts("a") == ["a0", "a1", "a2"]
    assert not [one for name in "ABC" for one in world[name].reported if isinstance(one, MessagesLost)]


@pytest.mark.parametrize(("options", "seconds_held"), [({"split_grace_ns": "20s"}, 20), ({"hold_bytes": "1M"}, 0)])
def test_a_site_that_knows_no_other_holds_for_split_grace_and_hold_bytes_at_most(
    options: dict[str, str], seconds_held: int,
) -> None:
    world = Sites(NYC="AB").build(**options)
    world["A"].multicast(*["x" * 1000] * 1200 if "hold_bytes" in options else ["a0"])
    if seconds_held:
        world.run(seconds(seconds_held - 3))
        assert world["A"].relay.hold.messages == 1
    world.run(seconds(4))
    assert world["A"].relay.hold.messages == world["B"].relay.hold.messages == 0


def test_a_new_site_is_not_sent_what_was_multicast_before_it_was_there() -> None:
    world = Sites(NYC="A", SFO="C")
    world.without_bridge = "C"
    world.build()
    world["A"].multicast("a0")
    world.run(seconds(1))
    world.without_bridge = ""
    world.join_bridge(world["C"])
    world.run(seconds(3))
    assert world["C"].texts("a") == [], "it begins at the current numbers"
    world["A"].multicast("a1")
    world.run(seconds(1))
    assert world["C"].texts("a") == ["a1"]
    assert world["A"].relay.hold.messages == 0
    assert not [one for name in "AC" for one in world[name].reported if isinstance(one, MessagesLost)]


def test_what_a_site_begins_behind_is_acknowledged_when_a_later_life_of_the_other_site_sends_it() -> None:
    world = sites(NYC="AB", SFO="DE")
    relay, gone = world["D"].relay, Address(b"Z" * 16, "Z")             # sent 16 messages before SFO was known
    world.run(millis(100))
    relay.disseminator.send(BaseHeader("NYC", world["A"].relay.group.view.id, {gone: 17}, {gone: 17}), None,
                            flags=RELIABLE)
    world.run(seconds(1))
    assert relay.acknowledger.ackable("NYC", gone) == 17, "E begins there too, and has confirmed it"
