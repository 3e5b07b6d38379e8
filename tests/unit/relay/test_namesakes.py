"""Two relays of one site on the bridge: the operator is told once, after a minute, while one is there."""
from __future__ import annotations

import re

import attrs

from jgroups_py.address import Address
from jgroups_py.outputs import Note
from jgroups_py.protocols.relay.namesakes import STAY_NS, Namesakes
from jgroups_py.units import seconds
from jgroups_py.view import View, ViewId

X, Y, Z = (Address(name.encode().ljust(16, b"\0"), name) for name in "xyz")


@attrs.define
class Config:
    site: str = "NYC"


class Relay:
    """What Namesakes asks of RELAY."""

    def __init__(self) -> None:
        self.now_ns, self.config = seconds(100), Config()
        self.notes: list[str] = []
        self.due_ns: int | None = None
        self.met = 0

    def count(self, name: str) -> None:
        assert name == "hello_of_own_site"
        self.met += 1

    def set_timer_once(self, name: str, delay_ns: int) -> None:
        if self.due_ns is None:
            self.set_timer(name, delay_ns)

    def set_timer(self, name: str, delay_ns: int) -> None:
        assert name == "namesakes"
        self.due_ns = self.now_ns + delay_ns

    def emit(self, note: Note) -> None:
        self.notes.append(f"{note.level}: {note.text}")


def at(relay: Relay, namesakes: Namesakes, now_ns: int) -> None:
    """Let the time come."""
    while relay.due_ns is not None and relay.due_ns <= now_ns:
        relay.now_ns, relay.due_ns = relay.due_ns, None
        namesakes.look()
    relay.now_ns = now_ns


def bridge(*members: Address) -> View:
    return View(ViewId(1, members[0]), members)


def test_who_stays_for_a_minute_is_told_once_with_site_and_time() -> None:
    relay = Relay()
    namesakes = Namesakes(relay)                        # type: ignore[arg-type]
    start_ns = relay.now_ns
    for second in range(0, 59, 10):
        at(relay, namesakes, start_ns + seconds(second))
        namesakes.met(X, ViewId(4, Y))
    at(relay, namesakes, start_ns + STAY_NS - 1)
    assert (relay.notes, relay.met) == ([], 6)
    at(relay, namesakes, start_ns + STAY_NS)
    (note,) = relay.notes
    assert re.match(r"error: another relay of site NYC \(y\) has been on the bridge for 60 s\.", note), note
    namesakes.met(X, ViewId(4, Y))
    at(relay, namesakes, start_ns + 5 * STAY_NS)
    assert len(relay.notes) == 1


def test_one_that_comes_after_another_went_has_a_minute_of_its_own() -> None:
    relay = Relay()
    namesakes = Namesakes(relay)                        # type: ignore[arg-type]
    start_ns = relay.now_ns
    namesakes.met(X, ViewId(4, Y))
    at(relay, namesakes, start_ns + seconds(50))
    namesakes.met(Y, ViewId(5, Z))
    namesakes.bridge_view_changed(bridge(Y, Z))         # X has gone
    at(relay, namesakes, start_ns + STAY_NS)
    assert relay.notes == []
    at(relay, namesakes, start_ns + seconds(50) + STAY_NS)
    assert len(relay.notes) == 1
    namesakes.bridge_view_changed(bridge(Y, Z))
    assert namesakes.told, "it is there still"
    namesakes.bridge_view_changed(bridge(Z))
    assert not namesakes.told, "the next one is news"


def test_one_that_left_or_a_bridge_that_we_left_is_not_told() -> None:
    for leaves in (lambda one: one.bridge_view_changed(bridge(Z)), lambda one: one.stop()):
        relay = Relay()
        namesakes = Namesakes(relay)                    # type: ignore[arg-type]
        namesakes.met(X, ViewId(4, Y))
        leaves(namesakes)
        at(relay, namesakes, relay.now_ns + 2 * STAY_NS)
        assert relay.notes == []
