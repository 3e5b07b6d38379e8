"""`python -m benchmarks.versus_jgroups`: jgroups_py beside JGroups 2.12.2 and the newest JGroups 5, in one run."""
from __future__ import annotations

import json
import os
import platform
import signal
import sys
import tempfile
from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs

from benchmarks.versus_jgroups import artifacts, multicast, relay, request, stacks, table, trials
from benchmarks.versus_jgroups.contenders import Contender, Grounds, Java, Ours
from benchmarks.versus_jgroups.trials import Groups, Plan
from jgroups_py.cli.bench.request import EVENT_LOOPS

SUITES: dict[str, Callable[[Groups], None]] = {
    "multicast": multicast.run, "request": request.run, "relay": relay.run, "failover": relay.run_failover}
SIZES = ("100", "1000", "10000")
TRANSPORTS = {"2.12.2": ("udp",), "5": ("udp", "tcp")}  # 2.12.2's TCP is never its best column


def arguments(words: list[str] | None = None) -> Namespace:
    """The command line."""
    parser = ArgumentParser(prog="python -m benchmarks.versus_jgroups", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="once and short: shows that it works, measures nothing")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument("--only", type=names(SUITES), default=list(SUITES), metavar="SUITE,...",
                        help=f"some of {', '.join(SUITES)}")
    parser.add_argument("--versions", type=names(artifacts.RELEASES), default=list(artifacts.RELEASES),
                        metavar="VERSION,...", help=f"some of {', '.join(artifacts.RELEASES)}")
    parser.add_argument("--transports", type=names(("udp", "tcp")), default=["udp", "tcp"], metavar="udp,tcp")
    parser.add_argument("--without-ours", action="store_true", help="JGroups only")
    parser.add_argument("--stock", action="store_true", help="also JGroups 5 without the tuning")
    parser.add_argument("--ordered", action="store_true",
                        help="suite multicast in one order: SEQUENCER in JGroups' stacks, TOTAL in ours")
    parser.add_argument("--messages", type=int, metavar="N", help="in each trial of multicasts, whatever their size")
    parser.add_argument("--heap", default="512m", metavar="SIZE",
                        help='of each JVM, "" for Java\'s default (%(default)s)')
    parser.add_argument("--repetitions", type=int, metavar="N")
    parser.add_argument("--sender-threads", type=int, default=1, metavar="N", help="of each sender (%(default)s)")
    parser.add_argument("--ways", type=names(multicast.WAYS), default=list(multicast.WAYS), metavar="one,batch",
                        help="how multicasts are sent and received, each side in its own way (one,batch)")
    parser.add_argument("--sizes", type=names(SIZES), default=list(SIZES), metavar="BYTES,...",
                        help=f"of multicasts, some of {', '.join(SIZES)}")
    parser.add_argument("--piece", type=int, default=64, metavar="N",
                        help="messages that our sender hands to send_batch at once (%(default)s)")
    return parser.parse_args(words)


def names(known: Any) -> Callable[[str], list[str]]:
    """A type for the command line: some of the known names, with commas between."""
    def parse(text: str) -> list[str]:
        found = text.split(",")
        if wrong := [name for name in found if name not in known]:
            raise ValueError(f"unknown: {', '.join(wrong)}")
        return found
    return parse


def plan_of(args: Namespace) -> Plan:
    """How much is measured."""
    plan = trials.QUICK if args.quick else Plan()
    sizes = {size: args.messages or count for size, count in plan.messages.items() if str(size) in args.sizes}
    return attrs.evolve(plan, repetitions=args.repetitions or plan.repetitions, sender_threads=args.sender_threads,
                        ways=tuple(args.ways), messages=sizes)


def contenders(args: Namespace) -> list[Contender]:
    """The columns.

    Raises:
        MissingError: the Java side cannot be had.
    """
    found: list[Contender] = []
    for name in args.versions:
        release = artifacts.RELEASES[name]
        jar = artifacts.jar(release)
        built = artifacts.classes(release, jar)
        for transport in TRANSPORTS[name]:
            if transport in args.transports:
                tuned = Java(release, transport, jar, built, args.heap)
                found += [tuned] + ([attrs.evolve(tuned, tuned=False)] if args.stock and release.major >= 5 else [])
    if not args.without_ours:
        found += [Ours(transport, args.piece) for transport in args.transports]
        found += [ours for transport in args.transports for event_loop in EVENT_LOOPS
                  if any((ours := Ours(transport, args.piece, event_loop)).suits(suite) for suite in args.only)]
    return [attrs.evolve(column, ordered=True) for column in found] if args.ordered else found


