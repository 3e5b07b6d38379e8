"""Two sites on hosts of their own: network namespaces joined by veth and bridges, with bad links in between.

                     NYC: a bridge and a router          SFO: a bridge and a router
    A --- veth ------+                                   +------ veth --- D
    B --- veth ------+ br0 ------- WAN, a TAP pair ------+ br0 - veth --- E
    C --- TAP pair --+                                   +-- TAP pair --- F

The WAN and the links of C and F go through a forwarder (forwarder.py) that loses, delays, doubles, reorders and damages
frames; with netem in the kernel the WAN's weather is netem's. Each member drops by nft what it shall not receive (one
source, which cuts one direction; or at random), and tbf may narrow its link. All names begin with one that no other
run has; everything is undone at the end, whatever happened.
"""
from __future__ import annotations

import itertools
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Self

import attrs

from tests.chaos import netem
from tests.chaos.forwarder import Weather
from tests.chaos.sites import NAMES, ROOT, SITES, site_of

COMMAND_TIMEOUT_S = 20.0
FAR = ("C", "F")                     # whose links go through the forwarder
WAN = "wan"
BRIDGE_PORT = 7900
NETS = {"NYC": "10.91.1", "SFO": "10.91.2"}
ROUTER = 254
WAN_ADDRESSES = {"NYC": "10.91.0.1", "SFO": "10.91.0.2"}
RULES = """
add table inet chaos
add set inet chaos deaf {{ type ipv4_addr; }}
add chain inet chaos input {{ type filter hook input priority 0; }}
flush chain inet chaos input
add rule inet chaos input iifname eth0 ip saddr @deaf drop
{loss}
"""
LOSS_RULE = "add rule inet chaos input iifname eth0 numgen random mod 1000 < {permille} drop"
OWNER = re.compile("jg([0-9a-f]+)-[0-9]+-")          # the process that made a namespace, in hex
_numbers = itertools.count()


def missing() -> str:
    """What this machine lacks for namespaces; "" if nothing."""
    tools = [tool for tool in ("ip", "nft", "tc") if shutil.which(tool) is None]
    if tools:
        return f"no {', '.join(tools)} on the PATH (Debian: apt-get install iproute2 nftables)"
    if os.geteuid() != 0:
        return "network namespaces need root"
    if not Path("/dev/net/tun").exists():
        return "no /dev/net/tun"
    probe = f"jgprobe{os.getpid()}"
    made = subprocess.run(["ip", "netns", "add", probe], capture_output=True, text=True)
    if made.returncode:
        return f"no network namespaces: {made.stderr.strip()}"
    ruled = subprocess.run(["ip", "netns", "exec", probe, "nft", "add", "table", "inet", "probe"],
                           capture_output=True, text=True)
    subprocess.run(["ip", "netns", "del", probe], check=True)
    return f"no nft: {ruled.stderr.strip()}" if ruled.returncode else ""


def do(*words: str, stdin_text: str = "") -> None:
    """Run a command. Raises RuntimeError with its output if it fails."""
    done = subprocess.run(words, input=stdin_text, text=True, capture_output=True, timeout=COMMAND_TIMEOUT_S)
    if done.returncode:
        raise RuntimeError(f"{' '.join(words)}: {done.stderr.strip()}\n{stdin_text}")


def sweep() -> None:
    """Remove the namespaces that killed runs have left behind."""
    listed = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, timeout=COMMAND_TIMEOUT_S).stdout
    for namespace in (line.split()[0] for line in listed.splitlines() if line):
        owner = OWNER.match(namespace)
        if owner is not None and not Path(f"/proc/{int(owner[1], 16)}").exists():
            subprocess.run(["ip", "netns", "del", namespace], capture_output=True, timeout=COMMAND_TIMEOUT_S)


def address_of(name: str) -> str:
    """The IP address of a member."""
    site = site_of(name)
    return f"{NETS[site]}.{SITES[site].index(name) + 1}"


