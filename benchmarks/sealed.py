"""Claim: what sealed frames cost beside unsealed ones, in pairs of runs by turns, so that what else the machine does
meets both.

    python -m benchmarks.sealed [--pairs 5] [--sizes 100,1000] [--seconds 1]
                                [--what multicast,view,pair,request,join,relay,pause,garbage]

* multicast: processor time a message of all processes, sender and receivers together (`jgroups bench multicast`), at
  most 1.10 of the unsealed one at 100 B, 1.20 at 1 KB, 1.35 at 10 KB; and what the calls of the cipher alone take of
  that (cipher_alone.py), below which no code around them can come on this machine
* view: the same with keys of views (`mode="view"`), at most 1.20 at 1 KB
* pair: the same with keys of views and a tag for each receiver (`mode="view" sign="pair"`), at most 1.30 at 1 KB
* request: the round trip of a lone request (median), at most 5 us more; and how much of that the cipher alone takes
  (lone_request.py)
* join: `connect` of a second member until it is in a view, with keys of views and AUTH, at most 10 ms more
* relay: processor time of a message of 1 KB between two sites, both ends and the bridge; unsealed over sealed at least
  0.85
* pause: the longest time without a delivery in a flood of a message each 2 ms, while a key is changed in three phases,
  at most 50 ms; and while two of three members are replaced, by unsealed ones, or by sealed ones with `accept_clear`
* garbage: messages a second between members while a process without keys sends them frames, at least 0.80 of the rate
  without; the time that such frames take of a core is in tests/security/test_exhaustion.py

The figures are medians; exits with 1 if one misses its bound.
"""
from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import threading
from argparse import ArgumentParser
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from itertools import pairwise
from pathlib import Path
from statistics import median
from time import monotonic, process_time, sleep

import attrs

import jgroups_py as jg
from benchmarks.lone_request import KINDS, round_trips_us
from jgroups_py.sealing.keyring import new_keyring
from jgroups_py.system.free_ports import free_range
from jgroups_py.system.secrets import SECRETS, read_keyring, write_keyring
from jgroups_py.wire import cluster_id
from jgroups_py.wire.sealed_head import sealed_head

BOUNDS = {100: 1.10, 1000: 1.20, 10_000: 1.35}
PAIR_BOUND = 1.30
REQUEST_US, JOIN_MS = 5.0, 10.0
PAUSE_MS, FLOODED = 50.0, 0.80
RELAY_BOUND = 1 / 0.85
RELAYED, RELAYED_BYTES = 20_000, 1000
STACKS = Path(__file__).parents[1] / "stacks"
ENCRYPT_LINE = '<ENCRYPT keyring="${keyring:jgroups.keys}"/>'
MEMBERS = 3                              # of a group of `jgroups bench`


def in_place_of_encrypt(path: Path, line: str) -> Path:
    """Write the stack sealed.xml with another line instead of that of ENCRYPT."""
    text = (STACKS / "sealed.xml").read_text()
    assert text.count(ENCRYPT_LINE) == 1, "sealed.xml has another line of ENCRYPT"
    path.write_text(text.replace(ENCRYPT_LINE, line))
    return path


@attrs.frozen
class Files:
    """The keyring, and stacks in a folder: with keys of views without and with tags, and unsealed ones that call the
    cipher as often as `sealed` does and as `by_view` does."""

    keyring: Path
    views: Path
    by_view: Path
    cipher: Path
    cipher_tags: Path

    @classmethod
    def in_folder(cls, folder: Path) -> Files:
        keyring, secret = folder / "bench.keys", folder / "psk.keys"
        for path in (keyring, secret):
            write_keyring(path, new_keyring(SECRETS.draw(32)), new=True)
        auth = f'<AUTH authority="psk" secret="{secret}"/>'
        alone = "<benchmarks.cipher_alone.CipherAlone"
        return cls(keyring, *(in_place_of_encrypt(folder / f"{name}.xml", line) for name, line in {
            "views": f'<ENCRYPT keyring="{keyring}" mode="view"/>{auth}',
            "pair": f'<ENCRYPT keyring="{keyring}" mode="view" sign="pair"/>{auth}',
            "cipher": f"{alone}/>", "cipher-tags": f'{alone} tags="{MEMBERS - 1}"/>'}.items()))

    @property
    def key_id(self) -> bytes:
        """The id of the keyring's key, as each frame shows it."""
        return read_keyring(self.keyring)[0].active.id

    @property
    def sealed(self) -> tuple[str, ...]:
        """The options of a sealed group."""
        return ("sealed", "-p", f"keyring={self.keyring}")


