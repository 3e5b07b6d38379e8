"""Claim: what SWIM costs a member does not grow with the group, and it finds failures in about the same time.

    python -m benchmarks.swim                       # groups of 10 to 1,000, some ten minutes of one core
    python -m benchmarks.swim --most 100            # smaller groups only, below a minute
    python -m benchmarks.swim --plot design/plots   # and draws it (needs matplotlib: pip install jgroups_py[bench])

Members of SWIM alone with memberlist's values for local networks, on the simulator: the production protocol, encoded
frames, a virtual clock. Link pings are off, so that loss is not made up for by connections. Groups are put together at
once, each member knowing all, as joining is measured apart (news: a changed tag, which travels as a newcomer does).
"""
from __future__ import annotations

import json
import math
from argparse import ArgumentParser
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from time import process_time
from typing import Any

import attrs

from jgroups_py import wire
from jgroups_py.config.load import load
from jgroups_py.config.spec import StackSpec
from jgroups_py.model.batch import Header
from jgroups_py.model.events import SetTags
from jgroups_py.model.outputs import LOCAL, MemberChanged
from jgroups_py.model.swim_member import FAILED, SUSPECTED, UPDATED
from jgroups_py.model.units import NS_PER_S, millis, seconds
from jgroups_py.protocols.swim import Swim, SwimConfig
from jgroups_py.protocols.swim.exchange import stretched
from jgroups_py.protocols.swim.headers import Alive, Dead, SuspectedHeader
from jgroups_py.protocols.swim.table import SwimNode
from jgroups_py.simulator.network import Network, Weather
from jgroups_py.simulator.network import Path as Way
from jgroups_py.simulator.process import Process
from jgroups_py.simulator.world import World
from jgroups_py.wire.codec import Interner

SIZES = (10, 32, 100, 320, 1000)
LOSSES = {0.0: 1000, 0.1: 1000}          # loss -> the largest group: a second of 1,000 members and loss takes four
WARM_UP, LOAD, WATCH, NEWS = seconds(3), seconds(15), seconds(60), seconds(6)
CRASHES = 5                              # one every two seconds; a tenth of the members at most
CHANGES = 5                              # tags that change, one every two seconds
STALL, PAUSE = seconds(5), seconds(1)    # stalling members: so long deaf and mute, then so long not
STALLS = 10                              # such rounds: a minute
MANY = 400                               # members of a group that is measured with stalls only
LEAD_BYTES = 7                           # of a header before its body; its length stands in the last four
REMEMBERED = 200_000
STALLING = 0.04                          # so many of all members
LEAST_STALLED = 100                      # members of a group of which that is a few
LAN = SwimConfig(link_pings=False)


class Ether(Network):
    """One path for all pairs, since a million of them would fill the memory; some members may be cut off from it."""

    def __init__(self, seed: str, weather: Weather) -> None:
        super().__init__(seed, {LOCAL: weather})
        self.way = Unordered(Random(f"{seed}/ether"), weather)
        self.nothing = Way(Random(f"{seed}/nothing"), weather)
        self.nothing.cut = True
        self.away: dict[str, None] = {}

    def path(self, src: str, dest: str, net: int) -> Way:
        return self.nothing if src in self.away or dest in self.away else self.way


class Unordered(Way):
    """Loses and delays; frames of different pairs do not wait for each other."""

    def arrivals(self, now_ns: int, stream: bool, nbytes: int = 0) -> tuple[int, ...]:
        if self.rng.random() < self.weather.loss_ratio:
            return ()
        return (now_ns + self.weather.latency_ns + int(self.weather.jitter_ns * self.rng.random()),)


@attrs.frozen
class Heard:
    """Somebody heard something of a member."""

    at_ns: int
    who: str
    change: str
    name: str


