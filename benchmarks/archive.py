"""Claim: recording costs at most 15 % of the multicast throughput at 1 KB.

Groups of the same stack, one without ARCHIVE, one with it, one that also records payloads, run side by side; they take
turns round by round, so that whatever else the machine does meets all alike. A round's throughput counts when the
slowest member has everything. Afterwards the archives are read: every message of every round must be in them, at every
member, but for what the recorder itself says it dropped.

`python -m benchmarks.archive [--size 1000] [--members 3] [--seconds 1] [--repeat 9] [--json]`
"""
from __future__ import annotations

import json
import statistics
import sys
import tempfile
from argparse import ArgumentParser, Namespace
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import attrs
import pyarrow.compute as pc

from jgroups_py.archive.reading import read_all
from jgroups_py.cli.bench.group import BenchGroup, letters, properties_for
from jgroups_py.cli.bench.multicast import WAYS, Flood, Load, Round

PLAIN = Path(__file__).parents[1] / "stacks" / "udp.xml"
WARM_COUNT = 20_000
LIMIT_S = 60.0
GROUPS = {"without ARCHIVE": None, "ARCHIVE": "payload='false'", "ARCHIVE sealing": "payload='false' segment_size='1M'",
          "ARCHIVE with payloads": "payload='true'"}
"""Name -> properties of ARCHIVE. A segment of 1M takes some 300,000 messages, so that sealing has its part in every
round; by default that comes once in minutes."""


@attrs.define(eq=False)
class Group:
    """One group of processes, and what its rounds gave."""

    name: str
    directory: Path
    flood: Flood
    rounds: list[Round] = attrs.Factory(list)

    @property
    def rates(self) -> list[float]:
        return [found.rates[""] for found in self.rounds]


def stack_file(folder: Path, directory: Path, properties: str | None) -> Path:
    """The shipped stack, with ARCHIVE at its top if it has properties."""
    layer = f"<ARCHIVE directory='{directory}' {properties}/>" if properties else ""
    path = folder / f"{directory.name}.xml"
    path.write_text(PLAIN.read_text().replace("</config>", f"{layer}</config>"))
    return path


def start(groups: ExitStack, folder: Path, name: str, args: Namespace) -> Group:
    """Start the processes of a group and let them join."""
    directory = folder / name.replace(" ", "-")
    stack = str(stack_file(folder, directory, GROUPS[name]))
    group = groups.enter_context(BenchGroup())
    options = {"stack": stack, "properties": properties_for(stack, args.members, {}), "cluster": directory.name,
               **WAYS["batch"].options()}
    crowd = [group.start(member, "", slow_us=0.0, **options) for member in letters(args.members)]
    group.connect(crowd)
    return Group(name, directory, Flood(group, crowd[:1], Load(args.size, WAYS["batch"], None, args.seconds,
                                                   args.repeat)))


def measured(args: Namespace, folder: Path) -> list[Group]:
    """All groups take turns."""
    with ExitStack() as stack:
        groups = [start(stack, folder, name, args) for name in GROUPS]
        for group in groups:
            group.flood.round(WARM_COUNT, LIMIT_S)
        warm = groups[0].flood.round(WARM_COUNT, LIMIT_S)
        count = max(WARM_COUNT, round(WARM_COUNT / warm.seconds * args.seconds))
        for number in range(args.repeat):
            for group in groups[number % len(groups):] + groups[:number % len(groups)]:
                group.rounds.append(group.flood.round(count, LIMIT_S))
        return groups


def recorded(group: Group, members: int) -> dict[str, int]:
    """What the archive of a group has, and what it says it dropped; whatever is missing beyond that is a fault."""
    if GROUPS[group.name] is None:
        return {}
    rows = read_all(group.directory, ["kind", "count"])
    found = {kind: int(pc.sum(rows.filter(pc.equal(rows["kind"], kind))["count"]).as_py() or 0)
             for kind in ("sent", "delivered", "gap")}
    expected = group.flood.sent * (1 + members)
    return {**found, "missing": expected - sum(found.values())}


def document(groups: list[Group], args: Namespace) -> dict[str, Any]:
    """The figures of all groups, and ratios to the median of the first one."""
    found: dict[str, Any] = {"parameters": {key: value for key, value in vars(args).items() if key != "json"}}
    plain = groups[0]
    for group in groups:
        middle = statistics.median(plain.rates)
        ratios = [rate / middle for rate in group.rates]
        found[group.name] = {
            "msgs_per_s": round(statistics.median(group.rates)),
            "ratio": {"median": round(statistics.median(ratios), 3), "min": round(min(ratios), 3),
                      "max": round(max(ratios), 3)},
            "cpu_us_per_msg": round(statistics.median(each.cpu_s / each.messages * 1e6 for each in group.rounds), 2),
            "faults": group.flood.faults, "archive": recorded(group, args.members),
        }
    return found


def line(name: str, found: dict[str, Any]) -> str:
    """One group, for a person."""
    ratio = found["ratio"]
    return (f"{name:22} {found['msgs_per_s']:>9,} messages/s, {ratio['median']:.0%} of without ({ratio['min']:.0%} to "
            f"{ratio['max']:.0%}), {found['cpu_us_per_msg']} us CPU a message; {found['archive'] or 'not recorded'}")


def main() -> int:
    """Measure and print; 1 if a message was lost, by the group or in silence by the recorder."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=1000)
    parser.add_argument("--members", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--repeat", type=int, default=9)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = document(measured(args, Path(folder)), args)
    if args.json:
        print(json.dumps(found, indent=2))
    for name in () if args.json else GROUPS:
        print(line(name, found[name]))
    return int(any(found[name]["faults"] or found[name]["archive"].get("missing") for name in GROUPS))


if __name__ == "__main__":
    sys.exit(main())
