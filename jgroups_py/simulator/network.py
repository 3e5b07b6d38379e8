"""The virtual network: how long a frame takes from one process to another, and whether it arrives at all.

One `Path` for each (sender, receiver, net), in one direction, with its own random generator, so that a new draw on
one path does not change the others. Datagram paths lose, duplicate and reorder according to their weather. Stream paths
(the TCP transport) keep order; frames sent into a cut wait, bounded, until the cut heals: then the stream either
resumes, or it was reset and the waiting frames are lost. Weather with loss drops frames of streams as well, as resets
do. Frames that real sockets refuse are refused here too, and counted at the sender under the names of runtime/, so
that a destination or a frame that no socket takes is noticed without sockets.

A burst is total loss on one path for some milliseconds: datagrams are lost, streams delayed by that time, as TCP
retransmits. A path with a bandwidth has a queue: a frame that would wait longer than `QUEUE_NS` is lost.
"""
from __future__ import annotations

from collections.abc import Iterable
from random import Random
from typing import Any

import attrs

from jgroups_py.model.address import PhysicalAddress
from jgroups_py.model.name_resolution import MAX_PORT, is_address
from jgroups_py.model.outputs import BRIDGE, LOCAL
from jgroups_py.model.units import NS_PER_MS, NS_PER_S, NS_PER_US

NETS = (LOCAL, BRIDGE)
STREAM_BACKLOG = 1024                    # frames that wait in a cut stream; TcpConfig.send_queue's default
RESET_RATIO = 0.5                        # of streams that a cut resets
QUEUE_NS = 3 * NS_PER_S                  # a frame that waits longer on a path with a bandwidth is dropped

LARGEST_DATAGRAM = 65507                 # UDP over IPv4
LARGEST_FRAME = 16 << 20                 # ZeroMQ's limit in runtime/sockets/tcp.py: a peer that sends more is cut off


def refusal_of(to: PhysicalAddress) -> str:
    """The counter of a socket's refusal of a destination; "": it accepts it."""
    host, port = to
    if not 0 < port <= MAX_PORT:
        return "no_port_dropped"
    return "" if is_address(host) else "name_unresolved_dropped"


def refusal_of_size(nbytes: int, stream: bool) -> str:
    """The same for the size of a frame."""
    if stream:
        return "frame_too_large_dropped" if nbytes > LARGEST_FRAME else ""
    return "send_EMSGSIZE_dropped" if nbytes > LARGEST_DATAGRAM else ""


@attrs.frozen
class Weather:
    """Delay and faults of a path. Delays are uniform between latency and latency + jitter.

    bytes_per_s: its bandwidth; 0: unlimited.
    """

    latency_ns: int = 200 * NS_PER_US
    jitter_ns: int = 200 * NS_PER_US
    loss_ratio: float = 0.0
    duplicate_ratio: float = 0.0
    reorder_ratio: float = 0.0           # such a frame is overtaken by those of the next `reorder_ns`
    reorder_ns: int = 5 * NS_PER_MS
    bytes_per_s: int = 0

    def __str__(self) -> str:
        parts = [f"latency {self.latency_ns / NS_PER_MS:g}..{(self.latency_ns + self.jitter_ns) / NS_PER_MS:g} ms"]
        for word, ratio in (("loss", self.loss_ratio), ("duplicate", self.duplicate_ratio),
                            ("reorder", self.reorder_ratio)):
            if ratio:
                parts.append(f"{word} {ratio:.3g}" if ratio < 0.01 else f"{word} {ratio:.0%}")
        if self.bytes_per_s:
            parts.append(f"{self.bytes_per_s} bytes/s")
        return ", ".join(parts)


CLEAR = {LOCAL: Weather(), BRIDGE: Weather(latency_ns=2 * NS_PER_MS, jitter_ns=NS_PER_MS)}
"""Good weather: a LAN inside a site, a short WAN between sites."""