class Group(World):
    """So many members that know each other, with a record of what they hear that costs little."""

    def __init__(self, count: int, config: SwimConfig = LAN, loss: float = 0.0, seed: int = 1) -> None:
        super().__init__(seed)
        self.network = self.ether = Ether(str(seed), Weather(loss_ratio=loss))
        self.heard: list[Heard] = []
        self.carrier._handlers[MemberChanged] = self._note
        self.members = [f"m{number}" for number in range(count)]
        spec = stack(config)
        for name in self.members:
            self.start(name, spec)
        self.run_for(millis(10))
        self._introduce()
        self.run_for(WARM_UP)

    def _note(self, process: Process, output: MemberChanged) -> None:
        self.heard.append(Heard(self.now_ns, process.name, output.change, output.member.name))

    def _introduce(self) -> None:
        """Fill all tables, as after a long time together."""
        swims = {name: swim_of(self, name) for name in self.members}
        alives = {name: swim.own_alive() for name, swim in swims.items()}
        for name, swim in swims.items():
            for other, alive in alives.items():
                if other != name:
                    swim.nodes[other] = SwimNode(other, alive.member, alive.place, incarnation=alive.incarnation)
            swim.ring.names = [other for other in self.members if other != name]
            swim.rng.shuffle(swim.ring.names)
            swim.up_count = len(swim.nodes)
            swim.gossip.drop(name)
            every_ns = stretched(swim.config.push_pull_interval_ns, len(self.members))
            swim.set_timer("exchange", swim.rng.randrange(every_ns))

    def seconds_until(self, change: str, name: str, since_ns: int) -> list[float]:
        """When each of those who heard this of `name` first did, sorted."""
        first: dict[str, int] = {}
        for heard in self.heard:
            if heard.change == change and heard.name == name and heard.at_ns >= since_ns:
                first.setdefault(heard.who, heard.at_ns - since_ns)
        return sorted(at_ns / NS_PER_S for at_ns in first.values())


def stack(config: SwimConfig) -> StackSpec:
    """The shipped stack `membership` with SWIM set otherwise."""
    spec = load("membership", {"port_range": "0"})
    layers = tuple(attrs.evolve(layer, config=config) if layer.name == "SWIM" else layer for layer in spec.layers)
    return attrs.evolve(spec, layers=layers)


def swim_of(world: World, name: str) -> Swim:
    """SWIM at a member."""
    found = world.node(name).local.find(Swim)
    assert isinstance(found, Swim), "the stack has SWIM"
    return found


def share(values: list[float], ratio: float, of: int) -> float | None:
    """When so many of `of` had heard; None if they never did."""
    index = math.ceil(ratio * of) - 1
    return round(values[index], 3) if index < len(values) else None


