"""Locks of this package beside etcd's and ZooKeeper's, in one run: `python -m benchmarks.coordination_peers`.

Three processes for each store, all on loopback, and one client process, with one session for each store. The peers
write to disks and ours does not: so each peer runs twice, with its files on a tmpfs, where forcing them out costs
nothing, and on a disk, whose time for that is printed. Clients of the peers are connected to the leader. By turns:

  lone       one caller takes a free lock and releases it: p50 of both together
  clients    so many callers at once with a lock each: pairs a second, and processor time of servers and client
  hand-over  a holder, a process of its own, is killed (-9) while the client waits for its lock: until that has it.
             Ours twice: the death of a process is seen (expire=sure), or its session runs out as it must with a cut
             cable (expire=lease). Sessions live for --ttl, of ZooKeeper for 4 s, which is its least

Then what was wanted, and whether it holds; exits with 1 if it does not, with 2 if a peer is missing.

Needs etcd and ZooKeeper (Debian: apt-get install etcd-server zookeeper), and the extra `peers`.
"""
from __future__ import annotations

import os
import sys
import tempfile
import threading
import time
from argparse import ArgumentParser, Namespace
from contextlib import ExitStack
from pathlib import Path
from statistics import median

import attrs

from benchmarks.coordination_peers.clients import Locks
from benchmarks.coordination_peers.stores import EtcdStore, Missing, OurStore, Store, ZooKeeperStore, hear

ZOOKEEPER_TTL_S = 4.0
SETTLED_S = 1.0                            # from "held" to the kill: waiters wait, and FD_SOCK watches the holder
STAGGER_S = 0.3
WARM_UP = 5                                # times the locks of a round, before the first: the JVMs compile
FORCED = 100                               # writes, of the measurement of the disk
MOST_LONE_MS, LEAST_TIMES_ETCD = 1.0, 2.0
MOST_SURE_P50_S, MOST_SURE_S = 0.1, 0.3
DRIFT, LEASE_SLACK_S = 1.05, 1.0


@attrs.define
class Row:
    """What was found of a store; a figure a round."""

    store: Store
    client: Locks | None = None
    lone_ms: list[float] = attrs.Factory(list)
    rates: list[float] = attrs.Factory(list)
    server_us: list[float] = attrs.Factory(list)
    client_us: list[float] = attrs.Factory(list)
    waits_s: list[float] = attrs.Factory(list)

    @property
    def locks(self) -> Locks:
        """The client."""
        if self.client is None:
            self.client = self.store.client()
        return self.client

    def measure(self, options: Namespace) -> None:
        """One round."""
        self.lone_ms.append(median(self.locks.pairs(1, options.lone)) * 1e3)
        servers, client, began = self.store.cpu_s(), time.process_time(), time.monotonic()
        number = len(self.locks.pairs(options.clients, options.pairs))
        self.rates.append(number / (time.monotonic() - began))
        self.server_us.append((self.store.cpu_s() - servers) / number * 1e6)
        self.client_us.append((time.process_time() - client) / number * 1e6)

    def __str__(self) -> str:
        cells = [f"{self.store.label:34}"]
        if self.lone_ms:
            cells += [f"{median(self.lone_ms):9.2f}", f"{median(self.rates):10,.0f}", f"{median(self.server_us):9.0f}",
                      f"{median(self.client_us):9.0f}"]
        else:
            cells += [" " * 9, " " * 10, " " * 9, " " * 9]
        if self.waits_s:
            cells += [f"{median(self.waits_s):10.3f}", f"{max(self.waits_s):8.3f}"]
        return " ".join(cells).rstrip()


HEAD = (f"{'':34} {'lone ms':>9} {'pairs/s':>10} {'servers':>9} {'client':>9} {'hand-over':>10} {'max s':>8}\n"
        f"{'':34} {'p50':>9} {'':>10} {'us/pair':>9} {'us/pair':>9} {'p50 s':>10} {'':>8}")


def filesystem(folder: Path) -> str:
    """Its type, from /proc/mounts."""
    found = ("", "")
    for line in Path("/proc/mounts").read_text().splitlines():
        _, at, kind, *_ = line.split()
        if folder.resolve().is_relative_to(at) and len(at) >= len(found[0]):
            found = (at, kind)
    return found[1]


def force_ms(folder: Path) -> float:
    """p50 of a write of 1 KB that is forced to the disk."""
    took = []
    path = folder / "forced"
    with path.open("wb", buffering=0) as file:
        for _ in range(FORCED):
            began = time.perf_counter()
            file.write(bytes(1024))
            os.fdatasync(file.fileno())
            took.append(time.perf_counter() - began)
    path.unlink()
    return median(took) * 1e3