class Path:
    """One direction between two processes on one net."""

    __slots__ = ("backlog", "burst_ns", "cut", "free_ns", "last_ns", "rng", "weather")

    def __init__(self, rng: Random, weather: Weather) -> None:
        self.rng = rng
        self.weather = weather
        self.cut = False
        self.last_ns = 0                                   # when the latest frame sent in order arrives
        self.burst_ns = 0                                  # until then a burst of loss lasts
        self.free_ns = 0                                   # when all that was sent before is on its way (bandwidth)
        self.backlog: list[tuple[Any, bytes]] = []      # frames of a cut stream: (receiving socket, data)

    def arrivals(self, now_ns: int, stream: bool, nbytes: int = 0) -> tuple[int, ...]:
        """When a frame of so many bytes sent now arrives: never, once, or twice."""
        weather = self.weather
        rand = self.rng.random
        if now_ns < self.burst_ns:
            if not stream:
                return ()
            now_ns = self.burst_ns
        if weather.bytes_per_s:
            if self.free_ns > now_ns + QUEUE_NS:
                return ()
            self.free_ns = now_ns = max(now_ns, self.free_ns) + nbytes * NS_PER_S // weather.bytes_per_s
        at_ns = now_ns + weather.latency_ns + int(weather.jitter_ns * rand())
        if weather.loss_ratio and rand() < weather.loss_ratio:
            return ()
        if not stream:
            if weather.reorder_ratio and rand() < weather.reorder_ratio:
                return (at_ns + int(weather.reorder_ns * rand()),)
            if weather.duplicate_ratio and rand() < weather.duplicate_ratio:
                return at_ns, at_ns + int(weather.reorder_ns * rand())
        if at_ns < self.last_ns:
            at_ns = self.last_ns
        self.last_ns = at_ns
        return (at_ns,)


class Network:
    """All paths, made when first used. Keys are names of processes, so a restart keeps the paths."""

    def __init__(self, seed: str, weather: dict[int, Weather] | None = None) -> None:
        self.seed = seed
        self.fair = {**CLEAR, **(weather or {})}                   # net -> weather to heal to
        self.general = dict(self.fair)                             # net -> weather of paths without one of their own
        self.paths: dict[tuple[str, str, int], Path] = {}
        self.cuts: dict[tuple[str, str, int], dict[int, None]] = {}     # path -> the cuts on it, by number
        self.local_weather: dict[tuple[str, str, int], Weather] = {}

    def path(self, src: str, dest: str, net: int) -> Path:
        """The path from `src` to `dest`."""
        key = (src, dest, net)
        found = self.paths.get(key)
        if found is None:
            weather = self.local_weather.get(key, self.general[net])
            found = self.paths[key] = Path(Random(f"{self.seed}/path/{src}/{dest}/{net}"), weather)
            found.cut = key in self.cuts
        return found

    def is_cut(self, src: str, dest: str, net: int) -> bool:
        """Whether nothing gets from `src` to `dest`."""
        return (src, dest, net) in self.cuts

    def cut(self, src: str, dest: str, nets: Iterable[int] = NETS, number: int = 0) -> None:
        """Cut the path from `src` to `dest`; the other direction stays. number: of its fault."""
        for net in nets:
            self.cuts.setdefault((src, dest, net), {})[number] = None
            self.path(src, dest, net).cut = True

    def set_fair(self, net: int, weather: Weather) -> None:
        """Set what counts as good weather on a net, from now on."""
        self.fair[net] = weather
        self.set_weather(net, weather)

    def set_weather(self, net: int, weather: Weather) -> None:
        """The same weather on all paths of a net."""
        self.general[net] = weather
        for key in [key for key in self.local_weather if key[2] == net]:
            del self.local_weather[key]
        for key, path in self.paths.items():
            if key[2] == net:
                path.weather = weather

    def set_path_weather(self, src: str, dest: str, net: int, weather: Weather) -> None:
        """Set the weather of one direction between two processes."""
        self.local_weather[src, dest, net] = weather
        self.path(src, dest, net).weather = weather

    def mend(self, nets: Iterable[int] = NETS) -> list[Path]:
        """Undo all cuts. Returns the streams that have frames waiting and resume; other waiting frames are lost."""
        mended = tuple(nets)
        for key in [key for key in self.cuts if key[2] in mended]:
            del self.cuts[key]
            self.paths[key].cut = False
        return self._going_on()

    def mend_cut(self, number: int) -> list[Path]:
        """Undo one cut; paths that another fault cuts stay cut. Returns what `mend` does."""
        for key, numbers in list(self.cuts.items()):
            if numbers.pop(number, number) is None and not numbers:
                del self.cuts[key]
                self.paths[key].cut = False
        return self._going_on()

    def has_other_cuts(self, number: int, nets: Iterable[int]) -> bool:
        """Whether faults other than this one cut paths of some nets."""
        looked_at = tuple(nets)
        return any(key[2] in looked_at and any(other != number for other in numbers)
                   for key, numbers in self.cuts.items())

    def _going_on(self) -> list[Path]:
        going_on = []
        for path in [path for path in self.paths.values() if path.backlog and not path.cut]:
            if path.rng.random() < RESET_RATIO:
                path.backlog.clear()
            else:
                going_on.append(path)
        return going_on

    def clear_up(self, net: int) -> bool:
        """Good weather again on a net; whether it was bad."""
        bad = self.general[net] != self.fair[net] or any(key[2] == net for key in self.local_weather)
        if bad:
            self.set_weather(net, self.fair[net])
        return bad
