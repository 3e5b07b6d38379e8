"""Limits and figures of RELAY, exactly: the largest plausible jump, what was missed, which epochs are reported."""
from __future__ import annotations

import pytest

from jgroups_py.model.counter_jumps import MAX_JUMP
from jgroups_py.model.outputs import Output, RelayAccepted
from jgroups_py.model.units import millis, seconds
from tests.unit.relay.sites import Sites


@pytest.mark.parametrize(("over", "refused"), [(0, 0), (1, 1)])
def test_a_jump_of_a_number_is_plausible_up_to_a_limit(over: int, refused: int) -> None:
    world = Sites(NYC="ABC", SFO="D").build()
    world["B"].multicast("one")
    world.run(seconds(1))
    relay, origin = world["A"].relay, world["B"].me
    known = relay.numbering.numbers[origin]
    relay.numbering.raise_ends({origin: known + MAX_JUMP + over})
    assert relay.numbering.ends.get(origin, 0) == (known + MAX_JUMP if not over else 0)
    assert relay.stats().get("implausible_dropped", 0) == refused


def test_what_a_split_kept_from_a_member_is_counted_by_messages() -> None:
    world = Sites(NYC="ABC", SFO="D").build()
    world["C"].multicast("c0")
    world.run(millis(100))
    nyc = world.sites["NYC"]
    nyc.install(["A", "B"])
    nyc.install(["C"])
    world["C"].multicast("c1", "c2")
    world.run(seconds(1))
    nyc.install(["A", "B", "C"])
    world.run(seconds(1))
    assert world["A"].relay.stats()["missed_in_site"] == 2


def test_an_accepted_relay_is_reported_once_and_its_successor_once(monkeypatch: pytest.MonkeyPatch) -> None:
    world = Sites(NYC="AB", SFO="DE").build()
    relay, reported = world["A"].relay, list[RelayAccepted]()
    notify = relay.introducer.notify

    def listen(output: Output) -> None:
        if isinstance(output, RelayAccepted):
            reported.append(output)
        notify(output)
    monkeypatch.setattr(relay.introducer, "notify", listen)
    relay.introducer.reported.clear()
    for number in range(5):
        world["D"].multicast(f"d{number}")
        world.run(seconds(1))
    first = world["D"].relay.group.view.id
    assert [(output.site, output.epoch) for output in reported] == [("SFO", first)]
    world.sites["SFO"].crash("D")
    world.run(seconds(2))
    assert [output.epoch for output in reported] == [first, world["E"].relay.group.view.id]
