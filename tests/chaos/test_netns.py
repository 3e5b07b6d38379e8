"""Two sites on hosts of their own (network namespaces): bad links, partitions, also of one direction, and dead relays.

Every run ends with the histories of all processes before the checkers of the simulator. Needs root, iproute2 and
nftables; where they are missing it is skipped with the reason, but fails in CI. The short selection runs in ./test,
all by
`tox -e netns`.
"""
from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import attrs
import pytest

from tests.chaos import netns
from tests.chaos.forwarder import Weather
from tests.chaos.netns import FAR, WAN, Hosts
from tests.chaos.sites import NAMES, SITES, Sites
from tests.chaos.verdict import Noted, Verdict, show

RATE = 20.0                          # multicasts a second of each member
WARM_UP_S = 1.5
BEFORE_S, DURING_S, AFTER_S = 3.0, 5.0, 3.0      # before, during and after a relay is missing; the harm lasts all along
Harm = Callable[[Hosts, Sites], None]


@pytest.fixture(autouse=True, scope="module")
def _namespaces_can_be_made() -> None:
    why_not = netns.missing()
    if why_not and os.environ.get("CI"):
        pytest.fail(why_not)
    if why_not:
        pytest.skip(why_not)


@attrs.frozen
class Scene:
    """A harm. lossless: whether even a declared loss is a violation; where a site is split, its halves go their ways
    and what one of them alone acknowledged is declared lost to the other."""

    harm: Harm
    lossless: bool = True


def wan(weather: Weather) -> Scene:
    """Weather between the sites."""
    return Scene(lambda hosts, sites: hosts.weather(WAN, weather))


def far_links(weather: Weather) -> Scene:
    """Weather between one member of each site and the others."""
    def harm(hosts: Hosts, sites: Sites) -> None:
        for name in FAR:
            hosts.weather(name, weather)
    return Scene(harm)


def loss_everywhere(loss: float) -> Scene:
    """Every member misses a share of all packets."""
    def harm(hosts: Hosts, sites: Sites) -> None:
        for name in NAMES:
            hosts.rules(name, loss=loss)
    return Scene(harm)


def narrow(kbit: int) -> Scene:
    """Every member's link has this rate."""
    def harm(hosts: Hosts, sites: Sites) -> None:
        for name in NAMES:
            hosts.narrow(name, kbit)
    return Scene(harm)


def split_site(hosts: Hosts, sites: Sites) -> None:
    """The relay of NYC is alone within its site, but not on the bridge."""
    relay = sites.relay("NYC").name
    hosts.split([relay], [name for name in SITES["NYC"] if name != relay])


def split_sites(hosts: Hosts, sites: Sites) -> None:
    """Nothing between the sites."""
    hosts.split(*SITES.values())


def deaf_relay(hosts: Hosts, sites: Sites) -> None:
    """The relay of NYC receives nothing from its site, which receives its frames."""
    relay = sites.relay("NYC").name
    hosts.rules(relay, [name for name in SITES["NYC"] if name != relay])


def mute_relay(hosts: Hosts, sites: Sites) -> None:
    """No member of NYC receives frames of its relay, which receives theirs."""
    relay = sites.relay("NYC").name
    for name in SITES["NYC"]:
        if name != relay:
            hosts.rules(name, [relay])


def one_way_bridge(hosts: Hosts, sites: Sites) -> None:
    """SFO receives nothing from NYC, which receives frames of SFO."""
    for name in SITES["SFO"]:
        hosts.rules(name, SITES["NYC"])


def one_pair(hosts: Hosts, sites: Sites) -> None:
    """The two relays receive nothing from each other; all other paths work."""
    one, other = sites.relay("NYC").name, sites.relay("SFO").name
    hosts.split([one], [other])


STORM = Weather(delay_ms=60, jitter_ms=40, loss=0.05, duplicate=0.1, reorder=0.2, corrupt=0.02)
SCENES: dict[str, Scene] = {
    "WAN: 1 % loss": wan(Weather(loss=0.01)),
    "WAN: 20 % loss": wan(Weather(loss=0.2)),
    "WAN: 20 ms, jitter": wan(Weather(delay_ms=20, jitter_ms=15)),
    "WAN: 200 ms, jitter": wan(Weather(delay_ms=200, jitter_ms=100)),
    "WAN: a quarter reordered": wan(Weather(delay_ms=40, reorder=0.25)),
    "WAN: a fifth doubled": wan(Weather(duplicate=0.2)),
    "WAN: a twentieth damaged": wan(Weather(corrupt=0.05)),
    "WAN: storm": wan(STORM),
    "far members: storm": far_links(STORM),
    "all hosts: 5 % loss": loss_everywhere(0.05),
    "all hosts: 20 % loss": loss_everywhere(0.2),
    "all hosts: 1 Mbit/s": narrow(1000),
    "NYC's relay is cut off from its site": Scene(split_site, lossless=False),
    "NYC's relay is deaf to its site": Scene(deaf_relay, lossless=False),
    "NYC's relay is mute to its site": Scene(mute_relay, lossless=False),
    "the sites are apart": Scene(split_sites),
    "SFO receives nothing from NYC": Scene(one_way_bridge),
    "the relays receive nothing from each other": Scene(one_pair),
}


