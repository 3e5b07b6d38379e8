"""GMS: groups whose view counters are too far apart to be adopted at once unite all the same, step by step."""
from __future__ import annotations

import pytest

from jgroups_py.model.counter_jumps import MAX_JUMP
from jgroups_py.model.events import RaiseView
from tests.unit.protocols.gms_group import Members, heal, in_view, split


def raised(side: str, steps: int) -> Members:
    """ABCD, split to AB and CD; the coordinator of one side has counted far ahead, as RELAY asks where it is fenced."""
    members = in_view("ABCD")
    split(members, "AB", "CD")
    for _ in range(2 * steps):
        members[side].down(RaiseView(steps * MAX_JUMP + 300))
        members.run(200)
    members[side].down(RaiseView(steps * MAX_JUMP + 300))
    members.run(200)
    return members


@pytest.mark.parametrize("steps", [1, 3])
@pytest.mark.parametrize("side", ["A", "C"])
def test_a_group_with_a_far_lower_counter_catches_up_in_steps_and_merges(side: str, steps: int) -> None:
    members = raised(side, steps)
    far = members.view(side)
    assert far is not None
    assert far.id.counter > steps * MAX_JUMP
    assert (members.view("AC"[side == "A"]) or far).id.counter < 100
    for _ in range(6 * steps):
        heal(members, *dict.fromkeys(members.names_in_view(name)[0] for name in "ABCD"))
        members.run(3000)
        if members.agree("ABCD"):
            break
    assert members.agree("ABCD")


def test_no_step_is_taken_towards_a_counter_that_leaves_no_room() -> None:
    members = in_view("AB")
    gms = members.gms("A")
    before = gms.group.counter
    gms.proposer.approach((1 << 62) - 1)
    members.run(500)
    assert gms.group.counter == before
