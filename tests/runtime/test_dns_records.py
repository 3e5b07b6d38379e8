"""Records of type SRV, and a name server of one's own: what is found, and servers that do not answer or lie."""
from __future__ import annotations

from collections.abc import Iterator
from time import monotonic

import pytest

from jgroups_py.model.events import NameResolved
from jgroups_py.model.name_resolution import MAX_ADDRESSES, RECORDS, Chain, ResolverSpec
from jgroups_py.model.outputs import LOCAL, Resolve
from jgroups_py.runtime.name_resolution.dns_records import LIFETIME_S
from jgroups_py.runtime.name_resolution.resolver_threads import Resolving
from jgroups_py.runtime.name_resolution.resolvers import find_places, make_resolvers
from tests.runtime.helpers import eventually
from tests.runtime.name_server import NameServer

pytestmark = pytest.mark.real
NAME = "_jgroups._tcp.chat.example"


@pytest.fixture
def server() -> Iterator[NameServer]:
    with NameServer() as made:
        made.records = {
            (NAME, "SRV"): ["10 5 7801 b.example.", "0 1 7800 a.example.", "10 9 7802 c.example.",
                            "0 9 7803 a.example."],
            ("a.example", "A"): ["10.0.0.1"], ("a.example", "AAAA"): ["fd00::1"],
            ("b.example", "A"): ["10.0.0.2", "10.0.0.22"], ("c.example", "AAAA"): ["fd00::3"],
        }
        yield made


def chain(kind: str, server: NameServer) -> Chain:
    return Chain((ResolverSpec(RECORDS, f"{kind} {server.address}"),), kind)


def places(kind: str, server: NameServer, name: str = NAME, version: int = 4) -> list[tuple[str, int]]:
    return list(find_places(make_resolvers(chain(kind, server)), name, 1, "endpoint", False, version))


def test_records_give_hosts_with_their_ports_by_priority_and_weight(server: NameServer) -> None:
    *first, b, also_b = places("SRV", server)
    assert first == [("10.0.0.1", 7803), ("10.0.0.1", 7800), ("fd00::3", 7802)]
    assert {b, also_b} == {("10.0.0.2", 7801), ("10.0.0.22", 7801)}, "a host's addresses come in any order"


def test_the_hosts_have_addresses_of_the_version_that_is_preferred(server: NameServer) -> None:
    found = places("SRV", server, version=6)
    assert ("fd00::1", 7800) in found
    assert ("10.0.0.2", 7801) in found, "b has none of IPv6"
    assert ("10.0.0.1", 7800) not in found


@pytest.mark.parametrize(("kind", "host"), [("A", "10.0.0.1"), ("AAAA", "fd00::1")])
def test_a_server_of_ones_own_is_asked_for_addresses_too(server: NameServer, kind: str, host: str) -> None:
    assert places(kind, server, "a.example") == [(host, 1)]


def test_a_service_that_is_declared_absent_and_a_name_that_is_none_have_no_places(server: NameServer) -> None:
    server.records[NAME, "SRV"] = ["0 0 0 ."]
    assert places("SRV", server) == []
    assert places("SRV", server, "no.such.example") == []
    assert places("SRV", server, "a..b") == []


def test_of_a_name_with_very_many_records_the_first_are_used(server: NameServer) -> None:
    server.records[NAME, "SRV"] = [f"1 1 {8000 + number} a.example." for number in range(MAX_ADDRESSES + 50)]
    assert len(places("SRV", server)) == MAX_ADDRESSES


@pytest.mark.parametrize("manner", ["nonsense", "fails"])
def test_a_server_that_lies_or_fails_gives_no_places_and_no_error(server: NameServer, manner: str) -> None:
    server.manner = manner
    assert places("SRV", server) == []


@pytest.mark.slow
def test_a_server_that_is_silent_holds_up_its_own_request_only_and_that_for_a_bounded_time(server: NameServer) -> None:
    server.manner = "silent"
    answers: list[NameResolved] = []
    resolving = Resolving(lambda net, event: answers.append(event))
    began = monotonic()
    resolving.ask(Resolve(LOCAL, NAME, 1, chain("SRV", server), "endpoint", False))
    assert monotonic() - began < 0.5, "asking waited for the server"
    resolving.ask(Resolve(LOCAL, "localhost", 1, Chain((ResolverSpec("dns"),), "dns"), "endpoint", False))
    eventually(lambda: answers)
    assert (answers[0].name, answers[0].place) == ("localhost", ("127.0.0.1", 1))
    eventually(lambda: len(answers) == 2)
    assert answers[1].place is None
    assert monotonic() - began < 3 * LIFETIME_S