class Hosts:
    """The network; a Place for Sites. `with` makes it and removes it."""

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed
        self.tag = f"jg{os.getpid():x}-{next(_numbers)}"         # see OWNER
        self.made: list[str] = []                    # namespaces
        self.netem = False                           # whether the kernel makes the WAN's weather
        self._forwarder: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        sweep()
        try:
            self._make()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Remove everything; devices go with their namespaces and with the forwarder."""
        if self._forwarder is not None:
            self._forwarder.kill()
            self._forwarder.wait()
            self._forwarder = None
        for namespace in self.made:
            subprocess.run(["ip", "netns", "del", namespace], capture_output=True, timeout=COMMAND_TIMEOUT_S)
        self.made.clear()

    # --- making it --------------------------------------------------------------------------------------------------

    def namespace(self, name: str) -> str:
        """The namespace of a member or a site."""
        return f"{self.tag}-{name}"

    def ip(self, where: str, *words: str) -> None:
        """ip(8) within the namespace of a member or a site."""
        do("ip", "-n", self.namespace(where), *words)

    def _make(self) -> None:
        for name in (*SITES, *NAMES):
            do("ip", "netns", "add", self.namespace(name))
            self.made.append(self.namespace(name))
            self.ip(name, "link", "set", "lo", "up")
        self._start_forwarder()
        for site in SITES:
            self.ip(site, "link", "add", "br0", "type", "bridge", "mcast_snooping", "0")
            self.ip(site, "address", "add", f"{NETS[site]}.{ROUTER}/24", "dev", "br0")
            self.ip(site, "link", "set", "br0", "up")
        for name in NAMES:
            self._plug_in(name)
        self._lay_wan()
        self.heal()

    def _start_forwarder(self) -> None:
        pairs = {name: (f"{self.tag}{name}0", f"{self.tag}{name}1") for name in FAR}
        pairs[WAN] = f"{self.tag}w0", f"{self.tag}w1"
        process = self._forwarder = subprocess.Popen(
            [sys.executable, "-m", "tests.chaos.forwarder", json.dumps({"seed": str(self.seed), "pairs": pairs})],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True,
            env={**os.environ, "PYTHONPATH": str(ROOT)})
        assert process.stdout is not None, "opened as a pipe"
        if process.stdout.readline().strip() != "ready":
            raise RuntimeError("the forwarder did not start")
        self._taps = pairs

    def _move(self, device: str, where: str, new_name: str) -> None:
        do("ip", "link", "set", device, "netns", self.namespace(where), "name", new_name)

    def _plug_in(self, name: str) -> None:
        site = site_of(name)
        if name in FAR:
            mine, its = self._taps[name]
            self._move(mine, name, "eth0")
            self._move(its, site, f"to-{name}")
        else:
            self.ip(name, "link", "add", "eth0", "type", "veth", "peer", "name", f"to-{name}",
                    "netns", self.namespace(site))
        self.ip(name, "address", "add", f"{address_of(name)}/24", "dev", "eth0")
        self.ip(name, "link", "set", "eth0", "up", "multicast", "on")
        self.ip(site, "link", "set", f"to-{name}", "master", "br0", "up")
        self.ip(name, "route", "add", "default", "via", f"{NETS[site]}.{ROUTER}")

    def _lay_wan(self) -> None:
        for (site, there), device in zip(zip(SITES, reversed(SITES), strict=True), self._taps[WAN], strict=True):
            self._move(device, site, WAN)
            self.ip(site, "address", "add", f"{WAN_ADDRESSES[site]}/24", "dev", WAN)
            self.ip(site, "link", "set", WAN, "up")
            self.ip(site, "route", "add", f"{NETS[there]}.0/24", "via", WAN_ADDRESSES[there])
            do("ip", "netns", "exec", self.namespace(site), "sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward")
        self.netem = netem.set_weather(self.namespace(next(iter(SITES))), WAN, Weather())

    # --- a place for members ----------------------------------------------------------------------------------------

    def properties(self, name: str, site: str) -> dict[str, str]:
        """The shipped stacks, bound to the member's address."""
        hosts = ",".join(f"{address_of(other)}[{BRIDGE_PORT}]" for other in NAMES)
        return {"bind_addr": address_of(name), "ip_ttl": "1", "bridge_port": str(BRIDGE_PORT),
                "bridge_port_range": "0", "bridge_hosts": hosts}

    def prefix(self, name: str) -> list[str]:
        """In the member's namespace."""
        return ["ip", "netns", "exec", self.namespace(name)]

    def heal(self) -> None:
        """Everything gets through, fast."""
        for link in (WAN, *FAR):
            self.weather(link, Weather())
        for name in NAMES:
            self.rules(name)
            self.narrow(name, 0)

    # --- harm -------------------------------------------------------------------------------------------------------

    def weather(self, link: str, weather: Weather) -> None:
        """How WAN or the link of a far member behaves from now on."""
        if link == WAN and self.netem:
            for site in SITES:
                if not netem.set_weather(self.namespace(site), WAN, weather):
                    raise RuntimeError(f"netem was there, but not for {site}")
            return
        assert self._forwarder is not None, "the forwarder runs as long as the network"
        assert self._forwarder.stdin is not None, "opened as a pipe"
        self._forwarder.stdin.write(json.dumps({"pair": link, "weather": attrs.asdict(weather)}) + "\n")
        self._forwarder.stdin.flush()

    def rules(self, name: str, deaf_to: Iterable[str] = (), loss: float = 0.0) -> None:
        """What a member drops: all frames of some members, and a share of all others."""
        rule = LOSS_RULE.format(permille=round(loss * 1000)) if loss else ""
        text = RULES.format(loss=rule) + "flush set inet chaos deaf\n"
        for other in deaf_to:
            text += f"add element inet chaos deaf {{ {address_of(other)} }}\n"
        do("ip", "netns", "exec", self.namespace(name), "nft", "-f", "-", stdin_text=text)

    def split(self, *groups: Iterable[str]) -> None:
        """Members of different groups receive nothing from each other; a member in no group is not cut off."""
        lists = [list(group) for group in groups]
        for mine in lists:
            others = [other for group in lists if group is not mine for other in group]
            for name in mine:
                self.rules(name, others)

    def narrow(self, name: str, kbit: int) -> None:
        """What a member sends is queued at this rate; 0: no limit."""
        where = self.namespace(name)
        if kbit:
            do("tc", "-n", where, "qdisc", "replace", "dev", "eth0", "root", "tbf", "rate", f"{kbit}kbit",
               "burst", "16kb", "latency", "400ms")
        else:
            subprocess.run(["tc", "-n", where, "qdisc", "del", "dev", "eth0", "root"], capture_output=True,
                           timeout=COMMAND_TIMEOUT_S)