def bench(kind: str, figure: str, seconds: float, stack: tuple[str, ...], *more: str) -> float:
    """The median of one figure of `jgroups bench`."""
    command = [sys.executable, "-m", "jgroups_py", "bench", kind, "--json", "--quiet", "--repeat", "1", "--seconds",
               str(seconds), "--stack", *stack, *more]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return float(json.loads(done.stdout)[figure]["median"])


def turns(number: int, *measures: Callable[[], float]) -> list[float]:
    """The median of each measure; they are taken by turns, in one order and then in the reverse one."""
    costs: list[list[float]] = [[] for _ in measures]
    for turn in range(number):
        for which in range(len(measures))[::(1, -1)[turn % 2]]:
            costs[which].append(measures[which]())
    return [median(each) for each in costs]


def ratio(what: str, unit: str, plain: float, sealed: float, most: float) -> bool:
    """Print both; returns whether the bound is missed."""
    print(f"{what}: {plain:.3f} {unit} unsealed, {sealed:.3f} sealed: {sealed / plain:.2f} (at most {most:.2f})",
          flush=True)
    return sealed > most * plain


def ratios(what: str, most: float, plain: float, floor: float, sealed: float) -> bool:
    """Print what sealed messages cost beside unsealed ones, and beside such that call the cipher alone; returns whether
    the bound is missed."""
    missed = ratio(what, "us a message", plain, sealed, most)
    print(f"  {floor / plain:.2f} by the calls of the cipher alone", flush=True)
    return missed


def excess(what: str, unit: str, plain: float, sealed: float, most: float) -> bool:
    """Print both; returns whether the bound is missed."""
    print(f"{what}: {plain:.1f} {unit} unsealed, {sealed:.1f} sealed: {sealed - plain:+.1f} (at most {most:+.1f})",
          flush=True)
    return sealed - plain > most


def await_view(members: list[jg.JChannel], number: int) -> None:
    until = monotonic() + 60
    while not all(member.view is not None and len(member.view) == number for member in members):
        assert monotonic() < until, "the group did not form"
        sleep(0.001)


def join_ms(stack: str) -> float:
    """How long `connect` of a second member takes, in ms."""
    properties = {"mcast_port": free_range()}
    with jg.JChannel(stack, "A", properties) as first, jg.JChannel(stack, "B", properties) as second:
        first.connect("joined")
        began = monotonic()
        second.connect("joined")
        took = monotonic() - began
        await_view([first, second], 2)
    return 1e3 * took


