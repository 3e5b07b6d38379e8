"""What a survey takes from the network: answers that nobody asked for, questions without end, of unknown kinds."""
from __future__ import annotations

from collections.abc import Iterator

import pytest

import jgroups_py as jg
from jgroups_py.model.address import Address
from jgroups_py.model.batch import Batch
from jgroups_py.model.outputs import Deliver
from jgroups_py.ops.survey import MOST_ANSWERS, QUESTION, Survey
from jgroups_py.ops.watch import ask_node
from jgroups_py.system.free_ports import free_range
from jgroups_py.wire.block_headers import SURVEY_SERVICE, Answer, Ask

pytestmark = pytest.mark.real
STRANGER = Address(b"s" * 16, "stranger")


@pytest.fixture
def channel() -> Iterator[jg.JChannel]:
    with jg.JChannel("udp", "A", {"mcast_port": free_range()}) as made:
        made.connect("chat")
        yield made


def arrive(channel: jg.JChannel, *batches: Batch) -> list[Deliver]:
    """What the application gets of batches that arrive in one round; all that follows from them has been done."""
    survey = Survey.of(channel)
    kept: list[Deliver] = ask_node(channel, lambda node, now_ns: survey.early([Deliver(batch) for batch in batches]))
    ask_node(channel, lambda node, now_ns: True)             # the questions are answered in the rounds between
    return kept


def test_questions_are_answered_twenty_times_a_second_and_unknown_ones_never(channel: jg.JChannel):
    survey, me = Survey.of(channel), channel.me
    arrive(channel, *(Batch(STRANGER, me, (QUESTION,), (Ask(SURVEY_SERVICE, number),)) for number in range(200)))
    assert MOST_ANSWERS <= survey.counters["questions_answered"] <= 2 * MOST_ANSWERS
    answered = survey.counters["questions_answered"]
    arrive(channel, *(Batch(STRANGER, me, payloads, (Ask(SURVEY_SERVICE, 1),)) for payloads in (
        (), (b"stop",), (QUESTION, QUESTION))))
    assert survey.counters["questions_answered"] == answered
    assert survey.counters["questions_refused"] == 203 - answered


def test_answers_that_nobody_asked_for_are_counted_and_reach_no_application(channel: jg.JChannel):
    survey = Survey.of(channel)
    survey.take()
    assert arrive(channel, *(Batch(STRANGER, channel.me, (b"{}",), (Answer(SURVEY_SERVICE, number),))
                             for number in range(5))) == []
    assert survey.counters["answers_unexpected"] == 5
    assert [member["name"] for member in survey.take()["members"]] == ["A"]


def test_what_is_for_others_goes_on(channel: jg.JChannel):
    others = [Batch(STRANGER, channel.me, (b"x",)), Batch(STRANGER, channel.me, (b"x",), (Ask(7, 1),))]
    assert [output.batch for output in arrive(channel, *others)] == others
