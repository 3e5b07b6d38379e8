"""Two sites of real processes with toxiproxy between them: each toxic alone and together with a relay's death or pause.

Every run ends with the histories of all processes before the checkers of the simulator. The short selection runs in
./test, all of it by `tox -e chaos`.
"""
from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.chaos.bridge import TOXICS, ProxiedBridge, Toxic
from tests.chaos.sites import Sites
from tests.chaos.toxiproxy import Server
from tests.chaos.verdict import Noted, Verdict, show

RATE = 25.0                          # multicasts a second of each member
WARM_UP_S = 1.5
BEFORE_S, DURING_S, AFTER_S = 2.5, 5.0, 2.5      # before, during and after the relay is harmed; the toxic works in all
MOMENT_S = 0.3                       # between two deaths that are meant to be one

Harm = Callable[[Sites], None]


def nothing(sites: Sites) -> None:
    """The toxic alone."""
    sites.go_on(DURING_S, tick(sites))


def kill(site: str) -> Harm:
    """The relay dies and comes back as another incarnation."""
    def harm(sites: Sites) -> None:
        victim = sites.relay(site)
        sites.kill(victim)
        sites.go_on(DURING_S, tick(sites))
        sites.start(victim.name)
    return harm


def stop(site: str) -> Harm:
    """The relay stands still so long that others may exclude it, then goes on."""
    def harm(sites: Sites) -> None:
        victim = sites.relay(site)
        sites.pause(victim)
        sites.go_on(DURING_S, tick(sites))
        sites.resume(victim)
    return harm


def kill_both(sites: Sites) -> None:
    """The relays of both sites die at nearly the same time."""
    victims = [sites.relay("NYC"), sites.relay("SFO")]
    for victim in victims:
        sites.kill(victim)
        sites.go_on(MOMENT_S, tick(sites))
    sites.go_on(DURING_S, tick(sites))
    for victim in victims:
        sites.start(victim.name)


HARMS: dict[str, Harm] = {
    "alone": nothing, "SIGKILL in NYC": kill("NYC"), "SIGKILL in SFO": kill("SFO"),
    "SIGSTOP in NYC": stop("NYC"), "SIGSTOP in SFO": stop("SFO"),
    "SIGKILL in both": kill_both,
}


def tick(sites: Sites) -> Callable[[], None]:
    """What the bridge does meanwhile."""
    assert isinstance(sites.place, ProxiedBridge), "these runs have a bridge with proxies"
    return sites.place.tick


def run(toxic: Toxic, harm: Harm, out: Path) -> Verdict:
    """One run from start to verdict."""
    with Server() as server:
        bridge = ProxiedBridge(server)
        with Sites(bridge, out) as sites:
            sites.start_all()
            sites.load(RATE)
            sites.go_on(WARM_UP_S)
            sites.remark(f"toxic: {toxic.name}")
            bridge.poison(toxic)
            sites.go_on(BEFORE_S, bridge.tick)
            harm(sites)
            sites.go_on(AFTER_S, bridge.tick)
            return sites.finish()


def judge(toxic: str, harm: str, out: Path, noted: Noted) -> Verdict:
    verdict = noted(run(TOXICS[toxic], HARMS[harm], out))
    sys.stdout.write(f"{toxic}, {harm}: {verdict}\n")
    assert verdict.ok, show(verdict, out)
    assert not verdict.lost, show(verdict, out)
    # A relay that stands still for longer than detection takes is excluded, and told what it missed of its own site.
    assert not verdict.missed or harm.startswith("SIGSTOP"), show(verdict, out)
    assert verdict.delivered > 3 * verdict.sent > 0, show(verdict, out)
    return verdict


@pytest.mark.real
def test_connections_that_are_reset_and_a_killed_relay_lose_and_double_nothing(tmp_path: Path, noted: Noted):
    judge("reset every second", "SIGKILL in NYC", tmp_path, noted)


@pytest.mark.real
def test_a_black_hole_and_a_relay_that_stands_still_lose_and_double_nothing(tmp_path: Path, noted: Noted):
    verdict = judge("black hole", "SIGSTOP in SFO", tmp_path, noted)
    assert min(verdict.silence_s.values()) > DURING_S, "the toxic was meant to keep the sites apart"


@pytest.mark.chaos
@pytest.mark.parametrize("harm", HARMS)
@pytest.mark.parametrize("toxic", TOXICS)
def test_no_toxic_with_any_harm_loses_or_doubles_a_message(toxic: str, harm: str, tmp_path: Path, noted: Noted):
    judge(toxic, harm, tmp_path, noted)
