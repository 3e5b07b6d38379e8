"""SharedTable on real channels: writes show up, late comers catch up, and a bug of the application is only counted."""
from __future__ import annotations

import time
from collections.abc import Callable

import pytest

import jgroups_py as jg
from jgroups_py.blocks.anti_entropy import Change, SharedTable

pytestmark = pytest.mark.real
FAST = {"bind_addr": "127.0.0.1", "mcast_port": "45691"}


def until(holds: Callable[[], bool]) -> None:
    """Wait until it holds."""
    deadline = time.monotonic() + 5
    while not holds():
        assert time.monotonic() < deadline, "it never came to that"
        time.sleep(0.005)


def test_tables_become_equal_and_a_late_comer_catches_up() -> None:
    changes: list[Change] = []
    with jg.JChannel("udp", "A", FAST) as a, jg.JChannel("udp", "B", FAST) as b:
        one = SharedTable(a, interval=0.2)
        one.put(b"before", b"connecting")                # nobody hears that
        a.connect("tables")
        one.put(b"early", b"1")
        b.connect("tables")
        other = SharedTable(b, interval=0.2, changed=changes.append)
        until(lambda: other.items() == {b"before": b"connecting", b"early": b"1"})
        one.put(b"late", b"2")
        one.delete(b"early")
        until(lambda: one.root == other.root)
        assert other.items() == one.items() == {b"before": b"connecting", b"late": b"2"}
        assert [(change.key, change.after) for change in changes[-2:]] == [(b"late", b"2"), (b"early", None)]
        with pytest.raises(ValueError, match="service 1 is taken"):
            SharedTable(a)
        one.close()
        other.close()