def run(scene: Scene, victims: str, out: Path) -> Verdict:
    """One run; the relay of site `victims` is killed in the middle, "" for none."""
    with Hosts() as hosts, Sites(hosts, out) as sites:
        sites.start_all()
        sites.load(RATE)
        sites.go_on(WARM_UP_S)
        sites.remark("the harm begins")
        scene.harm(hosts, sites)
        sites.go_on(BEFORE_S)
        victim = sites.relay(victims) if victims else None
        if victim is not None:
            sites.kill(victim)
        sites.go_on(DURING_S)
        if victim is not None:
            sites.start(victim.name)
        sites.go_on(AFTER_S)
        return sites.finish()


def judge(name: str, victims: str, out: Path, noted: Noted) -> None:
    verdict = noted(run(SCENES[name], victims, out))
    sys.stdout.write(f"{name}, {f'relay of {victims} killed' if victims else 'none killed'}: {verdict}\n")
    assert verdict.ok, show(verdict, out)
    assert not (SCENES[name].lossless and (verdict.lost or verdict.missed)), show(verdict, out)
    assert verdict.delivered > 3 * verdict.sent > 0, show(verdict, out)


@pytest.fixture
def hosts() -> Iterator[Hosts]:
    with Hosts() as made:
        yield made


LISTEN = """
import select, socket, sys
sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sock.bind(("0.0.0.0", 9000))
print("ready", flush=True)
arrived = select.select([sock, sys.stdin], [], [])[0]       # a datagram, or the end of what is sent
print("hello" if sock in arrived else "nothing")
"""
SPEAK = """
import socket, sys, time
sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for _ in range(int(sys.argv[2])):
    sock.sendto(b"hello", (sys.argv[1], 9000))
    time.sleep(0.1)
"""
FEW, MANY = 5, 200
"""Datagrams, ten a second. Where the first request for the address of a neighbour is lost, the next one follows after
a second: few may all be lost, of many the first that arrives is enough."""


def receives(hosts: Hosts, receiver: str, sender: str, number: int = MANY) -> bool:
    """Whether a member gets any of so many datagrams of another one."""
    with subprocess.Popen([*hosts.prefix(receiver), sys.executable, "-c", LISTEN], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, text=True) as listener:
        assert listener.stdin is not None, "opened as a pipe"
        assert listener.stdout is not None, "opened as a pipe"
        assert listener.stdout.readline() == "ready\n"
        speaker = subprocess.Popen([*hosts.prefix(sender), sys.executable, "-c", SPEAK, netns.address_of(receiver),
                                    str(number)])
        threading.Thread(target=end_after, args=(speaker, listener), daemon=True).start()
        got = listener.stdout.readline() == "hello\n"
        speaker.kill()
    return got


def end_after(speaker: subprocess.Popen[bytes], listener: subprocess.Popen[str]) -> None:
    """Once all is sent, end what listens for it."""
    speaker.wait()
    assert listener.stdin is not None, "opened as a pipe"
    with contextlib.suppress(OSError):                       # it has got one, and ended
        listener.stdin.close()


def names_of(hosts: Hosts) -> list[str]:
    """The namespaces of a run that exist."""
    listed = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True).stdout.splitlines()
    return [line.split()[0] for line in listed if line.startswith(hosts.tag)]


@pytest.mark.real
@pytest.mark.parametrize(("scene", "victims"), [("WAN: storm", "NYC")])
def test_short_selection_of_bad_networks_loses_and_doubles_nothing(
    scene: str, victims: str, tmp_path: Path, noted: Noted,
):
    judge(scene, victims, tmp_path, noted)


@pytest.mark.real
def test_two_networks_side_by_side_do_not_meet_and_leave_nothing_behind():
    with Hosts() as one, Hosts() as other:
        assert set(names_of(one)) & set(names_of(other)) == set()
        assert len(names_of(one)) == len(names_of(other)) == len(NAMES) + len(SITES)
    assert names_of(one) == names_of(other) == []


@pytest.mark.real
def test_frames_are_dropped_in_the_configured_direction_only(hosts: Hosts):
    hosts.rules("F", ["A"])
    assert not receives(hosts, "F", "A", FEW)
    assert receives(hosts, "A", "F")
    assert receives(hosts, "F", "B")
    hosts.heal()
    assert receives(hosts, "F", "A")


@pytest.mark.real
def test_weather_between_the_sites_spares_the_inside_of_a_site(hosts: Hosts):
    hosts.weather(WAN, Weather(loss=1.0))
    assert not receives(hosts, "D", "A", FEW)
    assert receives(hosts, "B", "A")


@pytest.mark.netns
@pytest.mark.parametrize("victims", ["", "NYC", "SFO"])
@pytest.mark.parametrize("scene", SCENES)
def test_no_bad_network_with_or_without_a_dead_relay_loses_or_doubles_a_message(
    scene: str, victims: str, tmp_path: Path, noted: Noted,
):
    judge(scene, victims, tmp_path, noted)