def median(values: Iterable[float | None]) -> float | None:
    """The middle one; None if it is one that never came."""
    found = sorted(math.inf if value is None else value for value in values)
    middle = found[len(found) // 2]
    return None if math.isinf(middle) else middle


@contextmanager
def remembering() -> Iterator[None]:
    """Encode and decode each news once: a thousand simulated members would spend most of their time on that."""
    slow_read, packers = wire._variable_header, dict[type[Header], Callable[[Any], bytes]]()
    read: dict[bytes, Header] = {}
    packed: dict[int, tuple[Header, bytes]] = {}         # id -> a header that is kept, so that its id stays its own

    def quick_read(data: bytes, pos: int, stop: int, addresses: Interner) -> tuple[Header, int]:
        end = pos + LEAD_BYTES + int.from_bytes(data[pos + LEAD_BYTES - 4:pos + LEAD_BYTES], "big")
        key = data[pos:end]
        if key not in read:
            if len(read) >= REMEMBERED:
                read.clear()
            read[key] = slow_read(data, pos, stop, addresses)[0]
        return read[key], end

    def quick_pack(header: Header) -> bytes:
        known = packed.get(id(header))
        if known is None:
            if len(packed) >= REMEMBERED:
                packed.clear()
            known = packed[id(header)] = header, packers[header.__class__](header)
        return known[1]

    codecs: dict[type[Header], wire.HeaderCodec] = {
        kind: wire._by_class[kind] for kind in (Alive, SuspectedHeader, Dead)}
    packers.update({kind: codec.pack for kind, codec in codecs.items()})
    wire._variable_header = quick_read
    wire._by_class.update({kind: attrs.evolve(codec, pack=quick_pack) for kind, codec in codecs.items()})
    try:
        yield
    finally:
        wire._variable_header = slow_read
        wire._by_class.update(codecs)


# --- what is measured -------------------------------------------------------------------------------------------------

def load_of(count: int) -> dict[str, Any]:
    """Frames and bytes that a member sends each second while nothing happens, and what simulating it costs."""
    group = Group(count)
    frames, nbytes, cpu = group.frame_count, sent_bytes(group), process_time()
    group.run_for(LOAD)
    per = count * LOAD / NS_PER_S
    return {"members": count, "frames_per_s": round((group.frame_count - frames) / per, 3),
            "bytes_per_s": round((sent_bytes(group) - nbytes) / per, 1),
            "cpu_us_per_frame": round((process_time() - cpu) * 1e6 / (group.frame_count - frames), 1)}


def sent_bytes(group: Group) -> float:
    return sum(group.stats(name)["UDP"]["bytes_sent"] for name in group.members)


def failures_of(count: int, loss: float) -> dict[str, Any]:
    """From a crash to the first suspicion, to the first member that counts it as failed, and on to all others."""
    group = Group(count, loss=loss)
    crashed: dict[str, int] = {}
    crashes = min(CRASHES, count // 10)
    for name in group.members[-crashes:]:
        crashed[name] = group.now_ns
        group.crash(name)
        group.run_for(seconds(2))
    group.run_for(WATCH)
    others = count - crashes
    suspected = [group.seconds_until(SUSPECTED, name, at_ns) for name, at_ns in crashed.items()]
    failed = [group.seconds_until(FAILED, name, at_ns) for name, at_ns in crashed.items()]
    return {"members": count, "loss": loss,
            "suspected_s": median(share(times, 0, 1) if times else None for times in suspected),
            "failed_first_s": median(times[0] if times else None for times in failed),
            "failed_half_s": median(share(times, 0.5, others) for times in failed),
            "failed_99_s": median(share(times, 0.99, others) for times in failed)}


def news_of(count: int, loss: float) -> dict[str, Any]:
    """How long a change of one member's tags takes to half, to 99 % and to all of the others."""
    group = Group(count, loss=loss)
    times = []
    for number, name in enumerate(group.members[:CHANGES]):
        since_ns = group.now_ns
        group.inject(name, SetTags({"round": str(number)}))
        group.run_for(NEWS)
        times.append(group.seconds_until(UPDATED, name, since_ns))
    return {"members": count, "loss": loss,
            **{f"heard_{word}_s": median(share(found, ratio, count - 1) for found in times)
               for word, ratio in (("half", 0.5), ("99", 0.99), ("all", 1.0))},
            "formula_s": round(serf_formula_s(count, loss), 3)}


def serf_formula_s(count: int, loss: float) -> float:
    """What the simulator of Serf's authors says: rounds of gossip until the last member has heard."""
    rounds = (2 * math.log(count + 1) + 10) / (LAN.gossip_nodes * (1 - loss))
    return rounds * LAN.gossip_interval_ns / NS_PER_S


def false_failures(count: int, loss: float, stalling: int, lifeguard: bool) -> dict[str, Any]:
    """How often healthy members count as failed somewhere while others stall 5 s of every 6 s."""
    group = Group(count, attrs.evolve(LAN, lifeguard=lifeguard), loss)
    stalls = group.members[count - stalling:]
    began_ns = group.now_ns
    for _ in range(STALLS):
        group.ether.away = dict.fromkeys(stalls)
        group.run_for(STALL)
        group.ether.away = {}
        group.run_for(PAUSE)
    unfair = [heard for heard in group.heard
              if heard.at_ns >= began_ns and heard.change in (FAILED, SUSPECTED) and heard.name not in stalls]
    failed = [heard for heard in unfair if heard.change == FAILED]
    return {"members": count, "loss": loss, "stalling": stalling, "lifeguard": lifeguard,
            "seconds": STALLS * (STALL + PAUSE) // NS_PER_S,
            "members_failed": len(dict.fromkeys(heard.name for heard in failed)), "failures": len(failed),
            "failures_at_healthy": sum(heard.who not in stalls for heard in failed),
            "suspicions": len(unfair) - len(failed)}


def curves(most: int, tell: Callable[[str], None]) -> dict[str, list[dict[str, Any]]]:
    """All figures, told as they come."""
    sizes = [size for size in SIZES if size <= most]
    found: dict[str, list[dict[str, Any]]] = {"load": [], "news": [], "failures": [], "false": []}

    def add(kind: str, row: dict[str, Any]) -> None:
        found[kind].append(row)
        tell(f"{kind:9} {json.dumps(row)}")

    for size in sizes:
        add("load", load_of(size))
    for loss, largest in LOSSES.items():
        for size in [size for size in sizes if size <= largest]:
            add("news", news_of(size, loss))
            add("failures", failures_of(size, loss))
    for size in [size for size in sizes if size >= LEAST_STALLED]:
        for stalling in (0, round(STALLING * size)):
            for lifeguard in (False, True):
                if stalling or size < MANY:
                    add("false", false_failures(size, 0.1, stalling, lifeguard))
    return found


# --- drawing ----------------------------------------------------------------------------------------------------------

PUBLISHED = {30: 1.1, 100: 1.3, 1000: 1.6}
"""Members -> seconds until gossip has reached all, as Serf's documentation gives it for these values without loss."""


def draw(found: dict[str, list[dict[str, Any]]], folder: Path) -> None:
    """The curves as two files."""
    import matplotlib
    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "jgroups_py"
    from matplotlib import pyplot

    folder.mkdir(parents=True, exist_ok=True)
    figure, (costs, news, failures, unfair) = pyplot.subplots(1, 4, figsize=(16, 4), layout="constrained")
    costs.plot(*columns(found["load"], "frames_per_s"), "o-", label="frames a second")
    costs.set_ylim(0, 6)
    finish(costs, "what a member sends while nothing happens", "frames a second")
    for loss in LOSSES:
        rows = [row for row in found["news"] if row["loss"] == loss]
        news.plot(*columns(rows, "heard_99_s"), "o-", label=f"99 % heard, loss {loss:.0%}")
        rows = [row for row in found["failures"] if row["loss"] == loss]
        failures.plot(*columns(rows, "suspected_s"), "o--", label=f"first suspicion, loss {loss:.0%}")
        failures.plot(*columns(rows, "failed_99_s"), "o-", label=f"failed at 99 %, loss {loss:.0%}")
    news.plot(list(PUBLISHED), list(PUBLISHED.values()), "k^", label="Serf's published figures, no loss")
    news.plot(*columns([row for row in found["news"] if not row["loss"]], "formula_s"), "k:", label="their formula")
    finish(news, "from news to those who heard", "s")
    finish(failures, "from a crash", "s")
    for lifeguard, style in ((False, "o-"), (True, "s-")):
        rows = [row for row in found["false"] if row["stalling"] and row["lifeguard"] == lifeguard]
        unfair.plot(*columns(rows, "members_failed"), style, label=f"Lifeguard {'on' if lifeguard else 'off'}")
    finish(unfair, "healthy ones failed while 4 % stall", "members")
    figure.savefig(folder / "swim.svg", metadata={"Date": None})


def columns(rows: list[dict[str, Any]], field: str) -> tuple[list[int], list[float]]:
    """Members and a figure, as far as it is known."""
    known = [row for row in rows if row[field] is not None]
    return [row["members"] for row in known], [row[field] for row in known]


def finish(axis: Any, title: str, unit: str) -> None:
    """What all plots have."""
    axis.set_xscale("log")
    axis.set_xlabel("members")
    axis.set_ylabel(unit)
    axis.set_ylim(bottom=0)
    axis.set_title(title)
    axis.grid(visible=True, alpha=0.3)
    axis.legend(fontsize="small")


def main() -> None:
    """Measure, print a line each, draw."""
    parser = ArgumentParser(prog="benchmarks.swim", description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--most", type=int, default=SIZES[-1], metavar="N", help="members of the largest group")
    parser.add_argument("--plot", type=Path, metavar="FOLDER", help="draw the curves there")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there")
    args = parser.parse_args()
    if args.most < SIZES[0]:
        parser.error(f"--most is at least {SIZES[0]}")
    with remembering():
        found = curves(args.most, lambda line: print(line, flush=True))
    if args.json is not None:
        args.json.write_text(json.dumps(found, indent=1), encoding="utf-8")
    if args.plot is not None:
        draw(found, args.plot)


if __name__ == "__main__":
    main()
