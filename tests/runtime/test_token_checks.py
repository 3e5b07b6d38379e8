"""Asking the application about tokens off the loop: answers, errors, checks that hang, many at once."""
from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

from jgroups_py.model.events import TokenChecked
from jgroups_py.model.outputs import CheckToken
from jgroups_py.model.token_check import TokenCheck
from jgroups_py.model.units import millis, seconds
from jgroups_py.runtime.token_checks import THREADS, TokenChecks
from tests.runtime.helpers import eventually


class Check(TokenCheck):
    """Does what the token says."""

    go = threading.Event()
    running: list[bytes] = []

    def check(self, token: bytes, key: str) -> Mapping[str, Any] | None:
        self.running.append(token)
        if token == b"raise":
            raise RuntimeError("a bug of the application")
        if token == b"list":
            return ["no mapping"]            # type: ignore[return-value]
        if token == b"hang":
            self.go.wait(20)
        return {"name": token.decode()} if token != b"refuse" else None


def asked(number: int, token: bytes, timeout_ns: int = seconds(20), check: str = "Check") -> CheckToken:
    return CheckToken(0, number, f"{__name__}:{check}", token, "key", timeout_ns)


def test_answers_come_once_for_each_question() -> None:
    got: dict[int, TokenChecked] = {}
    checks = TokenChecks(lambda net, event: got.__setitem__(event.number, event))
    for number, token in enumerate((b"A", b"refuse", b"raise", b"list")):
        checks.ask(asked(number, token))
    checks.ask(asked(4, b"A", check="NoSuch"))
    eventually(lambda: len(got) == 5)
    assert [(got[number].answer, got[number].problem) for number in range(5)] == [
        ({"name": "A"}, ""), (None, ""), (None, "its check raised an error"), (None, "its check returned no mapping"),
        (None, "its check raised an error")]


def test_checks_that_hang_are_answered_for_and_hold_no_more_than_their_threads() -> None:
    got: list[tuple[int, str]] = []
    Check.go.clear()
    Check.running.clear()
    checks = TokenChecks(lambda net, event: got.append((event.number, event.problem)))
    for number in range(10):
        checks.ask(asked(number, b"hang", millis(200)))
    eventually(lambda: len(got) == 10)
    assert {problem for _, problem in got} == {"its check took too long"}
    assert len(Check.running) == THREADS
    Check.go.set()
    # The late answers change nothing, and new questions are answered.
    checks.ask(asked(10, b"A"))
    eventually(lambda: (10, "") in got)
    assert len(got) == 11
    assert len(Check.running) == THREADS + 1
