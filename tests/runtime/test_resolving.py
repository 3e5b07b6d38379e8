"""Resolvers, and running them off the loop: chains, tables, files, the system; one that hangs, one that raises."""
from __future__ import annotations

import threading
from pathlib import Path

import pytest

from jgroups_py.model.errors import ConfigError
from jgroups_py.model.events import NameResolved
from jgroups_py.model.name_resolution import MAX_ADDRESSES, NameResolver, parse_resolvers, split_place
from jgroups_py.model.outputs import Resolve
from jgroups_py.runtime.name_resolution.resolver_threads import THREADS, Resolving
from jgroups_py.runtime.name_resolution.resolvers import DnsResolver, find_places, make_resolvers
from tests.runtime.helpers import eventually


class Own(NameResolver):
    """Resolves one name, under another name, and keeps the names that were requested."""

    asked: list[tuple[str, str, bool]] = []

    def lookup(self, name: str, parameter: str, again: bool) -> str:
        return "moved:9" if name == "old:1" else name

    def resolve(self, host: str, parameter: str, again: bool) -> str | None:
        self.asked.append((host, parameter, again))
        return "10.0.0.5" if host == "moved" else None


class Hanging(NameResolver):
    """Answers once it is let go."""

    go = threading.Event()
    asked: list[str] = []

    def resolve(self, host: str, parameter: str, again: bool) -> str | None:
        self.asked.append(host)
        self.go.wait(20)
        return "10.0.0.6"


class Many(NameResolver):
    """A name server with several addresses for a name; some of them are none."""

    def resolve(self, host: str, parameter: str, again: bool) -> str | None:
        return self.resolve_all(host, parameter, again)[0]

    def resolve_all(self, host: str, parameter: str, again: bool) -> list[str]:
        if host == "few":
            return ["10.0.0.1", "nonsense", "10.0.0.2", "10.0.0.1"]
        return [f"10.{number // 256}.{number % 256}.1" for number in range(5000)]


class Raising(NameResolver):
    """Is broken."""

    def resolve(self, host: str, parameter: str, again: bool) -> str | None:
        raise RuntimeError("a bug of the application")


def own(cls: type[NameResolver]) -> str:
    return f"{__name__}:{cls.__name__}"


def found(chain: str, name: str, port: int = 1) -> tuple[str, int] | None:
    places = find_places(make_resolvers(parse_resolvers(chain)), name, port, "endpoint", False)
    return places[0] if places else None


def test_a_name_is_looked_up_and_then_resolved() -> None:
    Own.asked.clear()
    assert find_places(make_resolvers(parse_resolvers(own(Own))), "old", 1, "bootstrap", True) == (("10.0.0.5", 9),)
    assert Own.asked == [("moved", "bootstrap", True)]
    assert Own().name() == "Own"


def test_all_addresses_of_a_name_are_found_each_once_and_no_more_than_are_of_use() -> None:
    assert find_places(make_resolvers(parse_resolvers(own(Many))), "few", 7, "endpoint", False) == (
        ("10.0.0.1", 7), ("10.0.0.2", 7))
    assert len(find_places(make_resolvers(parse_resolvers(own(Many))), "many", 7, "endpoint", False)) == MAX_ADDRESSES


def test_the_first_resolver_of_a_chain_that_answers_decides() -> None:
    chain = f"static:a=10.0.0.1,b=10.0.0.2:7801;{own(Own)}"
    assert found(chain, "a") == ("10.0.0.1", 1)
    assert found(chain, "b") == ("10.0.0.2", 7801)
    assert found(chain, "old") == ("10.0.0.5", 9)
    assert found(chain, "unknown") is None
    assert found(chain, "10.9.9.9", 3) == ("10.9.9.9", 3)


def test_a_file_is_read_again_each_time_and_nonsense_in_it_hides_nothing(tmp_path: Path) -> None:
    path = tmp_path / "names.csv"
    chain = f"file:{path};static:a=10.0.0.3"
    assert found(chain, "a") == ("10.0.0.3", 1)
    path.write_text("# names\na, 10.0.0.1:7800\nb\nc,10.0.0.1:port\n")
    assert found(chain, "a") == ("10.0.0.1", 7800)
    assert found(chain, "b") is None
    assert found(chain, "c") is None
    path.write_text("a,10.0.0.2\n")
    assert found(chain, "a") == ("10.0.0.2", 1)


def test_the_system_resolves_this_host_and_no_impossible_name() -> None:
    assert DnsResolver().resolve("localhost", "endpoint", False) == "127.0.0.1"
    assert DnsResolver().resolve("no-such-host.invalid", "endpoint", False) is None
    assert DnsResolver().resolve_all("no-such-host.invalid", "endpoint", False) == ()


@pytest.mark.parametrize(("text", "place"), [
    ("a:1", ("a", 1)), ("[::1]:7", ("::1", 7)), ("a", ("a", 7800)), ("::1", ("::1", 7800)), ("[::1]", ("::1", 7800))])
def test_places_are_read_with_and_without_a_port(text: str, place: tuple[str, int]) -> None:
    assert split_place(text, 7800) == place


@pytest.mark.parametrize("text", ["a:b", "a:0", "a:65536", ":1", "a:"])
def test_a_place_without_a_real_port_is_an_error(text: str) -> None:
    with pytest.raises(ConfigError, match="no host:port"):
        split_place(text)


def resolve(name: str, cls: type[NameResolver]) -> Resolve:
    return Resolve(0, name, 1, parse_resolvers(own(cls)), "endpoint", False)


def test_asking_returns_at_once_and_a_name_that_hangs_is_asked_for_once() -> None:
    answers: list[NameResolved] = []
    resolving = Resolving(lambda net, event: answers.append(event))
    Hanging.go.clear()
    Hanging.asked.clear()
    for _ in range(10):
        resolving.ask(resolve("slow", Hanging))
    for number in range(20):
        resolving.ask(resolve(f"slow-{number}", Hanging))
    eventually(lambda: len(Hanging.asked) == THREADS)
    assert answers == []
    Hanging.go.set()
    eventually(lambda: len(answers) == 21)
    assert Hanging.asked.count("slow") == 1
    resolving.ask(resolve("slow", Hanging))
    eventually(lambda: len(answers) == 22)


def test_a_resolver_that_raises_counts_as_one_without_an_answer() -> None:
    answers: list[NameResolved] = []
    resolving = Resolving(lambda net, event: answers.append(event))
    resolving.ask(resolve("x", Raising))
    eventually(lambda: answers == [NameResolved("x", 1, None)])
