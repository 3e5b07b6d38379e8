"""Nothing that arrives at a socket ends, stalls or fills a process: real members, and an attacker beside them.

The frames are those that ended members of this project before (K-a to K-f), the connections those that kept them busy
(E5, E6). After each attack all members run, in one view, and exchange messages; each frame is counted by name.
"""
from __future__ import annotations

from collections.abc import Iterator
from time import monotonic, sleep

import pytest

from jgroups_py.model.address import Address
from jgroups_py.model.batch import Header
from jgroups_py.model.view import ViewId
from jgroups_py.protocols.discovery.base import DiscoveryRequest, DiscoveryResponse
from jgroups_py.protocols.gms.headers import Ballot, CutHeader, FlushId, JoinRequest, LeaveRequest, Prepare
from jgroups_py.protocols.merge.protocol import Info
from tests.integration.attacker import (
    EVIL,
    Attacker,
    address_of,
    descriptors,
    listening_ports,
    silent_connections,
    view_id_of,
)
from tests.integration.members import POLL_SECONDS, WAITING_SECONDS, Group

pytestmark = [pytest.mark.real, pytest.mark.slow, pytest.mark.timeout(120)]
STACKS = ("udp", "tcp", "swim")
NAMES = "A B C"
TRANSPORT = {"udp": "UDP", "tcp": "TCP", "swim": "UDP"}
NO_HOSTS = ("\0", "xn--\u0130\u2603", "no such host;", "", "a" * 254, "%s%n", "10.0.0.1 ")
UNREACHABLE_HOSTS = ("no-such-host.invalid", "a" * 70 + ".example", "255.255.255.255", "::1", "1.2.3")
"""Hosts that a frame may name, and that no socket can send to."""
TOP = (1 << 64) - 1
EDGES = [1 << 62, 1 << 63, TOP - 2, TOP]
NOT_YET = [(1 << 62) - 1, (1 << 62) - 3]    # well-formed; refused, by the rule for jumps


@pytest.fixture(scope="module", params=STACKS)
def group(request: pytest.FixtureRequest) -> Iterator[Group]:
    """One group for all frames: it survives every one of them."""
    with Group(request.param) as made:
        made.start(NAMES)
        yield made


def dropped(group: Group) -> int:
    """How many frames the transports of all members dropped."""
    transport = TRANSPORT[group.stack]
    return sum(int(number) for member in group.members.values()
               for name, number in member.stats()["protocols"][transport].items()
               if name.endswith("_dropped") and name != "for_others_dropped")


def all_dropped(group: Group, before: int, least: int) -> None:
    """Wait until at least so many more were."""
    until = monotonic() + WAITING_SECONDS
    while (now := dropped(group)) < before + least:
        assert monotonic() < until, f"{now - before} of {least} frames were counted\n{group.report()}"
        sleep(POLL_SECONDS)


def all_well(group: Group, word: str) -> None:
    """All members run, have one view, and receive each other's messages."""
    marks = {name: member.mark() for name, member in group.members.items()}
    for name, member in group.members.items():
        assert member.process.poll() is None, f"{name} has ended\n{group.report()}"
        member.command(f"send {word} of {name}")
    for member in group.members.values():
        for name in group.members:
            sent = f"{word} of {name}"
            member.wait(lambda event, sent=sent: event["event"] == "message" and event["payload"] == sent,
                        sent, marks[member.name])
        assert sorted(member.last_view()) == NAMES.split(), group.report()


def discovery_request(host: str, port: int = 7) -> Header:
    return DiscoveryRequest(EVIL, (host, port), None, None, None, everyone=True)


@pytest.mark.parametrize("host", NO_HOSTS, ids=ascii)
def test_a_host_that_is_none_is_a_frame_that_each_member_drops(group, host):
    """K-a, K-b: one datagram of 78 bytes ended all of them."""
    before = dropped(group)
    headers = [discovery_request(host), DiscoveryResponse(EVIL, ("127.0.0.1", 7), None, None, None, {EVIL: (host, 7)}),
               Info(ViewId(1, EVIL), (host, 7)), JoinRequest(EVIL, (host, 7), 0)]
    with Attacker(group) as attacker:
        for header in headers:
            attacker.send(header)
        all_dropped(group, before, len(headers) * len(NAMES.split()))
    all_well(group, f"after {host.encode().hex()[:20]}")


@pytest.mark.parametrize("host", UNREACHABLE_HOSTS)
def test_an_answer_to_a_host_that_does_not_exist_is_lost_and_nothing_else(group, host):
    with Attacker(group) as attacker:
        began = monotonic()
        for number in range(5):
            attacker.send(discovery_request(host, 7 + number))
        all_well(group, f"after {host[:20]}")
        assert monotonic() - began < WAITING_SECONDS


def test_names_that_steer_terminals_and_port_0_are_dropped(group):
    before = dropped(group)
    names = ("\x1b[31mred", "two\nlines", "\u202egpj", "x" * 256)
    headers = [DiscoveryRequest(Address(EVIL.raw, name), ("127.0.0.1", 7), None, None, None, everyone=True)
               for name in names]
    with Attacker(group) as attacker:
        for header in (*headers, discovery_request("127.0.0.1", 0)):
            attacker.send(header)
        all_dropped(group, before, (len(headers) + 1) * len(NAMES.split()))
    all_well(group, "after names")
    assert all("\x1b" not in member.errors for member in group.members.values())


