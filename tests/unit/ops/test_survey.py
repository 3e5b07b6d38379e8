"""Surveys without a network: what is taken from an answer, what counts as one configuration, and how it is shown."""
from __future__ import annotations

import json
from typing import Any

import pytest

from jgroups_py.cli.members import survey_text
from jgroups_py.cli.site import survey_lines
from jgroups_py.config.load import load
from jgroups_py.model.address import Address
from jgroups_py.model.batch import Batch
from jgroups_py.ops.survey_answers import ANSWER_BYTES, parsed_answer, stack_digest

ANSWER: dict[str, Any] = {
    "clock": 1.5, "version": "0.1", "wire": 1, "stack": "ab", "uptime_seconds": 3.0, "view": "A|2", "coordinator": True,
    "relay": True, "delivered": 7, "backlog_bytes": 0, "stuck_seconds": 0.0, "kept_back_bytes": 0,
    "sites": {"SFO": {"status": "UP", "numbered": 5, "acknowledged": 3, "held": 2, "lost": 0}}}
A = Address(b"a" * 16, "A")


def parsed(*payloads: bytes) -> dict[str, Any] | None:
    return parsed_answer(Batch(A, None, payloads))


def text(**changes: Any) -> bytes:
    return json.dumps({**ANSWER, **changes}).encode()


def test_an_answer_is_taken_without_what_is_not_known():
    assert parsed(text(later="x")) == ANSWER


def test_an_answer_of_an_earlier_version_is_taken_without_what_it_does_not_report():
    later = {"sent": 3, "sent_bytes": 30, "delivered_bytes": 70, "suspects": ["61" * 16]}
    assert parsed(text(**later)) == {**ANSWER, **later}
    assert parsed(text(sent=3)) == {**ANSWER, "sent": 3}


@pytest.mark.parametrize("later", [{"sent": "3"}, {"sent_bytes": 1.5}, {"delivered_bytes": True}, {"suspects": "61"},
                                   {"suspects": [7]}])
def test_an_answer_with_a_later_field_of_another_kind_is_none(later: dict[str, Any]):
    assert parsed(text(**later)) is None


@pytest.mark.parametrize("field", ANSWER)
def test_an_answer_without_a_field_or_with_another_kind_of_value_is_none(field: str):
    assert parsed(json.dumps({name: value for name, value in ANSWER.items() if name != field}).encode()) is None
    assert parsed(text(**{field: ["x"]})) is None


@pytest.mark.parametrize("payload", [
    b"", b"[]", b"null", b"\xff\xfe", b"[" * 4000, text(clock=float("nan")), text(clock=float("inf")),
    text(clock=10 ** 400), text(delivered=1.5), text(delivered=True), text(sites={"SFO": 7}),
    text(x="y" * ANSWER_BYTES)])
def test_what_is_no_answer_is_none(payload: bytes):
    assert parsed(payload) is None
    assert parsed(payload, payload) is None


def test_a_digest_is_equal_for_members_of_one_stack_and_differs_for_other_properties():
    one = stack_digest(load("udp", {"bind_addr": "127.0.0.1", "mcast_port": 45000}))
    assert one == stack_digest(load("udp", {"bind_addr": "loopback", "mcast_port": 45001}))
    assert one != stack_digest(load("udp", {"ip_ttl": 1}))
    assert one != stack_digest(load("tcp"))


SURVEY = {
    "cluster": "chat", "asked_by": "A", "took_ms": 3.1, "not_asked": 0, "sites": {"SFO": "UP", "LON": "DOWN"},
    "agree": {"view": True, "stack": False, "version": True},
    "members": [{"site": "NYC", "name": "A\x1b[2J", "state": "alive", **ANSWER, "rtt_ms": 1.2, "clock_offset_ms": -4.0},
                {"site": "SFO", "name": "D", "state": "no answer"}]}


def test_who_did_not_answer_and_what_differs_is_shown_and_names_cannot_move_the_cursor():
    shown = survey_text(SURVEY)
    assert "\x1b" not in shown
    assert "chat, asked by A: 1 of 2 members answered in 3.1 ms" in shown
    assert "members differ in: stack" in shown
    assert "not asked: LON is DOWN" in shown
    assert [line.split()[:4] for line in shown.splitlines() if line.startswith("SFO")] == [["SFO", "D", "no", "answer"]]


def test_the_ledgers_of_all_relays_and_the_missing_ones_are_shown():
    assert [line.split() for line in survey_lines(SURVEY)[1:]] == [
        ["NYC", "A\\x1b[2J", "SFO", "UP", "5", "3", "2", "0"], ["no", "relay", "of", "SFO", "has", "answered"],
        ["not", "asked:", "LON", "is", "DOWN"]]
