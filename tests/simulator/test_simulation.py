"""Applications on the simulator: the channel they get, the operations they do, the failures that are found."""
from __future__ import annotations

import re
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

import jgroups_py as jg
from examples.replicated_counter import Counter
from jgroups_py.simulator.faults.actions import CrashOf, PauseOf, Split
from jgroups_py.simulator.plan_parts import actions_of
from jgroups_py.simulator.profiles import PROFILES
from jgroups_py.testing.simulation import Simulation, SimulationFailure, Trial
from tests.simulator.counters import Chatty, KnownByName, Naive, Raising, add, all_are_equal

SEEDS = range(60)
ENOUGH_SECONDS = 120                     # two are, on a quiet machine


def calm(profile: str = "group") -> int:
    """A seed that has neither crashes nor splits nor pauses."""
    return next(seed for seed in range(500) if not any(
        isinstance(fault, CrashOf | Split | PauseOf) for fault in PROFILES[profile](seed).plan.faults))


def first_failure(trial: Trial) -> Any:
    return next(outcome for outcome in map(trial.run, SEEDS) if outcome.violations)


# --- the channel ------------------------------------------------------------------------------------------------------

class Diary(jg.Receiver):
    """Keeps the calls of its channel."""

    def __init__(self, channel: Any) -> None:
        self.channel = channel
        self.pages: list[tuple[Any, ...]] = []
        channel.receiver = self

    def receive(self, message: jg.Message) -> None:
        self.pages.append(("message", message.payload, message.dest is None, dict(message.headers), message.site))

    def view_accepted(self, view: jg.View) -> None:
        assert self.channel.view is view, "the channel's properties are up to date in a callback"
        assert self.channel.state is jg.ChannelState.CONNECTED
        self.pages.append(("view", len(view.members)))

    def site_status(self, site: str, status: str) -> None:
        assert self.channel.sites[site] == status
        self.pages.append(("site", site, status))


def diaries(profile: str, act: Callable[[Any, Random], object]) -> list[Diary]:
    """The diaries of all members that ran, after a calm seed."""
    kept: list[Diary] = []

    def start(channel: Any) -> Diary:
        kept.append(Diary(channel))
        return kept[-1]
    outcome = Trial(profile, start, act).run(calm(profile))
    assert outcome.violations == ()
    return kept


def test_messages_arrive_as_they_were_sent() -> None:
    def act(diary: Diary, rng: Random) -> None:
        diary.channel.send(jg.Message(None, b"same bytes", headers={200: b"header"}))
    messages = [page for page in diaries("group", act)[0].pages if page[0] == "message"]
    assert len(messages) > 10
    assert messages.count(("message", b"same bytes", True, {200: b"header"}, None)) == len(messages)


def test_unicasts_and_batches_arrive() -> None:
    def act(diary: Diary, rng: Random) -> None:
        diary.channel.send_batch(diary.channel.view.members[-1], [b"1", b"2"])
    pages = [page for diary in diaries("group", act) for page in diary.pages if page[0] == "message"]
    assert [page[1] for page in pages[:2]] == [b"1", b"2"]
    assert not any(to_all for _, _, to_all, *_ in pages)


def test_sites_and_origins_are_seen() -> None:
    pages = [page for diary in diaries("relay", lambda diary, rng: diary.channel.send(None, b"x"))
             for page in diary.pages]
    assert ("site", "SFO", "UP") in pages
    assert {page[4] for page in pages if page[0] == "message"} >= {None, "NYC", "SFO"}


def test_an_application_may_discard_its_own_messages() -> None:
    def act(diary: Diary, rng: Random) -> None:
        diary.channel.discard_own_messages = True
        diary.channel.send(None, diary.channel.name.encode())
    for diary in diaries("group", act):
        assert diary.channel.name.encode() not in [page[1] for page in diary.pages]


def test_later_happens_in_virtual_time() -> None:
    received: list[float] = []

    def act(diary: Diary, rng: Random) -> None:
        diary.channel.later(0.5, lambda asked: received.append(diary.channel.now - asked), diary.channel.now)
    diaries("group", act)
    assert received
    assert all(0.5 <= waited < 0.51 for waited in received)


def test_what_a_channel_refuses_is_an_error_with_the_reason() -> None:
    refused: list[str] = []

    def start(channel: Any) -> Diary:
        for call in (lambda: channel.send(None, b"too early"), lambda: channel.attach(None),
                     lambda: channel.connect("x", state_from=jg.COORDINATOR),
                     lambda: channel.send(None, b"x", until="stable")):
            with pytest.raises((jg.NotConnectedError, NotImplementedError, TypeError)) as error:
                call()
            refused.append(str(error.value))
        return Diary(channel)
    assert Trial("group", start).run(calm()).violations == ()
    assert "not connected" in refused[0]
    assert "building blocks" in refused[1]
    assert "get_state" in refused[2]
    assert "does not wait" in refused[3]


