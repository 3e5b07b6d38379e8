"""A group that is split in two and heals: each half goes on, then one MergeView unites exactly the two."""
from __future__ import annotations

from pathlib import Path

import pytest

from jgroups_py.config.load import stacks_folder
from tests.integration.members import Group

pytestmark = pytest.mark.real


@pytest.fixture
def stack(tmp_path: Path) -> str:
    """The udp stack with PARTITION right above the transport."""
    text = (stacks_folder() / "udp.xml").read_text()
    assert "<PING" in text, "the packaged stack has PING above the transport"
    path = tmp_path / "udp.xml"
    path.write_text(text.replace("<PING", "<PARTITION/>\n    <PING", 1))
    return str(path)


def test_two_halves_of_five_members_go_on_and_merge_when_the_network_heals(stack: str):
    halves = (["A", "B"], ["C", "D", "E"])
    with Group(stack) as group:
        members = group.start("A B C D E")
        since = {member.name: member.mark() for member in members}
        for member in members:
            member.command("partition A,B|C,D,E")
        for half in halves:
            for name in half:
                group[name].view_of(half, since[name])
        for half in halves:
            group[half[0]].command(f"send only {half[0]}")
            for name in half:
                group[name].wait(lambda event, text=f"only {half[0]}": event.get("payload") == text, "message")
        since = {member.name: member.mark() for member in members}
        for member in members:
            member.command("heal")
        for member in members:
            view = member.view_of("ABCDE", since[member.name])
            subgroups = sorted(sorted(subgroup) for subgroup in view["subgroups"])
            assert subgroups == [list(half) for half in halves], f"S8: the MergeView names other groups: {view}"
