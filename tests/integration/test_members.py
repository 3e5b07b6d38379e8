"""Real processes on real sockets: one group on the loopback interface."""
from __future__ import annotations

import signal
from time import monotonic, sleep

import pytest

from tests.integration.members import LEAVING_SECONDS, Group

pytestmark = [pytest.mark.real, pytest.mark.slow]
STACKS = ("udp", "tcp")
MESSAGES = 20_000


@pytest.mark.parametrize("stack", STACKS)
def test_three_members_receive_each_others_messages_in_order(stack):
    with Group(stack) as group:
        members = group.start("A B C")
        members[0].command("send hello, all")
        members[1].command("sendto C hello, C")
        for member in members:
            event = member.wait(lambda event: event["event"] == "message" and not event["unicast"], "multicast")
            assert (event["src"], event["site"], event["payload"]) == ("A", None, "hello, all")
        event = members[2].wait(lambda event: event["event"] == "message" and event["unicast"], "unicast")
        assert (event["src"], event["payload"]) == ("B", "hello, C")


@pytest.mark.parametrize("stack", STACKS)
def test_a_flood_from_all_members_at_once_arrives_exactly_once_in_order(stack):
    names = "A B C"
    with Group(stack) as group:
        members = group.start(names)
        for member in members:
            member.command(f"flood {MESSAGES} 1000")
        for member in members:
            stats = member.received_all(dict.fromkeys(names.split(), MESSAGES))
            for figures in stats["received"].values():
                assert figures == {"count": MESSAGES, "next": MESSAGES, "duplicates": 0, "out_of_order": 0}
            assert stats["sent"] == MESSAGES
        assert [member.leave() for member in members] == [0, 0, 0]


@pytest.mark.parametrize("stack", STACKS)
@pytest.mark.parametrize("victim", ["A", "C"])
def test_a_killed_member_is_found_out_by_its_broken_link_and_not_by_its_silence(stack, victim):
    """Within some hundredths of a second, on a quiet machine (README); FD_ALL would need five."""
    with Group(stack) as group:
        group.start("A B C")
        marks = {name: member.mark() for name, member in group.members.items()}
        group[victim].kill()
        left = "ABC".replace(victim, "")
        for name in left:
            group[name].view_of(left, marks[name])
        counters = [group[name].stats()["protocols"] for name in left]
        assert sum(found["FD_SOCK"].get("suspected", 0) for found in counters) >= 1, group.report()
        assert [found["FD_ALL"].get("suspected", 0) for found in counters] == [0, 0], group.report()


@pytest.mark.parametrize("stack", STACKS)
def test_survivors_of_a_crash_in_mid_stream_have_the_same_messages_of_the_dead(stack):
    with Group(stack) as group:
        members = group.start("A B C")
        members[0].command("flood 100000 1000 10000")                     # ten seconds, or more
        for member in members[1:]:
            member.command("flood 10000 1000 10000")
        while not all("A" in member.stats()["received"] for member in members[1:]):
            sleep(0.05)
        members[0].kill()
        got = [member.received_all({"B": 10_000, "C": 10_000})["received"] for member in members[1:]]
        assert got[0]["A"] == got[1]["A"], group.report()
        assert 0 < got[0]["A"]["next"] < 100_000
        assert all(f["duplicates"] == f["out_of_order"] == 0 for received in got for f in received.values())


def test_a_member_that_leaves_is_out_of_the_view_without_being_suspected():
    with Group("udp") as group:
        group.start("A B C")
        marks = {name: member.mark() for name, member in group.members.items()}
        assert group["A"].leave() == 0
        for name in "BC":
            group[name].view_of("BC", marks[name])
            protocols = group[name].stats()["protocols"]
            assert [protocols[detector].get("suspected", 0) for detector in ("FD_SOCK", "FD_ALL")] == [0, 0]


def test_end_of_input_and_sigterm_are_graceful_ends():
    with Group("udp") as group:
        a, b, c = group.start("A B C")
        assert a.process.stdin is not None
        a.process.stdin.close()
        assert a.process.wait(LEAVING_SECONDS) == 0
        group.settle("BC")
        b.signal(signal.SIGTERM)
        assert b.process.wait(LEAVING_SECONDS) == 0
        c.view_of("C")


def test_messages_sent_right_before_leaving_arrive():
    with Group("udp") as group:
        a, b = group.start("A B")
        a.command("flood 5000 1000")
        assert a.leave() == 0
        b.received_all({"A": 5000})


@pytest.mark.parametrize("stack", STACKS)
def test_a_member_that_was_stopped_finds_out_and_comes_back(stack):
    with Group(stack) as group:
        group.start("A B C")
        marks = {name: member.mark() for name, member in group.members.items()}
        group["A"].signal(signal.SIGSTOP)
        for name in "BC":
            group[name].view_of("BC", marks[name])
        marks = {name: member.mark() for name, member in group.members.items()}
        group["A"].signal(signal.SIGCONT)
        for name in "ABC":
            group[name].view_of("ABC", marks[name])
        group["A"].command("send I am back")
        for name in "ABC":
            group[name].wait(lambda event: event.get("payload") == "I am back", "message")
        assert len({tuple(group[name].last_view()) for name in "ABC"}) == 1


def test_eight_members_that_start_at_once_form_one_view():
    names = [f"M{number}" for number in range(8)]
    with Group("udp") as group:
        for name in names:
            group.spawn(name)
        group.settle(names)


def test_an_idle_member_of_six_uses_next_to_nothing():
    with Group("udp") as group:
        members = group.start("A B C D E F")
        sleep(1)
        before = [member.stats()["cpu_s"] for member in members]
        start = monotonic()
        sleep(4)
        after = [member.stats() for member in members]
        seconds = monotonic() - start
        for cpu_s, stats in zip(before, after, strict=True):
            assert (stats["cpu_s"] - cpu_s) / seconds < 0.01
            assert stats["rss_mb"] < 80


def test_a_broken_line_is_an_error_event_and_the_member_lives_on():
    with Group("udp") as group:
        (a,) = group.start("A")
        for line in ("nonsense", "flood", "flood x y", "flood 5 0", "sendto nobody hi", "partition A|B"):
            since = a.mark()
            a.command(line)
            a.wait(lambda event: event["event"] == "error", f"error for {line!r}", since)
        a.command("send still here")
        a.wait(lambda event: event.get("payload") == "still here", "message")
