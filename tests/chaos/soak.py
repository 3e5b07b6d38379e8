"""Random nemeses for half an hour under load: nothing may be lost between sites or doubled, and nothing may grow.

`python -m tests.chaos.soak [--minutes 30] [--seed N]` (tox -e soak). Half of the time one site is hunted: its members,
relays above all, are killed, leave, or stand still for longer than others bear; the other half the other site. In the
site that is not hunted members only stand still for moments, so they keep their roles and their memory and descriptors
show leaks: the slope of a straight line through their samples (of memory: after free memory is handed back). The
bridge turns toxic all the time. A member that stood still for too long is excluded, merges back, and reports what its
site has sent meanwhile; that is counted apart. Ends with the histories of all processes before the simulator's
checkers; exit 1 if a claim does not hold.
"""
from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random, SystemRandom
from statistics import linear_regression
from time import monotonic

import attrs

from tests.chaos.bridge import TOXICS, ProxiedBridge
from tests.chaos.sites import SITES, Chaos, MemberProcess, Sites
from tests.chaos.toxiproxy import Server
from tests.chaos.verdict import Verdict, show

RATE = 20.0                          # multicasts a second of each member
SAMPLE_S = 5.0
WARM_UP_SHARE = 0.3                  # of a half; caches and logs fill meanwhile
HUNT_S = (15.0, 40.0)                # between two harms to the hunted site
NAP_S = (10.0, 40.0)                 # between two naps in the other one
TOXIC_S = (5.0, 15.0)                # how long the bridge is toxic
CLEAN_S = (2.0, 15.0)                # and how long not
MISSING_S = (0.5, 8.0)               # how long a member that was killed or has left is away
STILL_S = (1.0, 9.0)                 # how long a hunted member stands still
NAP_LENGTH_S = (0.2, 2.0)
MAX_MB_PER_10_MIN = 1.0
MAX_DESCRIPTORS_PER_10_MIN = 5.0
MIN_SAMPLES = 60                     # five minutes: fewer show no growth
LEAST_MINUTES = 15.0                 # of a soak that shows something of it
WHOLE_LIMIT_S = 60.0
RELAY_SHARE = 0.7                    # of the harms to the hunted site hit its relay


@attrs.frozen
class Trend:
    """What became of one member of the site that was not hunted."""

    tag: str
    samples: int
    minutes: float
    first_mb: float
    last_mb: float
    mb_per_10_min: float
    descriptors: int
    descriptors_per_10_min: float

    @property
    def flat(self) -> bool:
        """Whether nothing grew."""
        return (self.mb_per_10_min < MAX_MB_PER_10_MIN and
                self.descriptors_per_10_min < MAX_DESCRIPTORS_PER_10_MIN)

    def __str__(self) -> str:
        return (f"{self.tag}: {self.first_mb:.1f} to {self.last_mb:.1f} MB in {self.minutes:.1f} min, "
                f"{self.mb_per_10_min:+.2f} MB/10 min; {self.descriptors} descriptors, "
                f"{self.descriptors_per_10_min:+.2f}/10 min" + ("" if self.flat else "  GROWS"))


def trend(tag: str, samples: list[tuple[float, float, int]]) -> Trend:
    """The straight line through (seconds, resident MB, descriptors)."""
    times = [at / 600 for at, _, _ in samples]
    memory = [mb for _, mb, _ in samples]
    descriptors = [number for _, _, number in samples]
    return Trend(tag, len(samples), (times[-1] - times[0]) * 10, memory[0], memory[-1],
                 linear_regression(times, memory).slope, descriptors[-1], linear_regression(times, descriptors).slope)


