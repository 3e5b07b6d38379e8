"""Members that find each other by files in a folder."""
from __future__ import annotations

from pathlib import Path

import pytest

import jgroups_py as jg
from tests.integration.members import free_ports

pytestmark = [pytest.mark.real, pytest.mark.slow]
STOCK = Path(__file__).parents[2] / "stacks" / "tcp.yaml"


def test_members_find_each_other_and_leave_no_files_behind(tmp_path: Path):
    folder = tmp_path / "members"
    lines = STOCK.read_text().splitlines()
    at = next(number for number, line in enumerate(lines) if "TCPPING" in line)
    stop = next(number for number, line in enumerate(lines) if "MERGE3" in line)
    stack = tmp_path / "stack.yaml"
    stack.write_text("\n".join([*lines[:at], f"- FILE_PING: {{location: '{folder}'}}", *lines[stop:]]))
    properties = {**free_ports("tcp"), "bind_addr": "127.0.0.1"}
    properties.pop("initial_hosts", None)
    with jg.JChannel(str(stack), "A", properties) as a, jg.JChannel(str(stack), "B", properties) as b:
        a.connect("files", timeout=120)
        b.connect("files", timeout=120)
        assert [str(member) for member in b.view.members] == ["A", "B"]
        files = [path for path in folder.rglob("*") if path.is_file()]
        assert len(files) == 2, files
    assert [path for path in folder.rglob("*") if path.is_file()] == []
