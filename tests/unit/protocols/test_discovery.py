"""PING, TCPPING, FILE_PING: which members are found, which answer, where requests are sent."""
from __future__ import annotations

import pytest

from jgroups_py.model.errors import ConfigError
from jgroups_py.model.events import (
    AddressesKnown,
    Connect,
    FindMembers,
    FolderRead,
    Found,
    Left,
    MembersFound,
    SearchAt,
    SendTo,
)
from jgroups_py.model.outputs import ReadFolder, StoreEntry
from jgroups_py.model.units import millis, seconds
from jgroups_py.model.view import View
from jgroups_py.protocols.discovery.base import Discovery, DiscoveryRequest, DiscoveryResponse
from jgroups_py.protocols.discovery.file_ping import FilePing, FilePingConfig, file_of, parse_entry
from jgroups_py.protocols.discovery.ping import Ping
from jgroups_py.protocols.discovery.tcpping import TcpPing, TcpPingConfig, parse_hosts
from jgroups_py.testing.bench import Bench, StubPorts, address, change, multicast, unicast, view_of

A, B, C = map(address, "ABC")
PLACE_B, PLACE_C = ("10.0.0.2", 7800), ("10.0.0.3", 7800)
AB = view_of("B", "A")


def bench_of(layer: Discovery, view: View | None = None, *, multicasts: bool = True) -> Bench:
    """Discovery below a layer that has `view`."""
    above = StubPorts()
    bench = Bench(layer, above)
    above.view = view
    bench.transport.multicasts = multicasts
    return bench


def response(name: str, place: tuple[str, int], view: View | None = None, **book: tuple[str, int]) -> object:
    """A response as it arrives at A."""
    told = {address(other): where for other, where in book.items()}
    coordinator = None if view is None else view.coordinator
    header = DiscoveryResponse(address(name), place, None if view is None else view.id, coordinator, None, told)
    return unicast(name, "A", headers=(header,))


def request(name: str, place: tuple[str, int], *, everyone: bool = False) -> object:
    """A request as it arrives."""
    return multicast(name, headers=(DiscoveryRequest(address(name), place, None, None, None, everyone),))


def test_a_search_without_answers_ends_empty_when_its_time_is_over() -> None:
    bench = bench_of(Ping())
    bench.down(FindMembers(seconds(1)))
    bench.advance(999)
    assert bench.passed_up(MembersFound) == []
    bench.advance(1)
    assert bench.passed_up(MembersFound) == [MembersFound(())]


def test_in_a_member_with_a_view_answers_after_the_search_are_passed_up() -> None:
    bench = bench_of(TcpPing(TcpPingConfig(initial_hosts="10.0.0.2[7800]")), view_of("A"), multicasts=False)
    bench.down(FindMembers(millis(500), True))
    bench.advance(900)
    assert bench.passed_up(MembersFound) == [MembersFound(())]
    for _ in range(2):                                       # the request was repeated, and so is the response
        bench.up(response("B", PLACE_B, AB))                     # type: ignore[arg-type]
    late, = bench.passed_up(MembersFound)
    assert late == MembersFound((Found(B, PLACE_B, AB.id, True),))
    assert late.found[0].trip_ns == millis(900)
    bench.advance(5000)
    bench.up(response("C", PLACE_C, view_of("C")))               # type: ignore[arg-type]
    assert bench.passed_up(MembersFound) == []                    # too long after the request


def test_in_a_joiner_answers_after_the_search_are_not_passed_up() -> None:
    bench = bench_of(Ping())
    bench.down(FindMembers(millis(500), True))
    bench.advance(900)
    bench.up(response("B", PLACE_B, AB))                         # type: ignore[arg-type]
    assert bench.passed_up(MembersFound) == [MembersFound(())]    # it would take it for an answer to its next search


def test_the_round_trip_of_an_answer_is_counted_from_the_first_request() -> None:
    bench = bench_of(Ping(), AB)
    bench.down(FindMembers(seconds(1), True))
    bench.advance(400)
    bench.up(response("B", PLACE_B, AB))                         # type: ignore[arg-type]
    bench.advance(300)
    bench.up(response("B", PLACE_B, AB))                         # type: ignore[arg-type]
    bench.advance(300)
    assert [one.trip_ns for one in bench.passed_up(MembersFound)[0].found] == [millis(400)]


def test_the_request_is_repeated_since_datagrams_get_lost() -> None:
    bench = bench_of(Ping())
    bench.down(FindMembers(seconds(1)))
    bench.advance(990)
    said = [header for header, _ in bench.sent_with(DiscoveryRequest)]
    assert len(said) == 5
    assert [header.everyone for header in said] == [False, True, True, True, True]


def test_a_coordinators_answer_ends_the_search_at_once() -> None:
    bench = bench_of(Ping())
    bench.down(FindMembers(seconds(1)))
    bench.up(response("B", PLACE_B, AB))                                       # type: ignore[arg-type]
    assert bench.passed_up(MembersFound) == [MembersFound((Found(B, PLACE_B, AB.id, True),))]
    assert AddressesKnown({B: PLACE_B}) in bench.passed_down(AddressesKnown)
    bench.advance(5000)
    assert bench.passed_up(MembersFound) == []


