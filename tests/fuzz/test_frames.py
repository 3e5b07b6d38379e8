"""A short run of the edge fuzz, and what it finds in a core that is wrong; `tox -e fuzz` feeds 500,000 a stack."""
from __future__ import annotations

from collections.abc import Callable
from time import process_time
from typing import Any

import pytest

from jgroups_py.model.outputs import Frame
from jgroups_py.protocols.fd_all.protocol import FdAll
from jgroups_py.protocols.gms.leave import LeaveClient
from tests.fuzz.frames import FRAME_SECONDS, Tally, campaign
from tests.fuzz.worlds import STACKS, place_refusal, refusal

FRAMES = 3000


def attacked(stack: str, frames: int, seed: int = 0) -> Tally:
    tally = Tally()
    for _ in campaign(stack, seed, frames, tally):
        pass
    return tally


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("stack", STACKS)
def test_hostile_frames_end_no_member_cost_little_and_the_group_recovers(stack: str) -> None:
    tally = attacked(stack, FRAMES)
    assert not tally.causes, "\n".join(f"{escape.cause}\n{escape.command}\n{escape.detail}"
                                       for escape in tally.first.values())
    assert tally.frames == FRAMES


def test_a_run_is_the_same_for_the_same_seed() -> None:
    one, other = (attacked("udp", 500, seed=3) for _ in range(2))
    assert (one.causes, one.episodes) == (other.causes, other.episodes)


def raising(self: Any, *_: Any) -> None:
    raise KeyError("planted")


def endless(self: Any, *_: Any) -> None:
    until_s = process_time() + 2 * FRAME_SECONDS
    while process_time() < until_s:
        pass


def closing(self: LeaveClient, *_: Any) -> None:
    self.layer.leave_group()


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize(("owner", "method", "planted", "frames", "cause"), [
    (FdAll, "on_heartbeat", raising, 4000, "exception: KeyError in"),
    (FdAll, "on_heartbeat", endless, 800, "exception: Endless in"),
    (LeaveClient, "on_leave_request", closing, 4000, "ended: left")])
def test_a_core_that_is_wrong_is_found(
    owner: type, method: str, planted: Callable[..., None], frames: int, cause: str, monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An endless loop needs few frames: each costs what a frame may take, or what a burst may."""
    planted.__dict__.update(owner.__dict__[method].__dict__)
    monkeypatch.setattr(owner, method, planted)
    assert any(found.startswith(cause) for found in attacked("udp", frames).causes)


@pytest.mark.parametrize("host", ["\0", "a b", "", "x" * 254, "\u2603", "no such host;:"])
def test_places_that_sockets_refuse_are_refused(host: str) -> None:
    assert place_refusal((host, 7800))
    assert refusal(Frame(0, (host, 7800), [b"x"]), stream=True)


def test_other_places_are_not_refused() -> None:
    assert [place_refusal((host, 7800)) for host in ("10.0.0.1", "::1", "a.example", "localhost")] == [""] * 4
    assert place_refusal(("10.0.0.1", 0)) == "port 0"
    assert refusal(Frame(0, None, [b"x" * 65_508]), stream=False)
    assert not refusal(Frame(0, None, [b"x" * 65_508]), stream=True)