def flush_of(group: Group, number: int) -> tuple[FlushId, tuple[Address, ...]]:
    members = tuple(address_of(member) for member in group.members.values())
    return FlushId(view_id_of(group, "A"), Ballot(number, EVIL)), members


def takeover(group: Group, attacker: Attacker, round_number: int, counter: int) -> None:
    """K-c, K-d, K-e: a ballot, and a view that would be counted from."""
    flush, members = flush_of(group, round_number)
    attacker.send(Prepare(flush, members, ()))
    sleep(0.2)
    attacker.send(CutHeader(flush, members, (), counter, dict.fromkeys(members, 1), {}))


@pytest.mark.parametrize("number", EDGES)
def test_a_ballot_or_a_view_of_an_absurd_number_is_dropped(group, number):
    before = dropped(group)
    with Attacker(group) as attacker:
        takeover(group, attacker, number, 5)
        takeover(group, attacker, 1, number)
        attacker.send(Info(ViewId(number, EVIL), ("127.0.0.1", 7)))
        all_dropped(group, before, 3 * len(NAMES.split()))
    all_well(group, f"after {number}")


@pytest.mark.parametrize("number", NOT_YET)
def test_a_ballot_or_a_view_with_an_unreachable_number_is_refused(number):
    """K-e: it ended all members at the next view, long after it came."""
    with Group("udp") as group:
        group.start(NAMES)
        with Attacker(group) as attacker:
            takeover(group, attacker, number, number)
            takeover(group, attacker, number + 1, number)
            sleep(1)
            for name in "DE":
                group.spawn(name).ready()
            group.settle([*NAMES.split(), *"DE"])
        counter = view_id_of(group, "A").counter
        assert counter < 1000, f"the group counts from {counter}"
        group["D"].kill()
        marks = {name: group[name].mark() for name in NAMES.split()}
        for name in NAMES.split():
            group[name].view_of([*NAMES.split(), "E"], marks[name])


def test_a_forged_leave_does_not_end_its_victim():
    """K-f."""
    with Group("udp") as group:
        group.start(NAMES)
        with Attacker(group) as attacker:
            victim = address_of(group["C"])
            for view_id in (view_id_of(group, "A"), None):
                for _ in range(5):                           # A may be in the middle of another change
                    attacker.send(LeaveRequest(view_id), src=victim, dest=address_of(group["A"]))
                    sleep(0.2)
        marks = {name: group[name].mark() for name in NAMES.split()}
        assert group["C"].process.poll() is None, group.report()
        for name in NAMES.split():
            if sorted(group[name].last_view()) != NAMES.split():
                group[name].view_of(NAMES.split(), marks[name])
        all_well(group, "after the leave")


SILENT, FEW = 2000, 256


def silent_links_closed(group: Group, name: str, least: int) -> None:
    """Wait until a member has closed so many silent connections."""
    until = monotonic() + WAITING_SECONDS
    while (counted := group[name].stats()["protocols"]["FD_SOCK"]).get("silent_links_closed", 0) < least:
        assert monotonic() < until, f"{counted}\n{group.report()}"
        sleep(POLL_SECONDS)


def test_silent_connections_neither_fill_nor_busy_a_member_nor_hide_a_death():
    """E5: a member at its limit of descriptors did nothing but ask for one more connection."""
    with descriptors(FEW), Group("udp") as group:
        group.start(NAMES)
        with descriptors(SILENT * 2 + FEW):
            ports = [listening_ports(group[name])[0] for name in "AB"]
            with silent_connections(ports[0], SILENT), silent_connections(ports[1], SILENT):
                all_well(group, "beside silent connections")
                for name in "AB":
                    silent_links_closed(group, name, FEW)    # more than it can have open at a time
                before = {name: group[name].stats()["cpu_s"] for name in "AB"}
                sleep(2)
                for name in "AB":
                    assert group[name].stats()["cpu_s"] - before[name] < 0.5, group.report()
                marks = {name: group[name].mark() for name in "AB"}
                at = group["C"].kill()
                for name in "AB":
                    view = group[name].view_of(["A", "B"], marks[name])
                    assert view["at"] - at < 1.0, f"{view['at'] - at:.2f} s\n{group.report()}"
                counted = group["A"].stats()["protocols"]["FD_SOCK"]
                assert counted["verified"] >= 1, f"the coordinator has seen it by a link of its own: {counted}"


def test_silent_connections_to_the_port_of_frames_do_no_harm():
    """E6: the handshake has a deadline."""
    with descriptors(SILENT), Group("tcp") as group:
        group.start(NAMES)
        with descriptors(3000 + FEW):
            port = int(str(group.properties["bind_port"]))
            with silent_connections(port, 3000):
                all_well(group, "beside silent connections")
                marks = {name: group[name].mark() for name in "AB"}
                at = group["C"].kill()
                for name in "AB":
                    view = group[name].view_of(["A", "B"], marks[name])
                    assert view["at"] - at < 1.0, f"{view['at'] - at:.2f} s\n{group.report()}"