def measure(args: Namespace, plan: Plan, columns: list[Contender], folder: Path, figures: table.Figures) -> None:
    """Fill `figures`, suite by suite, repetition by repetition, in each of them contender by contender."""
    grounds = Grounds(folder)
    groups = [Groups(contender, grounds, plan, figures) for contender in columns]
    for suite in args.only:
        for repetition in range(plan.repetitions):
            turn = repetition % len(groups)
            for group in groups[turn:] + groups[:turn]:     # nobody is always the first, or always after the same one
                if group.contender.suits(suite):
                    print(f"{suite} {repetition + 1}/{plan.repetitions}: {group.contender.label}", file=sys.stderr)
                    SUITES[suite](group)


def tunings(columns: list[Contender]) -> dict[str, list[str]]:
    """Column -> what was changed in its stock stack, as text."""
    told = {}
    for column in columns:
        if isinstance(column, Java):
            made = stacks.changes(column.release.major, column.transport, stacks.Place(), column.tuned)
            told[column.label] = ["SEQUENCER below FRAG2, as in sequencer.xml"] if column.ordered else []
            told[column.label] += [f"{c.protocol}.{c.attribute}={c.value} ({'TUNED: ' if c.tuning else ''}{c.why})"
                                  for c in made]
    return told


def machine(java: str) -> dict[str, Any]:
    """Where it was measured."""
    buffers = {name: Path(f"/proc/sys/net/core/{name}").read_text().strip() for name in ("rmem_max", "wmem_max")}
    return {"cpus": os.cpu_count(), "python": platform.python_version(), "java": java, "kernel": platform.release(),
            "load_before": os.getloadavg()[0], **buffers}


def report(args: Namespace, plan: Plan, columns: list[Contender], figures: table.Figures, host: dict[str, Any]) -> str:
    """What is printed."""
    changed = tunings(columns)
    if args.json:
        return json.dumps({"machine": host, "plan": attrs.asdict(plan), "heap": args.heap, "changes": changed,
                           "rows": table.as_json(figures), "remarks": figures.remarks}, indent=1)
    lines = [", ".join(f"{name} {value}" for name, value in host.items()), "",
             f"{plan.repetitions} repetitions, interleaved; median (min-max). "
             f"JVMs with {f'-Xms{args.heap} -Xmx{args.heap}' if args.heap else 'the default heap'}."]
    if args.quick:
        lines += ["**--quick: it only shows that everything works. The JVMs are cold, so the ratios mean nothing.**"]
    lines += ["", table.markdown(figures), "", "Changed in the stock stacks:"]
    lines += [f"* {label}: {'; '.join(made)}" for label, made in changed.items()]
    lines += ["", "Remarks:", *(f"* {remark}" for remark in figures.remarks or ["none: nothing stalled, nothing came "
                                                                                "twice or out of order"])]
    return "\n".join(lines)


def main() -> int:
    """Measure and print; 2 if the Java side cannot be had, 130 after Ctrl-C, with what was measured until then."""
    args = arguments()
    plan = plan_of(args)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        host = machine(artifacts.check_tools())
        columns = contenders(args)
    except artifacts.MissingError as error:
        print(error, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    figures = table.Figures([c.label for c in columns if c.ours], [c.label for c in columns if not c.ours])
    stopped = False
    try:
        with tempfile.TemporaryDirectory(prefix="versus_jgroups-") as folder:
            measure(args, plan, columns, Path(folder), figures)
    except KeyboardInterrupt:
        print("stopped; all members were ended", file=sys.stderr)
        figures.remark("this run", "it was stopped before its end, so some cells have fewer repetitions, or none")
        stopped = True
    if figures.cells:
        print(report(args, plan, columns, figures, host))
    return 130 if stopped else 0


if __name__ == "__main__":
    sys.exit(main())
