"""A member that starts while the others do not answer founds a group of its own; the groups merge; then a site is met.

Whichever of the two leads the merged group, it has not received what the other one multicast before.
"""
from __future__ import annotations

import signal

import pytest

from jgroups_py.system.free_ports import free_range
from tests.integration.members import STARTING_SECONDS, Group, Member

pytestmark = pytest.mark.real


def wait_for_global_view(member: Member, sizes: dict[str, int], since: int = 0) -> None:
    member.wait(lambda event: event["event"] == "global_view" and
                {site: len(names) for site, names in event["sites"].items()} == sizes, f"global view {sizes}", since,
                2 * STARTING_SECONDS)


def wait_for_message(member: Member, text: str, since: int = 0) -> None:
    member.wait(lambda event: event.get("payload") == text, f"message {text!r}", since)


def test_a_site_that_is_met_after_a_merge_gets_what_every_member_of_the_merged_group_multicasts() -> None:
    first = free_range(20)
    bridge = {"bridge_port": first, "bridge_hosts": f"127.0.0.1[{first}]", "bridge_port_range": 19}
    with Group("nyc", "nyc", **bridge) as nyc, Group("sfo", "sfo", **bridge) as sfo:
        for name in "BC":
            nyc.spawn(name)
        nyc.settle("BC", 2 * STARTING_SECONDS)
        for name in "BC":
            nyc[name].command(f"send early of {name}")
        for name in "BC":
            wait_for_message(nyc[name], "early of B")
            wait_for_message(nyc[name], "early of C")
        for name in "BC":
            nyc[name].signal(signal.SIGSTOP)
        founder = nyc.spawn("X")
        founder.view_of("X", 0, 2 * STARTING_SECONDS)
        founder.command("send early of X")
        wait_for_message(founder, "early of X")
        for name in "BC":
            nyc[name].signal(signal.SIGCONT)
        nyc.settle("BCX", 2 * STARTING_SECONDS)

        d = sfo.spawn("D")
        for member in (*nyc.members.values(), d):
            wait_for_global_view(member, {"NYC": 3, "SFO": 1})
        for name in "BCX":
            nyc[name].command(f"send late of {name}")
        for name in "BCX":
            wait_for_message(d, f"late of {name}")
        lost = [(event["site"], event["origin"], event["first"], event["stop"]) for member in (d, *nyc.members.values())
                for event in member.events if event["event"] == "lost"]
        # B and C have missed what X multicast while it was alone; no other message is reported as lost.
        assert lost == [("NYC", "X", 1, 2)] * 2