def test_a_search_for_everyone_goes_on_after_a_coordinator_answered() -> None:
    bench = bench_of(Ping())
    bench.down(FindMembers(seconds(1), everyone=True))
    bench.up(response("B", PLACE_B, AB))                                       # type: ignore[arg-type]
    bench.up(response("C", PLACE_C))                                           # type: ignore[arg-type]
    bench.advance(1000)
    (event,) = bench.passed_up(MembersFound)
    assert [one.member for one in event.found] == [B, C]


def test_the_request_of_a_joiner_makes_it_known_to_another_joiner() -> None:
    bench = bench_of(Ping())
    bench.down(FindMembers(seconds(1)))
    bench.up(request("C", PLACE_C))                                       # type: ignore[arg-type]
    bench.advance(1000)
    assert bench.passed_up(MembersFound) == [MembersFound((Found(C, PLACE_C, None, False),))]


def test_a_coordinator_and_a_joiner_answer_at_once_an_ordinary_member_only_with_everyone() -> None:
    for view, first, everyone in ((None, 1, 1), (view_of("A", "B"), 1, 1), (AB, 0, 1)):
        bench = bench_of(Ping(), view)
        bench.up(request("C", PLACE_C))                                   # type: ignore[arg-type]
        assert len(bench.sent_with(DiscoveryResponse)) == first
        bench.up(request("C", PLACE_C, everyone=True))                    # type: ignore[arg-type]
        assert len(bench.sent_with(DiscoveryResponse)) == everyone


def test_the_first_member_of_a_view_answers_the_requests_that_came_before() -> None:
    bench = bench_of(Ping())
    bench.up(request("C", PLACE_C))                                       # type: ignore[arg-type]
    bench.sent()
    bench.stack.find(StubPorts).view = alone = view_of("A")
    bench.down(change(alone))
    ((header, batch),) = bench.sent_with(DiscoveryResponse)
    assert (header.coordinator, batch.dest) == (A, C)


def test_a_member_that_becomes_the_coordinator_answers_the_requests_that_came_while_there_was_none() -> None:
    before, after = view_of("B", "A", counter=3), view_of("A", counter=4)
    bench = bench_of(Ping(), before)
    bench.up(request("C", PLACE_C))                                       # type: ignore[arg-type]
    assert bench.sent_with(DiscoveryResponse) == []
    bench.stack.find(StubPorts).view = after
    bench.down(change(after, before))
    ((header, batch),) = bench.sent_with(DiscoveryResponse)
    assert (header.coordinator, batch.dest) == (A, C)
    bench.down(change(view_of("A", counter=5), after))
    assert bench.sent_with(DiscoveryResponse) == [], "it was answered, and repeats its request"


def test_without_multicast_an_answer_to_everyone_lists_the_addresses_of_all_members() -> None:
    bench = bench_of(Ping(), AB, multicasts=False)
    bench.transport.book.update({A: ("127.0.0.1", 7800), B: PLACE_B})
    bench.up(request("C", PLACE_C, everyone=True))                        # type: ignore[arg-type]
    ((header, _),) = bench.sent_with(DiscoveryResponse)
    assert header.book == {B: PLACE_B, A: ("127.0.0.1", 7800)}
    assert (header.coordinator, header.place) == (B, PLACE_B)


def test_without_multicast_an_answer_of_a_joiner_lists_the_other_joiners() -> None:
    bench = bench_of(Ping(), multicasts=False)
    bench.transport.book[B] = PLACE_B
    bench.up(request("B", PLACE_B))                                       # type: ignore[arg-type]
    bench.sent()
    bench.up(request("C", PLACE_C, everyone=True))                        # type: ignore[arg-type]
    ((header, _),) = bench.sent_with(DiscoveryResponse)
    assert header.book == {B: PLACE_B}


# --- TCPPING --------------------------------------------------------------------------------------------------------

def requested(bench: Bench) -> list[tuple[str, int]]:
    """Where TCPPING sent requests since the last call."""
    return [event.physical for event in bench.passed_down(SendTo)]


def test_requests_go_to_every_host_and_port_of_the_list_but_the_own() -> None:
    bench = bench_of(TcpPing(TcpPingConfig(initial_hosts="127.0.0.1[7800],10.0.0.9:7900", port_range=1)))
    bench.down(FindMembers(seconds(1)))
    assert requested(bench) == [("127.0.0.1", 7801), ("10.0.0.9", 7900), ("10.0.0.9", 7901)]


def test_requests_go_to_members_that_sent_or_were_listed_too() -> None:
    bench = bench_of(TcpPing(TcpPingConfig(initial_hosts="10.0.0.9[1]", port_range=0, max_dynamic_hosts=2)))
    bench.up(response("B", PLACE_B, AB, C=PLACE_C))                            # type: ignore[arg-type]
    bench.down(FindMembers(seconds(1)))
    assert requested(bench) == [("10.0.0.9", 1), PLACE_C, PLACE_B]
    bench.down(AddressesKnown({address("D"): ("10.0.0.4", 1)}))
    bench.advance(50)
    assert requested(bench) == [("10.0.0.9", 1), PLACE_B, ("10.0.0.4", 1)]            # the oldest was dropped