def relayed_us(stacks: dict[str, str], properties: dict[str, object]) -> float:
    """Processor time of a message from one site to another, in this process, in us."""
    port, got = free_range(4), [0]
    bridge = {"bridge_port": port, "bridge_port_range": 4, "bridge_hosts": f"127.0.0.1[{port}]", "bridge_name": "b",
              **properties}

    def receive_batch(batch: jg.MessageBatch) -> None:
        got[0] += len(batch)

    with ExitStack() as opened:
        members = []
        for site, stack in stacks.items():
            member = opened.enter_context(jg.JChannel(stack, site, {**bridge, "site": site,
                                                                    "mcast_port": free_range()}))
            member.connect(f"bench-{site}")
            members.append(member)
        members[1].receiver = type("Counting", (), {"receive_batch": staticmethod(receive_batch)})()
        until = monotonic() + 60
        while not all(member.global_view is not None and len(member.global_view.members) == 2 for member in members):
            assert monotonic() < until, "the sites did not meet"
            sleep(0.01)
        payloads, began = [bytes(RELAYED_BYTES)] * 100, process_time()
        for _ in range(RELAYED // len(payloads)):
            members[0].send_batch(None, payloads)
        while got[0] < RELAYED:
            assert monotonic() < until + 60, f"{got[0]} of {RELAYED} messages came"
            sleep(0.001)
        return 1e6 * (process_time() - began) / RELAYED


class Flood:
    """A member multicasts a message each 2 ms. longest_ms: without a delivery to itself or `watched`."""

    def __init__(self, sender: jg.JChannel) -> None:
        self.sender, self.done = sender, threading.Event()
        self.at: dict[str, list[float]] = {}
        self.thread = threading.Thread(target=self.run)

    def watch(self, member: jg.JChannel) -> None:
        at = self.at[member.name] = []
        member.receiver = type("Watch", (), {"receive": staticmethod(lambda message: at.append(monotonic()))})()

    def run(self) -> None:
        while not self.done.is_set():
            self.sender.send(None, b"x")
            sleep(0.002)

    def __enter__(self) -> Flood:
        self.thread.start()
        sleep(0.5)
        return self

    def __exit__(self, *_: object) -> None:
        sleep(0.5)
        self.done.set()
        self.thread.join()

    @property
    def longest_ms(self) -> float:
        return 1e3 * max(max(later - earlier for earlier, later in pairwise(at))
                         for at in self.at.values())


def rotation_ms(folder: Path, changes: bool) -> float:
    """The longest pause while a key is changed in three phases; or for as long without that."""
    ring, keyring = new_keyring(SECRETS.draw(32)), folder / "rotated.keys"
    write_keyring(keyring, ring)
    properties = {"mcast_port": free_range(), "keyring": keyring}
    with ExitStack() as opened:
        members = [opened.enter_context(jg.JChannel("sealed", name, properties)) for name in "ABC"]
        for member in members:
            member.connect("rotated")
        await_view(members, 3)
        flood = Flood(members[0])
        for member in members:
            flood.watch(member)
        added = ring.with_key(SECRETS.draw(32))
        activated = added.activated(added.keys[-1].name)
        with flood:
            for phase in (added, activated, activated.without(ring.active.name)):
                if changes:
                    write_keyring(keyring, phase)
                sleep(1.5)                                   # `reread` is 1 s
        if changes:
            read = [member.stats()["ENCRYPT"].get("keyrings_read", 0) for member in members]
            assert read == [3, 3, 3], f"not all members have read all changes: {read}"
        return flood.longest_ms


def replaced_ms(files: Files, stack: str) -> float:
    """The longest pause at one of three unsealed members while the two others are replaced by members of `stack`."""
    properties = {"mcast_port": free_range(), **({"keyring": files.keyring} if stack != "udp" else {})}
    with ExitStack() as opened:
        members = [opened.enter_context(jg.JChannel("udp", name, {"mcast_port": properties["mcast_port"]}))
                   for name in "ABC"]
        for member in members:
            member.connect("upgraded")
        await_view(members, 3)
        if stack != "udp":                                   # A must believe sealed members, too: it comes first
            members[0].close()
            await_view(members[1:], 2)
            members[0] = opened.enter_context(jg.JChannel(stack, "A", properties))
            members[0].connect("upgraded")
            await_view(members, 3)
        flood = Flood(members[0])
        flood.watch(members[0])
        with flood:
            for at in (1, 2):
                members[at].close()
                members[at] = opened.enter_context(jg.JChannel(stack, "ABC"[at], properties))
                members[at].connect("upgraded")
                await_view(members, 3)
        return flood.longest_ms


GARBAGE = """
import os, socket, sys, time
port, rate = int(sys.argv[1]), int(sys.argv[2])
sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sock.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton("127.0.0.1"))
sock.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, 0)
frame = bytes.fromhex(sys.argv[3])
print("ready", flush=True)
began, sent = time.monotonic(), 0
while True:
    while sent < rate * (time.monotonic() - began):
        sock.sendto(frame + os.urandom(100), ("239.8.8.8", port))
        sent += 1
    time.sleep(0.005)
"""


def flooded_rate(files: Files, garbage: int) -> float:
    """Messages of 1 KB a second from A to B, while another process sends so many frames a second, which look sealed."""
    port, number, got = free_range(), 100_000, [0]

    def receive_batch(batch: jg.MessageBatch) -> None:
        got[0] += len(batch)

    with ExitStack() as opened:
        members = [opened.enter_context(jg.JChannel("sealed", name, {"mcast_port": port, "keyring": files.keyring}))
                   for name in "AB"]
        members[1].receiver = type("Counting", (), {"receive_batch": staticmethod(receive_batch)})()
        for member in members:
            member.connect("flooded")
        await_view(members, 2)
        forged = sealed_head(0, files.key_id, cluster_id("flooded"), bytes(32), 1)
        stranger = subprocess.Popen([sys.executable, "-c", GARBAGE, str(port), str(garbage), forged.hex()],
                                    stdout=subprocess.PIPE)
        opened.callback(stranger.wait)
        opened.callback(stranger.kill)
        assert stranger.stdout is not None
        stranger.stdout.readline()
        payloads, began = [bytes(1000)] * 100, monotonic()
        for _ in range(number // len(payloads)):
            members[0].send_batch(None, payloads)
        while got[0] < number:
            assert monotonic() < began + 300, f"{got[0]} of {number} messages came"
            sleep(0.001)
        took = monotonic() - began
        refused = members[1].stats()["ENCRYPT"].get("not_opened_dropped", 0)
        assert bool(garbage) == bool(refused), "the frames did not reach it"
        return number / took


def main() -> int:
    """Measure in pairs; 0 if the claim holds."""
    parser = ArgumentParser()
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--sizes", default="100,1000")
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--what", default="multicast,view,pair,request,join,relay,pause,garbage")
    args = parser.parse_args()
    wanted, missed = args.what.split(","), 0
    with tempfile.TemporaryDirectory() as folder:
        files = Files.in_folder(Path(folder))

        def cost_us(size: int, *stack: str) -> float:
            return bench("multicast", "cpu_us_per_msg", args.seconds, stack, "--ways", "batch", "--size", str(size))

        def beside_cipher(what: str, size: int, most: float, alone: Path, *stack: str) -> bool:
            stacks = ("udp",), (str(alone),), stack
            return ratios(what, most, *turns(args.pairs, *(partial(cost_us, size, *each) for each in stacks)))

        if "multicast" in wanted:
            for size in map(int, args.sizes.split(",")):
                missed += beside_cipher(f"{size} B", size, BOUNDS.get(size, max(BOUNDS.values())), files.cipher,
                                        *files.sealed)
        if "view" in wanted:
            missed += beside_cipher("1000 B, keys of views", 1000, BOUNDS[1000], files.cipher, str(files.views))
        if "pair" in wanted:
            missed += beside_cipher("1000 B, sign=pair", 1000, PAIR_BOUND, files.cipher_tags, str(files.by_view))
        if "request" in wanted:
            took = [round_trips_us(files.keyring, 5 * args.seconds) for _ in range(args.pairs)]
            plain, floor, sealed = (median(each[kind] for each in took) for kind in KINDS)
            missed += excess("a lone request", "us", plain, sealed, REQUEST_US)
            print(f"  of it {floor - plain:+.1f} us by the calls of the cipher alone", flush=True)
        if "join" in wanted:
            found = turns(args.pairs, lambda: join_ms("udp"), lambda: join_ms(str(files.by_view)))
            missed += excess("a join, keys of views and AUTH", "ms", *found, JOIN_MS)
        if "relay" in wanted:
            plain, sealed = {"NYC": "nyc", "SFO": "sfo"}, {"NYC": "sealed-site", "SFO": "sealed-site"}
            keys = {"keyring": files.keyring, "bridge_keyring": files.keyring}
            found = turns(args.pairs, lambda: relayed_us(plain, {}), lambda: relayed_us(sealed, keys))
            missed += ratio("1000 B from site to site", "us a message", *found, RELAY_BOUND)
        if "pause" in wanted:
            rounds = range(args.pairs)
            quiet = median(rotation_ms(Path(folder), False) for _ in rounds)
            changed = median(rotation_ms(Path(folder), True) for _ in rounds)
            print(f"the longest pause: {quiet:.1f} ms without, {changed:.1f} ms with a change of the key (at most "
                  f"{PAUSE_MS:.0f})", flush=True)
            missed += changed > PAUSE_MS
            upgrade = Path(folder) / "upgrade.xml"
            upgrade.write_text((STACKS / "sealed.xml").read_text().replace("<ENCRYPT", '<ENCRYPT accept_clear="5m"'))
            plain, sealed = turns(args.pairs, lambda: replaced_ms(files, "udp"),
                                  lambda: replaced_ms(files, str(upgrade)))
            print(f"the longest pause while two of three members are replaced: {plain:.1f} ms by unsealed ones, "
                  f"{sealed:.1f} by sealed ones", flush=True)
        if "garbage" in wanted:
            for rate in (1_000, 10_000):
                alone, flooded = turns(args.pairs, lambda: flooded_rate(files, 0),
                                       lambda rate=rate: flooded_rate(files, rate))
                print(f"{rate} forged frames a second: {flooded:.0f} messages a second, {alone:.0f} without: "
                      f"{flooded / alone:.2f} (at least {FLOODED:.2f})", flush=True)
                missed += flooded < FLOODED * alone
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
