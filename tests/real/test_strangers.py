"""What strangers can do to real members without any key: nothing that lasts, costs a message, or fills memory."""
from time import monotonic, sleep

import pytest

from jgroups_py.protocols.fd_sock import Suspected
from jgroups_py.protocols.frag import Fragment
from jgroups_py.protocols.gms.headers import Cut, Install, JoinMe, LeaveMe, Prepare
from jgroups_py.protocols.nakack.headers import Data as Multicast
from jgroups_py.protocols.unicast import Data as Unicast
from jgroups_py.view import View, ViewId
from tests.real.members import Group
from tests.real.outsider import NOBODY, Stranger, invented

pytestmark = [pytest.mark.real, pytest.mark.slow, pytest.mark.timeout(120)]

HIGHEST = (1 << 62) - 1


@pytest.fixture
def group():
    with Group("udp") as members:
        members.start("A B C")
        yield members


@pytest.fixture
def stranger(group):
    with Stranger(group.cluster, group.properties["mcast_port"]) as somebody:
        somebody.look_around("ABC")
        yield somebody


def still_together(group):
    """All three have the view of all, and what one says all hear."""
    for name in "ABC":
        assert sorted(group[name].last_view()) == ["A", "B", "C"], group.told()
    group["B"].tell("send still here")
    for name in "ABC":
        group[name].wait(lambda event: event["event"] == "message" and event["payload"] == "still here", "message")


def rss_mb(group, name):
    """What a member takes now."""
    return group[name].stats()["rss_mb"]


def test_a_strangers_view_is_not_installed_and_its_ballots_stop_nobody(group, stranger):
    a, b, c = (stranger.members[name] for name in "ABC")
    group["A"].tell("flood 20000 1000")
    for round_ in range(1, 400):
        for name in "ABC":
            flush = stranger.flush(NOBODY, round_)
            stranger.send(Prepare(flush, (a, b, c), ()), to=name)
            stranger.send(Cut(flush, (a, b, c), (), HIGHEST if round_ % 2 else 9, {a: 1, b: 1, c: 1}, {}), to=name)
            view = View(ViewId(1 << 50, NOBODY), (NOBODY, stranger.members[name]))
            stranger.send(Install(view, (flush,), (), {}, {}), to=name)
        sleep(0.005)
    for name in "ABC":
        group[name].received_all({"A": 20_000}, timeout=20)
    still_together(group)


@pytest.mark.parametrize("round_", [1 << 33, HIGHEST, (1 << 64) - 1])
def test_a_members_ballot_with_an_absurd_number_ends_nobody(group, stranger, round_):
    a, b, c = (stranger.members[name] for name in "ABC")
    for name in "AB":
        stranger.send(Prepare(stranger.flush(c, round_), (a, b, c), ()), to=name, src=c)
        flush = stranger.flush(c, 1)
        stranger.send(Prepare(flush, (a, b, c), ()), to=name, src=c)
        stranger.send(Cut(flush, (a, b, c), (), round_, {a: 1, b: 1, c: 1}, {}), to=name, src=c)
    since = {name: group[name].mark() for name in "AB"}
    group["C"].kill()
    for name in "AB":
        group[name].view_of("AB", since[name])
    assert [group[name].leave() for name in "AB"] == [0, 0]


def test_a_false_suspicion_excludes_nobody(group, stranger):
    since = group["A"].mark()
    for _ in range(3):
        stranger.send(Suspected((stranger.members["C"],), True), src=stranger.members["B"])
        sleep(1)
    assert not [event for event in group["A"].events[since:] if event["event"] == "view"]
    still_together(group)


def test_a_leave_in_the_name_of_another_does_not_end_it(group, stranger):
    since = group["C"].mark()
    stranger.send(LeaveMe(stranger.view_id), to="A", src=stranger.members["C"])
    group["C"].view_of("C", since)
    group["C"].view_of("ABC", since)
    group["A"].view_of("ABC", since)
    sleep(0.2)
    still_together(group)


def test_joiners_that_do_not_exist_do_not_stop_the_group(group, stranger):
    numbers = iter(range(100_000))

    def crowd(seconds):
        until = monotonic() + seconds
        while monotonic() < until:
            joiner = invented(next(numbers))
            stranger.send(JoinMe(joiner, ("127.0.0.1", 9), 0), to="A", src=joiner)
            sleep(0.004)

    crowd(2)
    group["B"].tell("flood 20000 1000")
    group.spawn("D")
    until = monotonic() + 20
    while sorted(group["D"].last_view()) != ["A", "B", "C", "D"] or any(
            group[name].stats()["received"].get("B", {}).get("next", 0) < 20_000 for name in "ABC"):
        crowd(0.5)                                            # they do not pause until everything is there
        assert monotonic() < until, group.told()
    group.settle("ABCD")


def test_large_messages_that_strangers_only_announce_cost_a_member_nothing(group, stranger):
    for number in range(5):
        stranger.send(Fragment(1, 0, 5000, 256 << 20, 0), Unicast(1, 1, 1), to="B", src=invented(number),
                      payloads=(b"x",), flags=0)
        stranger.send(Fragment(1, 0, 5000, 256 << 20, 0), to="B", src=invented(number), payloads=(b"x",), flags=16)
    group["A"].tell("flood 20 200000")
    for name in "ABC":
        group[name].received_all({"A": 20}, timeout=20)


def test_junk_ahead_of_what_is_wanted_does_not_fill_memory(group, stranger):
    before = {name: rss_mb(group, name) for name in "ABC"}
    for number in range(3000):
        stranger.send(Multicast(stranger.view_id.raw, 1000 + 2 * number), src=stranger.members["A"],
                      payloads=(bytes(60_000),), flags=0)
        sleep(0.001)
    grown = {name: rss_mb(group, name) - before[name] for name in "ABC"}
    assert max(grown.values()) < 20, grown


def test_a_crowd_of_strangers_does_not_fill_memory(group, stranger):
    before = rss_mb(group, "B")
    for number in range(15_000):
        stranger.send(Unicast(1, 1, 1), to="B", src=invented(number), payloads=(b"x",), flags=0)
        if number % 5 == 0:
            sleep(0.001)
    grown = rss_mb(group, "B") - before
    assert grown < 20, grown