def test_an_application_may_say_where_else_members_are() -> None:
    bench = bench_of(TcpPing(TcpPingConfig(initial_hosts="10.0.0.9[1]", port_range=0)))
    bench.down(SearchAt((("10.0.0.4", 1), ("10.0.0.9", 1))))
    assert requested(bench) == [("10.0.0.9", 1), ("10.0.0.4", 1)], "at once"
    bench.advance(5_000)
    requested(bench)
    bench.down(FindMembers(seconds(1)))
    assert requested(bench) == [("10.0.0.9", 1), ("10.0.0.4", 1)], "and whenever members are sought"


def test_no_request_goes_to_an_address_that_was_not_received_for_long() -> None:
    bench = bench_of(TcpPing(TcpPingConfig(initial_hosts="10.0.0.9[1]", port_range=0, dynamic_age_ns="1m")))
    bench.up(response("B", PLACE_B, AB))                                       # type: ignore[arg-type]
    bench.advance(61_000)
    bench.down(FindMembers(seconds(1)))
    assert requested(bench) == [("10.0.0.9", 1)]


@pytest.mark.parametrize("text", ["h", "h[]", "h[99999]", "h[1", "[1]", "h:1;g:2"])
def test_a_wrong_host_is_a_config_error(text: str) -> None:
    with pytest.raises(ConfigError):
        TcpPingConfig(initial_hosts=text)


def test_hosts_are_read_in_the_forms_host_port_in_brackets_and_after_a_colon() -> None:
    assert parse_hosts(" a[1],b:2,,[fe80::1][3] ") == (("a", 1), ("b", 2), ("fe80::1", 3))


# --- FILE_PING ------------------------------------------------------------------------------------------------------

def file_ping(view: View | None = None, **properties: object) -> Bench:
    """FILE_PING of a connected member; its own file is written."""
    bench = bench_of(FilePing(FilePingConfig(location="/shared", **properties)), view)     # type: ignore[arg-type]
    bench.down(Connect("demo"))
    return bench


def folder(bench: Bench) -> str:
    """The folder of the group."""
    stored = next(output for output in bench.outputs if isinstance(output, StoreEntry))
    return stored.folder


def removed(bench: Bench) -> list[str]:
    """Files that were removed."""
    return [output.name for output in bench.outputs if isinstance(output, StoreEntry) and output.data is None]


def test_a_file_has_the_addresses_of_its_owner_and_other_files_are_ignored() -> None:
    data = file_of(B, PLACE_B)
    parsed = parse_entry(data)
    assert parsed == (B, PLACE_B)
    assert parsed is not None
    assert parsed[0].name == "B"
    for other in (b"", data[:-1], data + b"x", b"hello"):
        assert parse_entry(other) is None


def test_requests_go_to_the_members_whose_files_are_in_the_folder() -> None:
    bench = file_ping()
    bench.down(FindMembers(seconds(1)))
    assert any(isinstance(output, ReadFolder) for output in bench.outputs)
    bench.up(FolderRead(folder(bench), (b"junk", file_of(A, ("me", 1)), file_of(B, PLACE_B))))
    assert requested(bench) == [PLACE_B]


def test_a_member_removes_its_file_when_it_leaves() -> None:
    bench = file_ping()
    bench.up(Left())
    assert removed(bench) == [f"{A.raw.hex()}.node"]


def test_the_coordinator_removes_the_files_of_members_that_left_the_view() -> None:
    bench = file_ping(view_of("A"))
    bench.down(change(view_of("A", counter=2), view_of("A", "B")))
    assert removed(bench) == [f"{B.raw.hex()}.node"]


def test_the_coordinator_removes_files_whose_owners_never_answer() -> None:
    bench = file_ping(view_of("A"), silent_searches=2)
    for _ in range(4):
        bench.down(FindMembers(seconds(1), everyone=True))
        bench.up(FolderRead(folder(bench), (file_of(B, PLACE_B), file_of(C, PLACE_C))))
        bench.up(response("C", PLACE_C))                                       # type: ignore[arg-type]
        bench.advance(1000)
    assert removed(bench) == [f"{B.raw.hex()}.node"]


def test_a_member_whose_file_was_removed_writes_it_again() -> None:
    bench = file_ping(view_of("A"))
    bench.outputs.clear()
    bench.down(FindMembers(seconds(1), everyone=True))
    bench.up(FolderRead(next(o.folder for o in bench.outputs if isinstance(o, ReadFolder)), (file_of(B, PLACE_B),)))
    assert [output.name for output in bench.outputs if isinstance(output, StoreEntry)] == [f"{A.raw.hex()}.node"]


def test_a_location_is_needed() -> None:
    with pytest.raises(ConfigError):
        FilePingConfig()
