"""The virtual world by itself: frames, sockets, links, faults, time."""
from __future__ import annotations

import pytest

from jgroups_py.model.errors import ChannelClosedError, NotConnectedError
from jgroups_py.model.events import LinkDown, LinkUp
from jgroups_py.model.outputs import LOCAL
from jgroups_py.model.units import millis, seconds
from jgroups_py.simulator import App, Weather, World
from jgroups_py.simulator.history import MessageDelivered
from tests.simulator.handmade import Dial, HangUp, Solo, Wires, stack_of


def world_of(names: str, transport: object = "UDP", seed: int = 1, cls: type = Solo) -> World:
    world = World(seed)
    for name in names:
        world.start(name, stack_of(transport, cls))
    world.run_for(millis(100))
    return world


def test_a_multicast_reaches_every_other_member_and_a_unicast_one() -> None:
    world = world_of("ABC")
    world.send("A", None, [b"x", b"y"])
    world.send("A", "C", [b"z"])
    world.run_for(millis(10))
    assert world.delivered("B") == world.delivered("C") == [b"x", b"y"]
    assert (world.delivered("B", unicast=True), world.delivered("C", unicast=True)) == ([], [b"z"])


def test_members_with_other_multicast_addresses_are_not_reached() -> None:
    world = world_of("AB")
    world.start("C", stack_of(("UDP", {"mcast_port": 50000})))
    world.run_for(millis(100))
    world.send("A", None, [b"x"])
    world.run_for(millis(10))
    assert world.delivered("C") == []
    assert world.delivered("B") == [b"x"]


def test_a_partition_stops_datagrams_until_it_heals() -> None:
    world = world_of("ABC")
    world.partition([["A", "B"], ["C"]])
    world.send("A", None, [b"lost"])
    world.run_for(millis(10))
    world.heal()
    world.send("A", None, [b"found"])
    world.run_for(millis(10))
    assert world.delivered("B") == [b"lost", b"found"]
    assert world.delivered("C") == [b"found"]


def test_a_cut_has_one_direction() -> None:
    world = world_of("AB")
    world.cut("A", "B")
    world.send("A", None, [b"x"])
    world.send("B", None, [b"y"])
    world.run_for(millis(10))
    assert world.delivered("B") == []
    assert world.delivered("A") == [b"y"]


def test_cuts_that_overlap_heal_each_by_itself() -> None:
    world = world_of("ABC")
    split = world.partition(["A", "BC"])
    world.cut("A", "B")
    world.mend_cut(split)
    for name in "AB":
        world.send(name, None, [name.encode()])
    world.run_for(millis(10))
    assert [sorted(world.delivered(name)) for name in "ABC"] == [[b"B"], [], [b"A", b"B"]]
    world.heal()
    world.send("A", None, [b"again"])
    world.run_for(millis(10))
    assert world.delivered("B") == [b"again"]


def test_bad_weather_loses_and_duplicates() -> None:
    world = world_of("AB")
    world.set_weather(Weather(loss_ratio=0.3, duplicate_ratio=0.3))
    for number in range(200):
        world.send("A", None, [b"%d" % number])
        world.run_for(millis(10))
    got = world.delivered("B")
    assert 100 < len(dict.fromkeys(got)) < 180
    assert len(got) > len(dict.fromkeys(got)) + 20


def test_good_weather_keeps_the_order_and_reordering_does_not() -> None:
    world = world_of("AB")
    sent = [b"%03d" % number for number in range(200)]

    def send_all() -> None:
        for payload in sent:
            world.send("A", None, [payload])
            world.run_for(world.tick_ns)
        world.run_for(millis(20))
    send_all()
    assert world.delivered("B") == sent
    world.process("B").app.log.clear()
    world.set_weather(Weather(reorder_ratio=0.2))
    send_all()
    assert world.delivered("B") != sent
    assert sorted(world.delivered("B")) == sent


def test_a_paused_process_handles_everything_when_it_goes_on() -> None:
    world = world_of("AB")
    world.pause("B")
    world.send("A", None, [b"x"])
    world.run_for(seconds(1))
    assert world.delivered("B") == []
    world.resume("B")
    world.run_for(millis(1))
    assert world.delivered("B") == [b"x"]


def test_a_crashed_process_gets_nothing_and_a_restart_is_a_new_incarnation() -> None:
    world = world_of("AB")
    old = world.address("B")
    world.crash("B")
    world.send("A", None, [b"x"])
    world.run_for(millis(10))
    world.start("B", stack_of("UDP"))
    world.run_for(millis(10))
    world.send("A", None, [b"y"])
    world.run_for(millis(10))
    assert world.delivered("B") == [b"y"]
    assert world.address("B") != old
    assert world.process("B").incarnation == "B#2"


def test_sending_is_refused_as_a_channel_would() -> None:
    world = World(1)
    world.start("A", stack_of("UDP"))
    with pytest.raises(NotConnectedError):
        world.send("A", None, [b"x"])
    world.run_for(millis(10))
    world.leave("A")
    with pytest.raises(ChannelClosedError):
        world.send("A", None, [b"x"])


