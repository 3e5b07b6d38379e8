"""Real members of the packaged stacks under hostile frames: none ends, memory stays bounded, and the group works on."""
from __future__ import annotations

from time import sleep

import pytest

from tests.integration.hostile_kit import Besieger
from tests.integration.members import Group

pytestmark = [pytest.mark.real, pytest.mark.slow, pytest.mark.timeout(180)]

ATTACK_SECONDS = 6.0
LEAST_FRAMES = 1000
GROWTH_MB = 20.0
SITES = {"nyc": {"site": "NYC", "bridge_hosts": "127.0.0.1[1]", "bridge_port_range": 0}}


def rss_mb(group: Group) -> dict[str, float]:
    return {name: float(group[name].stats()["rss_mb"]) for name in "ABC"}


@pytest.mark.parametrize("stack", ["udp", "tcp", "nyc", "swim", "flow"])
def test_members_under_hostile_frames_stay_small_and_together(stack: str) -> None:
    with Group(stack) as group:
        group.start("A B C")
        group["A"].command("flood 20000 1000")              # buffers have grown to what honest messages need
        for name in "ABC":
            group[name].received_all({"A": 20_000})
        before = rss_mb(group)
        with Besieger(group) as besieger:
            sleep(ATTACK_SECONDS)
        assert besieger.frames > LEAST_FRAMES
        grown = {name: now - before[name] for name, now in rss_mb(group).items()}
        assert max(grown.values()) < GROWTH_MB, grown
        since = {name: group[name].mark() for name in "ABC"}
        group.start("D")                                 # a later joiner finds all, and all receive its message
        group["D"].command("send after the attack")
        for name in "ABC":
            group[name].wait(lambda event: event["event"] == "message" and event["payload"] == "after the attack",
                             "message of D", since[name])