def hand_over(rows: list[Row], number: int) -> None:
    """Kill a holder of each store, and time the client that waits."""
    name = f"held {number}"
    holders = [row.store.holder(name) for row in rows]
    for holder in holders:
        hear(holder, "held")
    taken: dict[int, float] = {}

    def wait(at: int) -> None:
        release = rows[at].locks.acquire(name)
        taken[at] = time.monotonic()
        release()
    waiters = [threading.Thread(target=wait, args=(at,), daemon=True) for at in range(len(rows))]
    for waiter in waiters:
        waiter.start()
    time.sleep(SETTLED_S)
    if taken:
        raise RuntimeError(f"{[rows[at].store.label for at in taken]}: two have the lock {name!r}")
    killed = []
    for holder in holders:
        killed.append(time.monotonic())
        holder.kill()
        time.sleep(STAGGER_S)
    for at, waiter in enumerate(waiters):
        waiter.join()
        rows[at].waits_s.append(taken[at] - killed[at])
        holders[at].communicate()


def verdict(rows: dict[str, Row], ttl_s: float) -> bool:
    """Print what was wanted; whether all that was measured holds."""
    ours, lease, etcd = rows["ours"], rows["lease"], rows.get("etcd, tmpfs")
    claims = []
    if ours.lone_ms:
        lone = median(ours.lone_ms)
        claims.append((lone <= MOST_LONE_MS, f"lock and unlock p50 {lone:.2f} ms; wanted: {MOST_LONE_MS:g} at most"))
        if etcd is not None:
            times = median(ours.rates) / median(etcd.rates)
            claims.append((times >= LEAST_TIMES_ETCD, f"pairs/s {times:.2f} of etcd's on tmpfs; wanted: "
                                                      f"{LEAST_TIMES_ETCD:g} at least"))
    if ours.waits_s:
        p50, most = median(ours.waits_s), max(ours.waits_s)
        claims.append((p50 <= MOST_SURE_P50_S and most <= MOST_SURE_S,
                       f"hand-over after kill -9 p50 {p50:.3f} s, max {most:.3f} s, {len(ours.waits_s)} times; wanted: "
                       f"{MOST_SURE_P50_S:g} and {MOST_SURE_S:g} at most"))
        bound, most = ttl_s * DRIFT + LEASE_SLACK_S, max(lease.waits_s)
        claims.append((most <= bound, f"hand-over by the lease, max {most:.2f} s; wanted: {bound:.2f} at most"))
    for holds, text in claims:
        print(f"{'holds ' if holds else 'MISSED'} {text}")
    return all(holds for holds, _ in claims)


def run(options: Namespace, stack: ExitStack) -> bool:
    """Measure; whether what was wanted holds."""
    folders = {}
    for disk, parent in (("tmpfs", options.tmpfs), ("disk", options.disk)):
        if (filesystem(parent) == "tmpfs") != (disk == "tmpfs"):
            raise Missing(f"{parent} is on a {filesystem(parent)}: give another folder by --{disk}")
        folders[disk] = Path(stack.enter_context(tempfile.TemporaryDirectory(
            prefix="coordination-peers-", dir=parent)))
    print(f"load {os.getloadavg()[0]:.1f}, {os.cpu_count()} processors; a forced write of 1 KB: "
          + ", ".join(f"{disk} ({filesystem(folder)}) {force_ms(folder):.3f} ms" for disk, folder in folders.items()))
    rows = {"ours": Row(OurStore(options.ttl, "sure")), "lease": Row(OurStore(options.ttl, "lease"))}
    for disk, folder in folders.items():
        rows[f"etcd, {disk}"] = Row(EtcdStore(folder / "etcd", disk, options.ttl))
        rows[f"zookeeper, {disk}"] = Row(ZooKeeperStore(folder / "zookeeper", disk, ZOOKEEPER_TTL_S))
    for row in rows.values():
        stack.callback(row.store.close)
        row.store.start()
        stack.callback(row.locks.close)
    measured = [row for name, row in rows.items() if name != "lease"]        # its locks cost what those of "ours" cost
    for row in measured if options.rounds else ():
        row.locks.pairs(options.clients, WARM_UP * options.pairs)
    for _ in range(options.rounds):
        for row in measured:
            row.measure(options)
    try:
        for number in range(options.kills):
            hand_over([row for row in rows.values() if row.store.disk != "disk"], number)
    except KeyboardInterrupt:
        print("interrupted: fewer holders were killed")
    print(f"load {os.getloadavg()[0]:.1f} at the end; {options.clients} clients; sessions of "
          f"{options.ttl:g} s, of ZooKeeper {ZOOKEEPER_TTL_S:g} s")
    print(HEAD, *rows.values(), sep="\n")
    return verdict(rows, options.ttl)


def main(words: list[str]) -> int:
    """The command."""
    parser = ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--rounds", type=int, default=5, help="of lone and clients, after one that warms up")
    parser.add_argument("--lone", type=int, default=200, help="locks of one caller, a round")
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--pairs", type=int, default=15, help="locks of each client, a round")
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--ttl", type=float, default=3.0, help="seconds that sessions live")
    parser.add_argument("--tmpfs", type=Path, default=Path("/dev/shm"), help="where files cost nothing")
    parser.add_argument("--disk", type=Path, default=Path("/var/tmp"), help="where they do")
    options = parser.parse_args(words)
    try:
        with ExitStack() as stack:
            return 0 if run(options, stack) else 1
    except Missing as error:
        print(error, file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
