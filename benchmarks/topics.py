"""What TOPICS spares the bridge: two sites on the simulator, 1,000 messages of 1 KB, by what the other site wants.

    python -m benchmarks.topics

Everything is counted on the virtual bridge, acknowledgements and heartbeats included, so the figures are the same on
every machine.
"""
from __future__ import annotations

import json
import sys

from jgroups_py.config.load import load
from jgroups_py.model.outputs import BRIDGE
from jgroups_py.model.units import millis, seconds
from jgroups_py.simulator import World

MESSAGES = 1000
SIZE = 1000
TOPICS = 10
MEMBERS = {"A": "NYC", "B": "NYC", "C": "SFO", "D": "SFO"}


def spent(wanted: int, interval_ms: float, run: int) -> dict[str, float]:
    """Bytes and datagrams on the bridge when the other site wants so many of ten topics.

    run: messages about one topic that are sent together; interval_ms: between two such runs.
    """
    world = World(1)
    topics = {"NYC": "*", "SFO": ",".join(str(topic) for topic in range(wanted))}
    for name, site in MEMBERS.items():
        hosts = ",".join(f"{world.ip(other)}[7900]" for other in MEMBERS)
        spec = load("topics", {"site": site, "mcast_port": "45611" if site == "NYC" else "45612",
                               "topics": topics[site]})
        bridge = load("bridge", {"bridge_hosts": hosts, "bridge_port_range": "0"})
        world.start(name, spec, f"group of {site}", bridge=bridge)
    world.run_for(seconds(5))
    before = bridge_totals(world)
    for at in range(MESSAGES // run):
        world.post("A", count=run, size=SIZE, topic=str(at % TOPICS))
        world.run_for(millis(interval_ms))
    world.run_for(seconds(2))
    after = bridge_totals(world)
    got = len([payload for payload in world.delivered("C") if b"@" in payload])
    assert got == MESSAGES * wanted // TOPICS, f"{got} messages arrived"
    return {name: after[name] - before[name] for name in after}


def bridge_totals(world: World) -> dict[str, float]:
    """What all relays have sent on the bridge."""
    found = {"bytes_sent": 0.0, "frames_sent": 0.0}
    for name in MEMBERS:
        bridge = world.process(name).stack(BRIDGE)
        if bridge is not None:
            for figure in found:
                found[figure] += bridge.transport.stats()[figure]
    return found


def main() -> int:
    """Print a table, and the same as JSON with --json."""
    rows = [{"wanted": wanted, "run": run, **spent(wanted, interval_ms, run)}
            for run, interval_ms in ((1, 1), (10, 10)) for wanted in (10, 5, 1, 0)]
    if "--json" in sys.argv:
        sys.stdout.write(json.dumps(rows) + "\n")
        return 0
    sys.stdout.write("| sent together | topics wanted | bytes on the bridge | datagrams |\n|---|---|---|---|\n")
    for row in rows:
        sys.stdout.write(f"| {row['run']} | {row['wanted']} of {TOPICS} | {row['bytes_sent']:,.0f} | "
                         f"{row['frames_sent']:,.0f} |\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
