"""`python -m benchmarks.duel`: relays killed under load, jgroups_py beside three RELAYs of Java JGroups."""
from __future__ import annotations

import json
import signal
import sys
import tempfile
from argparse import ArgumentParser, Namespace
from pathlib import Path
from time import monotonic, monotonic_ns, sleep
from typing import Any

import attrs

from benchmarks.duel.score import Incident, Score, markdown
from benchmarks.versus_jgroups import artifacts
from benchmarks.versus_jgroups.__main__ import machine
from benchmarks.versus_jgroups.children import Child, Stalled
from benchmarks.versus_jgroups.contenders import Contender, Grounds, Java, Ours
from benchmarks.versus_jgroups.relay import bridged, outcome, settled
from benchmarks.versus_jgroups.table import Figures
from benchmarks.versus_jgroups.trials import MEMBERS, START_TIMEOUT_S, Groups, Plan, counting

RATE, SIZE = 1000, 1000
STREAM_S, KILL_AFTER_S = 12.0, 4.0
VIEW_TIMEOUT_S = 20.0
RELAYS = (("2.12.2", "RELAY"), ("5", "RELAY2"), ("5", "RELAY3"))
KILLS = {"sending": (0, (1, 2)), "receiving": (3, (4, 5))}      # site -> who is killed, who is left of that site
SENDER, RECEIVER = 2, 5


def arguments(words: list[str] | None = None) -> Namespace:
    """The command line."""
    parser = ArgumentParser(prog="python -m benchmarks.duel", description=__doc__)
    parser.add_argument("--repetitions", type=int, default=10, metavar="N", help="of each (%(default)s)")
    parser.add_argument("--without-java", action="store_true", help="jgroups_py only")
    parser.add_argument("--without-ours", action="store_true", help="JGroups only")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    return parser.parse_args(words)


def contenders(args: Namespace) -> list[Contender]:
    """Who takes part."""
    found: list[Contender] = []
    for name, relay in () if args.without_java else RELAYS:
        release = artifacts.RELEASES[name]
        jar = artifacts.jar(release)
        found.append(Java(release, "udp", jar, artifacts.classes(release, jar), "256m", relay=relay))
    return found if args.without_ours else [*found, Ours("udp", named="jgroups_py RELAY")]


def rounds(groups: Groups, score: Score) -> None:
    """Both kills, each in sites of its own: some contenders never recover from the first."""
    for site, (victim, left) in KILLS.items():
        try:
            with groups.group(relay=True) as children:
                incident = kill(groups, children, children[victim], [children[at] for at in left])
        except Stalled as stalled:
            score.stalled(site, str(stalled))
            continue
        score.add(site, incident)
        print(f"  {site} site: {incident}", file=sys.stderr, flush=True)


def kill(groups: Groups, children: list[Child], victim: Child, left: list[Child]) -> Incident:
    """One stream, one kill."""
    sender, receiver = children[SENDER], children[RECEIVER]
    bridged(groups, sender, receiver)
    number, count = groups.trial(), int(RATE * STREAM_S)
    counting([receiver], number, 1, count, gaps=True)
    sender.say("flood", number, count, SIZE, RATE, 1)
    sleep(KILL_AFTER_S)
    killed_ns = monotonic_ns()
    victim.kill()
    views = [view_without(child, len(left), killed_ns) for child in left]
    flooded = sender.wait("flooded", monotonic() + STREAM_S + START_TIMEOUT_S, trial=number)
    tally: dict[str, Any] = settled(receiver, count)
    lost, doubled, late, gap_s = outcome(tally, count, flooded)
    return Incident(lost, doubled, late, gap_s, (max(views) - killed_ns) / 1e9)


def view_without(child: Child, left: int, since_ns: int) -> int:
    """When it had the first view without the dead member. RELAY of 2.12.2 shows views of all sites only."""
    while True:
        view = child.wait("view", monotonic() + VIEW_TIMEOUT_S)
        if view["members"] in (left, left + MEMBERS) and view["ns"] > since_ns:
            return int(view["ns"])


def measure(args: Namespace, columns: list[Contender], folder: Path) -> dict[str, Score]:
    """Repetition by repetition, in each of them contender by contender."""
    grounds, plan = Grounds(folder), Plan()
    ours, theirs = [c.label for c in columns if c.ours], [c.label for c in columns if not c.ours]
    groups = [Groups(contender, grounds, plan, Figures(ours, theirs)) for contender in columns]
    scores = {contender.label: Score() for contender in columns}
    for repetition in range(args.repetitions):
        turn = repetition % len(groups)
        for group in groups[turn:] + groups[:turn]:
            print(f"{repetition + 1}/{args.repetitions}: {group.contender.label}", file=sys.stderr, flush=True)
            rounds(group, scores[group.contender.label])
    return scores


def main() -> int:
    """Measure and print; 1 if ours lost, doubled or mixed up anything, 2 without Java, 130 after Ctrl-C."""
    args = arguments()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        host = machine("not used" if args.without_java else artifacts.check_tools())
        columns = contenders(args)
        with tempfile.TemporaryDirectory(prefix="duel-") as folder:
            scores = measure(args, columns, Path(folder))
    except artifacts.MissingError as error:
        print(error, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("stopped; all members were ended", file=sys.stderr)
        return 130
    if args.json:
        print(json.dumps({"machine": host, "scores": {label: attrs.asdict(score) for label, score in scores.items()}},
                         indent=1))
    else:
        print(", ".join(f"{name} {value}" for name, value in host.items()), "", markdown(scores), sep="\n")
    return 1 if any(not scores[contender.label].clean for contender in columns if contender.ours) else 0


if __name__ == "__main__":
    sys.exit(main())
