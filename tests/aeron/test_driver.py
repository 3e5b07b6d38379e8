"""Names and flow control beside Aeron's own C media driver: frames, names both ways, group sizes, every form of fc."""
from __future__ import annotations

from collections.abc import Callable
from time import monotonic, sleep

import pyaeron

from jgroups_py.blocks.name_service import NameService
from jgroups_py.model.errors import ConfigError
from jgroups_py.protocols.flow import FlowControlConfig
from jgroups_py.protocols.flow.strategies import Min, StrategySettings
from jgroups_py.system.free_ports import free_range
from tests.aeron.driver import RawReceiver, driver

WINDOW = 131_072
FOUND_SECONDS = 2.5


def within(seconds: float, holds: Callable[[], object]) -> float:
    """Wait until `holds`; how long it took."""
    began = monotonic()
    while not holds():
        assert monotonic() - began < seconds, "not in time"
        sleep(0.01)
    return monotonic() - began


def opens(client: object, channel: str) -> bool:
    try:
        client.add_publication(channel, 1001).close()          # type: ignore[attr-defined]
    except pyaeron.AeronError:
        return False
    return True


def test_accept_4_1_a_driver_resolves_a_members_name_and_the_member_the_drivers() -> None:
    ours, theirs = free_range(), free_range()
    with driver(name="aeron", interface=f"127.0.0.1:{theirs}", bootstrap_neighbor=f"127.0.0.1:{ours}") as client:
        assert not opens(client, "aeron:udp?endpoint=jgroups:24325")
        with NameService("jgroups", f"127.0.0.1:{ours}", bootstrap=f"127.0.0.1:{theirs}") as names:
            within(FOUND_SECONDS, lambda: names.find("aeron") == ("127.0.0.1", theirs))
            within(FOUND_SECONDS, lambda: opens(client, "aeron:udp?endpoint=jgroups:24325"))
            assert names.neighbours() == [("127.0.0.1", theirs)]
            within(3.0, lambda: ("aeron", theirs) in names.known())
            assert names.counters.get("frames_malformed", 0) == 0


def test_accept_4_1_through_a_driver_two_members_find_each_other() -> None:
    ports = [free_range() for _ in range(3)]
    with driver(name="aeron", interface=f"127.0.0.1:{ports[0]}", bootstrap_neighbor="127.0.0.1:1"), \
            NameService("one", f"127.0.0.1:{ports[1]}", bootstrap=f"127.0.0.1:{ports[0]}") as one, \
            NameService("two", f"127.0.0.1:{ports[2]}", bootstrap=f"127.0.0.1:{ports[0]}") as two:
        within(5.0, lambda: one.find("two") == ("127.0.0.1", ports[2]))
        within(5.0, lambda: two.find("one") == ("127.0.0.1", ports[1]))


def test_accept_4_12_a_group_of_three_is_connected_with_the_third_as_a_group_of_this_package_is() -> None:
    port = free_range()
    ours = Min(StrategySettings(WINDOW, None, 3), 0)
    with driver() as client:
        publication = client.add_publication(
            f"aeron:udp?control=127.0.0.1:{port}|control-mode=dynamic|fc=min,g:/3", 1002)
        receiver = RawReceiver(("127.0.0.1", port), publication)
        receiver.ask_for_setup()
        for who in (1, 2, 2):
            receiver.status(who, 0, WINDOW)
            ours.status(who, 0, WINDOW, None)
            sleep(0.2)
            assert publication.is_connected == ours.connected is False
        receiver.status(3, 0, WINDOW)
        ours.status(3, 0, WINDOW, None)
        within(2.0, lambda: publication.is_connected)
        assert ours.connected
        assert publication.offer(b"x") is True
        receiver.close()


ALIKE = ["max", "min", "min,g:/3", "min,t:200ms", "min,g:/3,t:5s", "min,g:123/4", "tagged,g:1001",
         "tagged,g:1001/3,t:5s", "tagged,t:5s,g:1001/3,rrwm:8", "tagged,g:3000000000/0", "tagged,g:-1",
         "tagged,g:9223372036854775807/1", "min,rrwm:8",
         "minute", "tagged,g:", "tagged,g:/", "tagged,g:100/", "tagged,g:100/,t:5s", "tagged,g:100,t:", "min,t:",
         "min,t:-1s", "min,t:soon", "min,g:/x", "min,g:/-1", "tagged,g:18446744073709551616", "min,,t:5s", "min,x:1",
         "min,g", "g:/3", ",g:/3", "min,rrwm:0", "min,rrwm:"]
ONLY_AERON = ["tagged", "tagged,g:/3", "min,t:5", "min,t:0s", "min,g:x", "min,g:/3,g:/4", "min,t:5s,t:6s"]
"""Taken by the driver: a tag of its own settings, a time in ns, no time, a tag that min need not read, and twice."""
ONLY_OURS = ["max,g:7/2,t:5s"]
"""Options that mean nothing to max are ignored, as the Java driver does."""


def ours_takes(fc: str) -> bool:
    try:
        FlowControlConfig(fc=fc)
    except ConfigError:
        return False
    return True


def test_accept_4_12_the_property_fc_takes_what_aeron_takes_but_for_what_is_listed() -> None:
    forms = [*ALIKE, *ONLY_AERON, *ONLY_OURS]
    with driver() as client:
        taken = {fc: opens(client, f"aeron:udp?control=127.0.0.1:{free_range()}|control-mode=dynamic|fc={fc}")
                 for fc in forms}
    assert [fc for fc in ALIKE if taken[fc] != ours_takes(fc)] == []
    assert [fc for fc in ONLY_AERON if not taken[fc] or ours_takes(fc)] == []
    assert [fc for fc in ONLY_OURS if taken[fc] or not ours_takes(fc)] == []