class Bare:
    """A receiver that does not set itself as the receiver of its channel."""

    def __init__(self, channel: Any) -> None:
        self.channel = channel
        self.received: list[bytes] = []

    def receive(self, message: jg.Message) -> None:
        self.received.append(message.payload)


def test_an_application_that_sets_no_receiver_is_it() -> None:
    def all_received(members: list[Bare]) -> None:
        assert all(member.received for member in members)
    assert Trial("group", Bare, lambda bare, rng: bare.channel.send(None, b"x"), at_end=all_received).run(
        calm()).violations == ()


def test_an_application_that_receives_nothing_is_an_error_at_start() -> None:
    outcome = Trial("group", lambda channel: object()).run(calm())
    assert outcome.guarantees == ("start",)
    assert "the application (object) has none of the methods of jg.Receiver" in outcome.violations[0]


def test_a_member_may_leave_by_itself() -> None:
    def act(diary: Diary, rng: Random) -> None:
        if diary.channel.name == "B":
            diary.channel.close()
    pages = {diary.channel.name: diary.channel.state for diary in diaries("group", act)}
    assert pages["B"] is jg.ChannelState.CLOSED
    assert pages["A"] is jg.ChannelState.CONNECTED


# --- what is found ----------------------------------------------------------------------------------------------------

def test_a_sound_application_passes_and_repeats_exactly() -> None:
    trial = Trial("group", Counter, add, at_end=all_are_equal)
    first, second = trial.run(3), trial.run(3)
    assert first.violations == ()
    assert first.digest == second.digest


def test_operations_draw_for_themselves() -> None:
    """What one operation draws does not move the others, so that shrinking leaves them as they are."""
    plan = Trial("group", Counter, add).plan(PROFILES["group"](3).plan)
    assert len(actions_of(plan)) == len(actions_of(PROFILES["group"](3).plan))
    assert [action.at_ns for action in plan.traffic] == [action.at_ns for action in PROFILES["group"](3).plan.traffic]


@pytest.mark.slow
@pytest.mark.parametrize("start", [Naive, KnownByName], ids=lambda cls: cls.__name__)
def test_a_planted_bug_is_found_and_shrunk(start: type) -> None:
    trial = Trial("group", start, add, at_end=all_are_equal)
    outcome = first_failure(trial)
    assert outcome.guarantees[0] == "all_are_equal"
    assert "the counters differ" in outcome.violations[0]
    least = trial.shrunk(outcome, ENOUGH_SECONDS)
    assert least.guarantees[0] == "all_are_equal"
    assert len(least.faults) <= 3
    assert len(least.traffic) <= 8
    assert trial.run(least.seed, least.part).digest == least.digest


@pytest.mark.slow
def test_a_receiver_that_raises_is_found() -> None:
    outcome = first_failure(Trial("group", Raising, add))
    assert outcome.guarantees[0] == "receive"
    assert "that is too much" in outcome.violations[0]


def test_messages_that_answer_each_other_without_end_are_found() -> None:
    outcome = Trial("group", Chatty, add).run(0)
    assert outcome.guarantees[0] in ("receive", "act", "view_accepted")
    assert "without end" in outcome.violations[0]


def test_what_must_always_hold_is_looked_at_after_every_step() -> None:
    def small(counters: list[Counter]) -> None:
        assert all(counter.value < 30 for counter in counters), "it grew"
    outcome = Trial("group", Counter, add, always=small).run(calm())
    assert outcome.guarantees == ("small",)
    assert outcome.found_ns < outcome.sim_ns


@pytest.mark.slow
def test_the_report_names_check_command_actions_and_draws() -> None:
    seed = first_failure(Trial("group", Naive, add, at_end=all_are_equal)).seed
    with pytest.raises(SimulationFailure) as failure:
        Simulation("group", seed, f"pytest x.py::test --jgroups-seeds {seed}:{seed + 1}", shrink_s=ENOUGH_SECONDS).run(
            Naive, act=add, at_end=all_are_equal)
    lines = str(failure.value).splitlines()
    assert lines[0] == f"seed {seed} of profile group breaks all_are_equal"
    assert any(line.startswith(f"run just that: pytest x.py::test --jgroups-seeds {seed}:{seed + 1} --jgroups-only ")
               for line in lines)
    assert any(re.search(r"sends to all: \w#1>\*/\d+\|\d", line) for line in lines)       # a payload under its name
    assert len(lines) < 120
