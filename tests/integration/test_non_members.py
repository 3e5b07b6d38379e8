"""Frames of a non-member do no lasting harm: no member is excluded, no message lost, memory stays bounded."""
from time import monotonic, sleep

import pytest

from jgroups_py.model.view import View, ViewId
from jgroups_py.protocols.fd_sock.protocol import SuspicionHeader
from jgroups_py.protocols.frag import Fragment
from jgroups_py.protocols.gms.headers import CutHeader, InstallHeader, JoinRequest, LeaveRequest, Prepare
from jgroups_py.protocols.nakack.headers import MulticastData as Multicast
from jgroups_py.protocols.unicast import UnicastData as Unicast
from tests.integration.members import Group
from tests.integration.non_member import NON_MEMBER, NonMember, invented

pytestmark = [pytest.mark.real, pytest.mark.slow, pytest.mark.timeout(120)]

HIGHEST = (1 << 62) - 1


@pytest.fixture
def group():
    with Group("udp") as members:
        members.start("A B C")
        yield members


@pytest.fixture
def non_member(group):
    with NonMember(group.cluster, group.properties["mcast_port"]) as opened:
        opened.look_around("ABC")
        yield opened


def still_together(group):
    """All three have the view of all, and receive one more message."""
    for name in "ABC":
        assert sorted(group[name].last_view()) == ["A", "B", "C"], group.report()
    group["B"].command("send still here")
    for name in "ABC":
        group[name].wait(lambda event: event["event"] == "message" and event["payload"] == "still here", "message")


def rss_mb(group, name):
    """The memory of a member now."""
    return group[name].stats()["rss_mb"]


def test_a_view_of_a_non_member_is_not_installed_and_its_ballots_stop_no_member(group, non_member):
    a, b, c = (non_member.members[name] for name in "ABC")
    group["A"].command("flood 20000 1000")
    for round_ in range(1, 400):
        for name in "ABC":
            flush = non_member.flush(NON_MEMBER, round_)
            non_member.send(Prepare(flush, (a, b, c), ()), to=name)
            counter = HIGHEST if round_ % 2 else 9
            non_member.send(CutHeader(flush, (a, b, c), (), counter, {a: 1, b: 1, c: 1}, {}), to=name)
            view = View(ViewId(1 << 50, NON_MEMBER), (NON_MEMBER, non_member.members[name]))
            non_member.send(InstallHeader(view, (flush,), (), {}, {}), to=name)
        sleep(0.005)
    for name in "ABC":
        group[name].received_all({"A": 20_000}, timeout=20)
    still_together(group)


@pytest.mark.parametrize("round_", [1 << 33, HIGHEST, (1 << 64) - 1])
def test_a_members_ballot_with_an_absurd_number_ends_no_member(group, non_member, round_):
    a, b, c = (non_member.members[name] for name in "ABC")
    for name in "AB":
        non_member.send(Prepare(non_member.flush(c, round_), (a, b, c), ()), to=name, src=c)
        flush = non_member.flush(c, 1)
        non_member.send(Prepare(flush, (a, b, c), ()), to=name, src=c)
        non_member.send(CutHeader(flush, (a, b, c), (), round_, {a: 1, b: 1, c: 1}, {}), to=name, src=c)
    since = {name: group[name].mark() for name in "AB"}
    group["C"].kill()
    for name in "AB":
        group[name].view_of("AB", since[name])
    assert [group[name].leave() for name in "AB"] == [0, 0]


def test_a_false_suspicion_excludes_no_member(group, non_member):
    since = group["A"].mark()
    for _ in range(3):
        non_member.send(SuspicionHeader((non_member.members["C"],), True), src=non_member.members["B"])
        sleep(1)
    assert not [event for event in group["A"].events[since:] if event["event"] == "view"]
    still_together(group)


def test_a_leave_in_the_name_of_another_does_not_end_it(group, non_member):
    since = group["C"].mark()
    non_member.send(LeaveRequest(non_member.view_id), to="A", src=non_member.members["C"])
    group["C"].view_of("C", since)
    group["C"].view_of("ABC", since)
    group["A"].view_of("ABC", since)
    sleep(0.2)
    still_together(group)


def test_joiners_that_do_not_exist_do_not_stop_the_group(group, non_member):
    numbers = iter(range(100_000))

    def crowd(seconds):
        until = monotonic() + seconds
        while monotonic() < until:
            joiner = invented(next(numbers))
            non_member.send(JoinRequest(joiner, ("127.0.0.1", 9), 0), to="A", src=joiner)
            sleep(0.004)

    crowd(2)
    group["B"].command("flood 20000 1000")
    group.spawn("D")
    until = monotonic() + 20
    while sorted(group["D"].last_view()) != ["A", "B", "C", "D"] or any(
            group[name].stats()["received"].get("B", {}).get("next", 0) < 20_000 for name in "ABC"):
        crowd(0.5)                                            # joins go on until all messages are there
        assert monotonic() < until, group.report()
    group.settle("ABCD")


def test_large_messages_that_non_members_only_announce_reserve_no_memory(group, non_member):
    for number in range(5):
        non_member.send(Fragment(1, 0, 5000, 256 << 20, 0), Unicast(1, 1, 1), to="B", src=invented(number),
                      payloads=(b"x",), flags=0)
        non_member.send(Fragment(1, 0, 5000, 256 << 20, 0), to="B", src=invented(number), payloads=(b"x",), flags=16)
    group["A"].command("flood 20 200000")
    for name in "ABC":
        group[name].received_all({"A": 20}, timeout=20)


def test_junk_ahead_of_what_is_wanted_does_not_fill_memory(group, non_member):
    before = {name: rss_mb(group, name) for name in "ABC"}
    for number in range(3000):
        non_member.send(Multicast(non_member.view_id.raw, 1000 + 2 * number), src=non_member.members["A"],
                      payloads=(bytes(60_000),), flags=0)
        sleep(0.001)
    grown = {name: rss_mb(group, name) - before[name] for name in "ABC"}
    assert max(grown.values()) < 20, grown


def test_many_non_members_do_not_fill_memory(group, non_member):
    before = rss_mb(group, "B")
    for number in range(15_000):
        non_member.send(Unicast(1, 1, 1), to="B", src=invented(number), payloads=(b"x",), flags=0)
        if number % 5 == 0:
            sleep(0.001)
    grown = rss_mb(group, "B") - before
    assert grown < 20, grown