class Soak:
    """One soak; `step` is called often and does what is due."""

    def __init__(self, sites: Sites, bridge: ProxiedBridge, seed: int, half_s: float) -> None:
        self.sites = sites
        self.bridge = bridge
        self.rng = Random(f"{seed}/soak")
        self.half_s = half_s
        self.harms: Counter[str] = Counter()
        self.due: list[tuple[float, Callable[[], None]]] = []
        self.trends: list[Trend] = []
        self.unwatched: list[str] = []                   # members without samples enough, and how many they have
        self.hunted = ""                                 # which site

    def perform(self) -> None:
        """Both halves."""
        self.clean()
        for hunted, calm in (("SFO", "NYC"), ("NYC", "SFO")):
            print_line(f"{hunted} is hunted for {self.half_s / 60:.1f} minutes")
            self.half(hunted, calm)

    def half(self, hunted: str, calm: str) -> None:
        """Hunt one site, watch the other."""
        began, self.hunted = monotonic(), hunted
        self.at(HUNT_S, lambda: self.hunt(hunted))
        self.at(NAP_S, lambda: self.nap(calm))
        watched = self.sites.up(calm)
        sampled = began
        while monotonic() - began < self.half_s:
            self.sites.go_on(0.2, self.step)
            if monotonic() - sampled > SAMPLE_S:
                sampled = monotonic()
                self.sites.report()
        self.hunted = ""                 # ends the chains of this half; the other one begins its own
        settled = began + WARM_UP_SHARE * self.half_s
        for member in watched:
            samples = [sample for sample in member.samples if sample[0] > settled]
            if len(samples) >= MIN_SAMPLES:
                self.trends.append(trend(member.tag, samples))
            else:
                self.unwatched.append(f"{member.tag} ({len(samples)})")
        self.sites.wait("the site is whole again", WHOLE_LIMIT_S, self.whole)

    def whole(self) -> bool:
        """Whether all members run; what is due meanwhile is done."""
        self.step()
        return not self.sites.missing() and not any(
            member.paused or member.state == "starting" for member in self.sites.crew.workers)

    # --- what happens when ------------------------------------------------------------------------------------------

    def at(self, span_s: tuple[float, float], what: Callable[[], None]) -> None:
        """Do it after a time drawn from a span."""
        self.due.append((monotonic() + self.rng.uniform(*span_s), what))

    def step(self) -> None:
        """Do what is due."""
        self.bridge.tick()
        now = monotonic()
        ready, self.due = ([item for item in self.due if item[0] <= now], [item for item in self.due if item[0] > now])
        for _, what in ready:
            what()

    def clean(self) -> None:
        """A bridge without toxics for a while."""
        self.bridge.heal()
        self.at(CLEAN_S, self.poison)

    def poison(self) -> None:
        """A toxic bridge for a while."""
        toxic = self.rng.choice(list(TOXICS.values()))
        self.harms[toxic.name] += 1
        self.sites.remark(f"toxic: {toxic.name}")
        self.bridge.poison(toxic)
        self.at(TOXIC_S, self.clean)

    def hunt(self, site: str) -> None:
        """Harm one member, unless one of the site is missing."""
        if site != self.hunted:
            return
        members = [member for member in self.sites.up(site) if not member.paused]
        if len(members) == len(SITES[site]) and not self.sites.missing():
            victim = self.victim(site, members)
            harm = self.rng.choice(("SIGKILL", "SIGKILL", "SIGSTOP", "leave"))
            self.harms[harm] += 1
            match harm:
                case "SIGKILL":
                    self.sites.kill(victim)
                    self.at(MISSING_S, lambda: self.bring_back(victim))
                case "SIGSTOP":
                    self.sites.pause(victim)
                    self.at(STILL_S, lambda: self.sites.resume(victim))
                case "leave":
                    self.sites.leave(victim)
                    self.at(MISSING_S, lambda: self.bring_back(victim))
        self.at(HUNT_S, lambda: self.hunt(site))

    def victim(self, site: str, members: list[MemberProcess]) -> MemberProcess:
        """The relay, most of the time."""
        return self.sites.relay(site) if self.rng.random() < RELAY_SHARE else self.rng.choice(members)

    def bring_back(self, member: MemberProcess) -> None:
        """Start it again, once it is gone."""
        if member.state in ("killed", "left"):
            self.sites.start(member.name)
        else:
            self.at(MISSING_S, lambda: self.bring_back(member))

    def nap(self, site: str) -> None:
        """A member of the calm site stands still for a moment."""
        if self.hunted in ("", site):
            return
        member = self.rng.choice(self.sites.up(site))
        if not member.paused:
            self.harms["nap"] += 1
            self.sites.pause(member)
            self.at(NAP_LENGTH_S, lambda: self.sites.resume(member))
        self.at(NAP_S, lambda: self.nap(site))


def print_line(text: str) -> None:
    """A line of progress."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


@contextmanager
def folder(kept: str) -> Iterator[Path]:
    """Where the histories go: a folder that stays, or one that goes if nothing was found."""
    if kept:
        Path(kept).mkdir(parents=True, exist_ok=True)
        yield Path(kept)
        return
    made = Path(tempfile.mkdtemp(prefix="soak-"))
    yield made
    shutil.rmtree(made)


def run(minutes: float, seed: int, out: Path, *, trace: bool = False) -> tuple[Verdict, Soak]:
    """The whole soak."""
    with Server(seed) as server:
        bridge = ProxiedBridge(server, seed)
        with Sites(bridge, out, seed, trace=trace) as sites:
            sites.start_all()
            sites.load(RATE)
            soak = Soak(sites, bridge, seed, minutes * 30)
            soak.perform()
            print_line("healing, then judging")
            return sites.finish(), soak


def main() -> int:
    """Parse, run, report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30.0, help="how long, default 30")
    parser.add_argument("--seed", type=int, help="of the nemeses; default: drawn, and printed")
    parser.add_argument("--out", default="", help="keep the histories in this folder")
    parser.add_argument("--trace", action="store_true",
                        help="one member of each site writes what its memory is used for into --out")
    options = parser.parse_args()
    seed = SystemRandom().randrange(1 << 32) if options.seed is None else options.seed
    print_line(f"seed {seed}, {options.minutes:g} minutes")
    with folder(options.out) as out:
        try:
            verdict, soak = run(options.minutes, seed, out, trace=options.trace)
        except Chaos as error:
            print_line(f"the soak could not go on: {error}; histories: {out}")
            sys.exit(1)
        if soak.bridge.server.replaced:
            print_line(f"toxiproxy locked itself and was replaced {soak.bridge.server.replaced} times")
        print_line("harms: " + ", ".join(f"{name} {number}" for name, number in sorted(soak.harms.items())))
        for one in soak.trends:
            print_line(str(one))
        if soak.unwatched:
            print_line(f"fewer than {MIN_SAMPLES} samples, too few for a slope of memory: {', '.join(soak.unwatched)}; "
                f"ask for {LEAST_MINUTES:g} minutes at least")
        shown = not soak.unwatched or options.minutes < LEAST_MINUTES
        good = verdict.ok and not verdict.lost and shown and all(one.flat for one in soak.trends)
        print_line(str(verdict) if good else show(verdict, out))
        if not good:
            sys.exit(1)                  # the histories stay
    return 0


if __name__ == "__main__":
    sys.exit(main())
