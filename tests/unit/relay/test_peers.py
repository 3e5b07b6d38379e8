"""Remote relays as a relay sees them: cursors, windows, and which of several is obeyed."""
from __future__ import annotations

from jgroups_py.model.address import Address
from jgroups_py.model.batch import Batch
from jgroups_py.model.units import millis, seconds
from jgroups_py.model.view import ViewId
from jgroups_py.protocols.relay.origin.hold import MESSAGE_BYTES, Hold
from jgroups_py.protocols.relay.outbound.peers import RelayPeer, RelayPeers
from jgroups_py.protocols.relay.sites.table import Grace, Site
from jgroups_py.windows.path import PathWindow
from tests.unit.relay.sites import Sites

ONE, TWO, X, Y = (Address(name.encode().ljust(16, b"\0"), name) for name in ("one", "two", "x", "y"))
SIZE = 100
WEIGHT = SIZE + MESSAGE_BYTES


def peer(address: Address = X, counter: int = 1, site: Site | None = None) -> RelayPeer:
    return RelayPeer(address, site or Site("SFO"), ViewId(counter, address), PathWindow(1, 1))


def hold(**numbers: int) -> Hold:
    """So many messages of each origin, one run each."""
    made = Hold()
    for name, count in numbers.items():
        origin = {"one": ONE, "two": TWO}[name]
        made.add(origin, 1, Batch(origin, None, tuple(bytes(SIZE) for _ in range(count))), 0)
    return made


def sent(to: RelayPeer, kept: Hold, window: int, now_ns: int = 0) -> list[tuple[str, int, int]]:
    to.window = PathWindow(window, window)
    return [(origin.name, held.first, held.stop) for origin, held in to.next_batches(kept, now_ns)]


def test_what_is_not_acknowledged_fills_the_window_and_an_acknowledgement_makes_room() -> None:
    to, kept = peer(), hold(one=10)
    assert sent(to, kept, 3 * WEIGHT, 5) == [("one", 1, 4)]
    assert (to.in_flight_bytes, to.progress_ns) == (3 * WEIGHT, 5)
    assert sent(to, kept, 3 * WEIGHT, 6) == []
    assert not to.acknowledge({ONE: 1}, 7)
    assert to.in_flight_bytes == 3 * WEIGHT
    assert to.acknowledge({ONE: 4}, 8)
    assert (to.in_flight_bytes, to.progress_ns, to.acked) == (0, 8, {ONE: 4})
    assert not to.acknowledge({ONE: 4}, 9)
    assert not to.acknowledge({ONE: 2}, 9)
    assert (to.progress_ns, to.acked) == (8, {ONE: 4})
    assert sent(to, kept, 3 * WEIGHT, 10) == [("one", 4, 7)]


def test_one_message_goes_however_small_the_window_and_batches_count_until_their_end_is_acknowledged() -> None:
    to, kept = peer(), hold(one=4, two=1)
    assert sent(to, kept, 1) == [("one", 1, 2)]
    assert sent(to, kept, 2 * WEIGHT) == [("one", 2, 3)]
    to.acknowledge({ONE: 2}, 1)
    assert to.in_flight_bytes == WEIGHT
    assert sent(to, kept, 10 * WEIGHT) == [("one", 3, 5), ("two", 1, 2)]
    to.acknowledge({ONE: 4}, 2)
    assert to.in_flight_bytes == 3 * WEIGHT, "the batch 3 to 5 does not count as in flight any more"


def test_going_back_sends_again_and_never_goes_forward() -> None:
    to, kept = peer(), hold(one=6)
    assert sent(to, kept, 10 * WEIGHT) == [("one", 1, 7)]
    to.go_back({ONE: 9}, 3)
    assert (to.next_number(ONE), to.in_flight_bytes) == (7, 6 * WEIGHT)
    to.go_back({ONE: 7}, 3)
    assert to.in_flight_bytes == 6 * WEIGHT
    to.go_back({ONE: 3}, 4)
    assert (to.next_number(ONE), to.in_flight_bytes, to.progress_ns) == (3, 0, 4)
    assert sent(to, kept, 10 * WEIGHT) == [("one", 3, 7)]


def test_nothing_that_a_site_given_up_had_under_way_fills_the_window_later() -> None:
    to, kept = peer(), hold(one=6)
    assert sent(to, kept, 3 * WEIGHT) == [("one", 1, 4)]
    to.abandon_in_flight()
    assert (to.in_flight_bytes, to.in_flight, to.deferred_numbers) == (0, {}, {})
    assert sent(to, kept, 3 * WEIGHT) == [("one", 4, 7)]


def test_sending_stops_at_the_mark_of_a_drain_and_at_the_first_number_that_is_not_on_disk() -> None:
    to, kept = peer(), hold(one=9)
    assert [to.limit(None, ONE), to.limit(5, ONE)] == [None, 5]
    to.site.draining = {ONE: 4}
    assert [to.limit(None, ONE), to.limit(3, ONE), to.limit(7, ONE), to.limit(None, TWO)] == [4, 3, 4, 1]
    assert sent(to, kept, 99 * WEIGHT) == [("one", 1, 4)]
    assert sent(to, kept, 99 * WEIGHT) == []
    to.site.draining = None
    assert [held.stop for _, held in to.next_batches(kept, 0, lambda origin: 6)] == [6]


def test_a_grace_keeps_what_was_acknowledged_from_being_passed_over() -> None:
    to = peer()
    to.site.acked = {ONE: 7}
    assert to.next_number(ONE) == 7
    to.site.graces.append(Grace(0, 9, {ONE: 2}))
    assert to.next_number(ONE) == 2
    to.cursor[ONE] = 5
    assert to.next_number(ONE) == 5


def test_of_two_relays_of_a_site_the_later_epoch_is_accepted_and_both_must_acknowledge() -> None:
    peers, site = RelayPeers(), Site("SFO")
    old, new = peer(X, 3, site), peer(Y, 4, site)
    assert not peers
    for one in (old, new):
        peers.add(one)
    peers.add(peer(ONE, 9, Site("LON")))
    assert peers.of("SFO") == [old, new]
    assert peers.accepted("SFO") is new
    assert peers.accepted("PAR") is None
    old.acked, new.acked = {ONE: 5, TWO: 2}, {ONE: 3}
    assert peers.acknowledged("SFO") == {ONE: 3, TWO: 1}
    assert peers.acknowledged("PAR") == {}
    site.epoch = ViewId(4, Y)
    assert peers.accepted("SFO") is new
    assert peers.remove(Y) is new
    assert peers.accepted("SFO") is None, "the site has a later epoch than the relay that is left"
    assert (peers.remove(Y), peers.get(X)) == (None, old)


def test_acknowledgements_keep_a_full_window_moving_without_waiting_for_a_timer() -> None:
    world = Sites(NYC="ABC", SFO="DEF").build(window_bytes="64K")
    for number in range(40):
        world["C"].multicast(str(number).ljust(10_000))
    world.run(seconds(0.7), millis(5))
    assert len(world["F"].got) == 40