def test_processes_on_one_host_get_different_ports() -> None:
    world = World(1)
    transport = ("TCP", {"bind_port": 7800})
    for name in "AB":
        world.start(name, stack_of(transport), host="10.9.9.9")
    world.run_for(millis(10))
    assert [world.process(name).sockets[LOCAL].physical for name in "AB"] == [("10.9.9.9", 7800), ("10.9.9.9", 7801)]


def test_a_port_taken_on_the_host_closes_the_node_with_the_reason() -> None:
    world = World(1)
    for name in "AB":
        world.start(name, stack_of(("TCP", {"bind_port": 7800, "port_range": 0})), host="10.9.9.9")
    world.run_for(millis(10))
    assert "no free port" in (world.process("B").closed_reason or "")


# --- links ------------------------------------------------------------------------------------------------------------

def wires(world: World, name: str) -> Wires:
    found: Wires = world.node(name).local.find(Wires)
    return found


def dialled(timeout_ns: int = seconds(1)) -> World:
    """A has a link to B, and the event that it is up."""
    world = world_of("AB", cls=Wires)
    dial(world, 1, timeout_ns)
    world.run_for(millis(10))
    assert wires(world, "A").news == [LinkUp(1, world.address("B").raw)]
    wires(world, "A").news.clear()
    return world


def dial(world: World, number: int, timeout_ns: int = seconds(1)) -> None:
    """A opens a link to where B listens, or listened."""
    world.inject("A", Dial(number, wires(world, "B").at, timeout_ns))


def test_a_crash_breaks_links_at_once_and_opening_again_is_refused() -> None:
    world = dialled()
    world.crash("B")
    world.run_for(millis(10))
    assert wires(world, "A").news == [LinkDown(1, refused=False)]
    dial(world, 2)
    world.run_for(millis(10))
    assert wires(world, "A").news[1:] == [LinkDown(2, refused=True)]


def test_a_graceful_end_announces_itself() -> None:
    world = dialled()
    world.leave("B")
    world.run_for(millis(10))
    assert wires(world, "A").news == [LinkDown(1, refused=False, graceful=True)]


def test_a_host_without_power_is_silent_until_the_timeout() -> None:
    world = dialled()
    world.crash("B", power=True)
    dial(world, 2)
    world.run_for(millis(900))
    assert wires(world, "A").news == []
    world.run_for(millis(200))
    assert wires(world, "A").news == [LinkDown(2, refused=False)]


def test_a_crash_behind_a_partition_is_noticed_when_it_heals() -> None:
    world = dialled()
    world.partition([["A"], ["B"]])
    world.crash("B")
    world.run_for(seconds(2))
    assert wires(world, "A").news == []
    world.heal()
    world.run_for(millis(200))
    assert wires(world, "A").news == [LinkDown(1, refused=False)]


def test_a_paused_listener_does_not_greet() -> None:
    world = dialled()
    world.pause("B")
    dial(world, 2)
    world.run_for(millis(500))
    assert wires(world, "A").news == []
    world.resume("B")
    world.run_for(millis(200))
    assert wires(world, "A").news == [LinkUp(2, world.address("B").raw)]


def test_nothing_arrives_over_a_link_that_the_member_closed() -> None:
    world = dialled()
    world.inject("A", HangUp(1))
    world.crash("B")
    world.run_for(seconds(1))
    assert wires(world, "A").news == []


# --- streams, slow applications, repeatability ------------------------------------------------------------------------

class Echo(App):
    """Sends back to the sender what it gets by multicast, from within the callback."""

    def delivered(self, batch) -> None:  # type: ignore[no-untyped-def]
        super().delivered(batch)
        if batch.dest is None:
            self.world.send(self.process.name, batch.src, batch.payloads)


def test_an_application_may_send_from_its_callback() -> None:
    world = world_of("A")
    world.start("B", stack_of("UDP"), app=Echo())
    world.run_for(millis(10))
    world.send("A", None, [b"x"])
    world.run_for(millis(10))
    assert world.delivered("A", unicast=True) == [b"x"]


def test_a_slow_application_takes_its_time() -> None:
    world = world_of("A")
    world.start("B", stack_of("UDP"), app=App(rate=100))
    world.run_for(millis(10))
    for _ in range(50):
        world.post("A")
        world.run_for(millis(1))
    world.run_for(millis(205))
    assert 20 <= len(world.delivered("B")) <= 30
    world.run_for(seconds(1))
    assert len(world.delivered("B")) == 50


def test_one_seed_gives_one_history_and_two_give_two() -> None:
    def history(seed: int) -> str:
        world = world_of("ABC", seed=seed)
        world.set_weather(Weather(loss_ratio=0.2, duplicate_ratio=0.2, reorder_ratio=0.2))
        for _ in range(50):
            world.post("A")
            world.run_for(millis(1))
        assert any(isinstance(entry, MessageDelivered) for entry in world.history.entries)
        return world.history.digest()
    assert history(1) == history(1) != history(2)
