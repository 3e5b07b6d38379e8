"""Two sites with a long path between them: throughput beside that of a path without delay; gaps at a failover."""
from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import attrs

from jgroups_py.cli.bench.figures import figure
from jgroups_py.cli.bench.group import START_TIMEOUT_S, BenchError, BenchGroup, BenchMember, letters
from jgroups_py.cli.bench.multicast import Flood, Load, document
from jgroups_py.system.free_ports import free_range

SITES = ("NYC", "SFO")
PATH = "jgroups_py.cli.bench.long_path"
EVERY_S = 0.01                       # between two messages, where gaps are measured
SETTLE_S = 3.0                       # before the relay ends
FAILOVER_S = 10.0                    # after it
DRAIN_S = 1.0                        # from the last message to the last delivery, at most
STOCK: Mapping[str, str] = {}
ACCRUAL = {"accrual_members": "3", "verify_timeout": "500ms", "bridge_accrual_members": "8",
           "bridge_verify_timeout": "500ms"}         # variables of the stock stacks
PORTS_EACH = 4                       # of a member: of its bridge and of FD_SOCK there, and of the proxies before them


@attrs.frozen
class BridgePath:
    """Between the sites. delay_s: one way; bytes_per_s: each way, 0: no limit; loss: ratio of packets."""

    delay_s: float = 0.0
    bytes_per_s: float = 0.0
    loss: float = 0.0


@contextmanager
def two_sites(
    members: int, path: BridgePath, options: dict[str, Any], properties: Mapping[str, str] = STOCK,
) -> Iterator[tuple[BenchGroup, list[list[BenchMember]]]]:
    """Two sites of so many members each, connected and in each other's global view; all relays behind proxies."""
    first = free_range(2 * members * PORTS_EACH)
    names = [letters(members, at * members) for at in range(len(SITES))]
    ports = {name: range(first + at * PORTS_EACH, first + (at + 1) * PORTS_EACH)
             for at, name in enumerate(name for crowd in names for name in crowd)}
    proxies = {site: [(port[at + 2], port[at]) for port in map(ports.__getitem__, crowd) for at in (0, 1)]
               for site, crowd in zip(SITES, names, strict=True)}
    hosts = ",".join(f"127.0.0.1[{port[2]}]" for port in ports.values())
    with running(path, proxies), BenchGroup() as group:
        crowds = []
        for site, crowd in zip(SITES, names, strict=True):
            mcast_port = str(free_range())
            crowds.append([group.start(name, site, **options, stack=site.lower(), cluster=f"bench-{site}", properties={
                "site": site, "mcast_port": mcast_port, "bridge_name": "bench-bridge", "bridge_hosts": hosts,
                **bridge_ports(ports[name]), **properties}) for name in crowd])
        for joining in crowds:
            group.connect(joining)
        group.wait_until("every member sees both sites", START_TIMEOUT_S, lambda: all(
            member.latest.get("global_view", {}).get("members") == 2 * members for member in group.members))
        yield group, crowds


def bridge_ports(ports: Sequence[int]) -> dict[str, str]:
    """Properties of the stock bridge: a member's own ports, and those of the proxies by which others reach it."""
    names = ("bridge_port", "bridge_watch_port", "bridge_external_port", "bridge_watch_external_port")
    return {**{name: str(port) for name, port in zip(names, ports, strict=True)}, "bridge_port_range": "0"}


@contextmanager
def running(path: BridgePath, proxies: dict[str, list[tuple[int, int]]]) -> Iterator[None]:
    """The path, as a process."""
    options = {"sites": proxies, **attrs.asdict(path)}
    process = subprocess.Popen([sys.executable, "-m", PATH, json.dumps(options)], stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, text=True, start_new_session=True)
    try:
        assert process.stdout is not None, "opened as a pipe"
        if process.stdout.readline().strip() != "ready":
            raise BenchError("the path between the sites did not start")
        yield
    finally:
        process.kill()
        process.wait()


def wan(members: int, load: Load, path: BridgePath, progress: Callable[[str], None]) -> dict[str, Any]:
    """Measure between two sites, without and with the delay and the losses of `path`, at its bandwidth. The last member
    of the first site sends; the figures are those of the slowest member of the other site over the path."""
    found = {}
    for name, taken in (("without delay", BridgePath(bytes_per_s=path.bytes_per_s)), ("over the path", path)):
        progress(name)
        with two_sites(members, taken, load.way.options()) as (group, crowds):
            flood = Flood(group, crowds[0][-1:], load)
            found[name] = document(flood.run(progress), flood, SITES[1])
    near, far = found.values()
    ratio = far["msgs_per_s"]["median"] / near["msgs_per_s"]["median"]
    return {**far, "msgs_per_s_without_delay": near["msgs_per_s"], "ratio": figure([ratio]),
            "faults": near["faults"] + far["faults"]}


def failover(
    members: int, how: str, path: BridgePath, repeat: int, size: int, properties: dict[str, str],
    progress: Callable[[str], None],
) -> dict[str, Any]:
    """The longest time without a delivery at the last member of the other site, when the relay of this one ends.

    The last member of the first site multicasts a message every EVERY_S. how: "kill" the relay, or "freeze" it
    (SIGSTOP: as if its host stopped, but for its system, which keeps its connections open). New processes for each
    repetition.
    """
    gaps, before, faults = [], [], []
    for number in range(repeat):
        with two_sites(members, path, {"steady": True}, properties) as (group, crowds):
            relay, sender, receiver = crowds[0][0], crowds[0][-1], crowds[1][-1]
            group.command([sender], "drip", every_s=EVERY_S, size=size)
            time.sleep(SETTLE_S)
            before.append(_gap(group, receiver))
            relay.state = "killed"                           # its messages and its end are no faults
            os.kill(relay.process.pid, signal.SIGKILL if how == "kill" else signal.SIGSTOP)
            time.sleep(FAILOVER_S)
            gaps.append(_gap(group, receiver))
            group.command([sender], "drip_end")
            sent = group.wait("all sent", [sender], "dripped", START_TIMEOUT_S)[0]["sent"]
            time.sleep(DRAIN_S)
            group.command([receiver], "report")
            report = group.wait("the counts", [receiver], "report", START_TIMEOUT_S)[0]["received"].get(sender.tag)
            if (report["count"], report["next"], report["duplicates"], report["out_of_order"]) != (sent, sent, 0, 0):
                faults.append(f"{receiver.tag} received {report}; {sent} were sent")
            relay.process.kill()
        progress(f"failover {number + 1}: {gaps[-1]:.3f} s (before: {before[-1]:.3f} s)")
    return {"gap_s": figure(gaps), "gap_before_s": figure(before), "faults": faults}


def _gap(group: BenchGroup, receiver: BenchMember) -> float:
    """The longest time between two deliveries since the last call, in seconds."""
    group.command([receiver], "gap")
    return float(group.wait("the gap", [receiver], "gap", START_TIMEOUT_S)[0]["longest_ns"] / 1e9)
