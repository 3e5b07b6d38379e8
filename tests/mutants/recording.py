"""A plugin of pytest (`-p tests.mutants.recording`): writes down what each test executes of marked sources.

One line of JSON a test that passed, in the file RECORD of the working directory; tests that fail without any mutant
judge nothing, so they are not in it.
"""
from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.mutants import lines

RECORD = "executed.jsonl"
_passed: dict[str, bool] = {}


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Around one test."""
    lines.forget()
    began_s = time.process_time()
    result = yield
    if _passed.pop(item.nodeid, False):
        found = {"test": item.nodeid, "cpu_s": round(time.process_time() - began_s, 4), "lines": lines.executed()}
        with Path(RECORD).open("a", encoding="utf-8") as file:
            file.write(json.dumps(found) + "\n")
    return result


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Every phase of a test has to pass, and its call must have been made."""
    _passed[report.nodeid] = report.passed and (report.when == "setup" or _passed.get(report.nodeid, False))
