"""Text scenarios: a few commands a block, a line `----`, and what the commands print.

    start A B C
    until agreed A B C within 5s
    send A all hello
    run 100ms
    delivered
    ----
    A B C agree on [A B C]
    A B C: hello

Blocks are separated by empty lines; `#` begins a comment. The commands are the methods `do_...` below. Output has no
times and no view numbers, so that it does not depend on timers. `rewrite` replaces the expected output by the current
one. Source: etcd raft's datadriven tests.
"""
from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import attrs

from jgroups_py.config.load import load
from jgroups_py.model.batch import Flag
from jgroups_py.model.errors import ChannelError
from jgroups_py.model.outputs import BRIDGE, LOCAL
from jgroups_py.model.ports import SiteReporter
from jgroups_py.model.units import parse_duration, parse_ratio
from jgroups_py.model.view import MergeView
from jgroups_py.simulator import history as h
from jgroups_py.simulator.checkers import check
from jgroups_py.simulator.process import App
from jgroups_py.simulator.world import World

LINE = "----"
NETS = {"local": (LOCAL,), "bridge": (BRIDGE,), "both": (LOCAL, BRIDGE)}


@attrs.define
class ScenarioBlock:
    """Commands and their expected output."""

    commands: list[str]
    expected: list[str]


def parse(text: str) -> list[ScenarioBlock]:
    """The blocks of a scenario."""
    blocks = []
    for part in text.strip().split("\n\n"):
        lines = part.strip("\n").split("\n")
        at = lines.index(LINE) if LINE in lines else len(lines)
        blocks.append(ScenarioBlock(lines[:at], lines[at + 1:]))
    return blocks


def run(text: str) -> list[ScenarioBlock]:
    """Run a scenario; returns the same commands with their actual output."""
    scenario = Scenario()
    return [ScenarioBlock(block.commands, [line for command in block.commands for line in scenario.command(command)])
            for block in parse(text)]


def rewrite(text: str) -> str:
    """The scenario's text with the actual output of its commands."""
    parts = ["\n".join([*block.commands, *([LINE, *block.expected] if block.expected else [])]) for block in run(text)]
    return "\n\n".join(parts) + "\n"


class Scenario:
    """A world, and the commands for it."""

    def __init__(self) -> None:
        self.world = World(seed=1)
        self.stack = "udp"
        self.properties: dict[str, str] = {}
        self.members: dict[str, str] = {}                # name -> its site, "" without
        self.clusters: dict[str, str] = {}               # name -> its local cluster, where it is not its site's
        self.shown = 0                                   # number of entries up to the last `reported`

    def command(self, line: str) -> Iterable[str]:
        """Carry out one line."""
        words = line.partition("#")[0].split()
        if not words:
            return ()
        handler: Callable[..., Iterable[str] | None] | None = getattr(self, f"do_{words[0]}", None)
        if handler is None:
            known = ", ".join(sorted(name[3:] for name in dir(self) if name.startswith("do_")))
            raise ValueError(f"{line!r}: there is no command {words[0]!r}; there are {known}")
        try:
            return list(handler(*words[1:]) or ())
        except ChannelError as error:
            return [f"refused: {error}"]

    # --- the world --------------------------------------------------------------------------------------------------

    def do_seed(self, seed: str) -> None:
        """seed 7: a new world."""
        self.world = World(seed)

    def do_stack(self, name: str, *properties: str) -> None:
        """stack tcp PROPERTY=VALUE...: the stack of members that start from now on."""
        self.stack, self.properties = name, dict(word.split("=", 1) for word in properties)

    def do_run(self, duration: str) -> None:
        """run 3s."""
        self.world.run_for(parse_duration(duration))

    def do_until(self, what: str, *words: str) -> Iterable[str]:
        """until agreed A B within 5s: until A and B have one view of just them; `until global ...` likewise."""
        at = words.index("within")
        names, limit = words[:at], words[at + 1]
        reached = {"agreed": self.world.agreed, "global": self._global_agreed}[what]
        if self.world.run_while(lambda: not reached(names), parse_duration(limit)):
            return [f"{' '.join(names)} agree on {self._view(names[0], what)}"]
        return [f"not within {limit}", *self.do_views()]

    def _global_agreed(self, names: tuple[str, ...]) -> bool:
        wanted = sorted(names)
        views = [self.world.process(name).global_view for name in names]
        return all(view is not None and sorted(member.name for member in view.members) == wanted for view in views)

    def _view(self, name: str, what: str) -> str:
        if what == "global":
            return str(self.world.process(name).global_view)
        return f"[{' '.join(self.world.view_names(name))}]"

    # --- members ----------------------------------------------------------------------------------------------------

    def do_start(self, *words: str) -> None:
        """start A B [at NYC] [in CLUSTER] [rate 100]: start members; their site; their cluster, if it is not their
        site's; how many messages a second their applications take."""
        options = {"at": "", "in": "", "rate": "0"}
        names = list(words)
        for option in options:
            if option in names:
                at = names.index(option)
                options[option] = names[at + 1]
                del names[at:at + 2]
        for name in names:
            self.members[name] = options["at"] or self.members.get(name, "")
            self.clusters[name] = options["in"] or self.clusters.get(name, f"group of {self.members[name]}")
        for name in names:
            self._start(name, App(int(options["rate"])))

    def _start(self, name: str, app: App) -> None:
        site = self.members[name]
        hosts = [self.world.ip(other) for other in self.members]
        if site:
            bridge = load("bridge", {"bridge_hosts": ",".join(f"{ip}[7900]" for ip in hosts), "bridge_port_range": "0"})
            port = str(45601 + sum(map(ord, site)))
            spec = load("nyc", {"site": site, "mcast_port": port, **self.properties})
            self.world.start(name, spec, self.clusters[name], bridge=bridge, app=app)
            return
        tcp = {"initial_hosts": ",".join(f"{ip}[7800]" for ip in hosts), "port_range": "0"}
        self.world.start(name, load(self.stack, {**(tcp if self.stack == "tcp" else {}), **self.properties}), app=app)

    def do_crash(self, *names: str) -> None:
        """crash A B."""
        for name in names:
            self.world.crash(name)

    def do_leave(self, *names: str) -> None:
        """leave A B [+forget]: leave gracefully, all at once; with +forget, other sites forget a site that ends so."""
        for name in names:
            if not name.startswith("+"):
                self.world.leave(name, forget="+forget" in names)

    def do_pause(self, name: str) -> None:
        """pause A."""
        self.world.pause(name)

    def do_resume(self, name: str) -> None:
        """resume A."""
        self.world.resume(name)

    def do_state(self, name: str, provider: str = "") -> None:
        """state B [A]: B fetches the state from A, or from the coordinator."""
        self.world.get_state(name, provider or None)

    def do_order(self, name: str, verb: str, site: str, timeout: str = "30s") -> None:
        """order A drain SFO [10s]: an operator's order at A: offline, online, drain or hold."""
        self.world.order(name, verb, site, parse_duration(timeout))

    # --- the network ------------------------------------------------------------------------------------------------

    def do_partition(self, *words: str) -> None:
        """partition A B | C [on local|bridge]."""
        net = "both"
        if "on" in words:
            net, words = words[-1], words[:-2]
        groups = " ".join(words).split("|")
        self.world.partition([group.split() for group in groups], NETS[net])

    def do_cut(self, src: str, dest: str) -> None:
        """cut A B: cut the paths from A to B."""
        self.world.cut(src, dest)

    def do_heal(self) -> None:
        """heal."""
        self.world.heal()

    def do_weather(self, net: str, *settings: str) -> None:
        """weather local|bridge loss=20% duplicate=5% reorder=10% latency=20ms."""
        changes: dict[str, Any] = {}
        for setting in settings:
            name, _, value = setting.partition("=")
            changes.update({f"{name}_ns": parse_duration(value)} if name in ("latency", "jitter")
                           else {f"{name}_ratio": parse_ratio(value)})
        for one in NETS[net]:
            self.world.set_weather(attrs.evolve(self.world.network.fair[one], **changes), one)

    # --- messages ---------------------------------------------------------------------------------------------------

    def do_send(self, name: str, dest: str, *texts: str) -> None:
        """send A all hello world [+OOB]: send two messages, with flags; send A B hello: to B."""
        flags = [Flag[text[1:]] for text in texts if text.startswith("+")]
        payloads = [text.encode() for text in texts if not text.startswith("+")]
        self.world.send(name, None if dest == "all" else dest, payloads, sum(flags))

    def do_post(self, name: str, dest: str, count: str = "1", size: str = "0") -> None:
        """post A all 1000 50: send 1000 numbered messages of 50 bytes."""
        self.world.post(name, None if dest == "all" else dest, int(count), int(size))

    # --- results ------------------------------------------------------------------------------------------------------

    def do_views(self) -> Iterable[str]:
        """views: the members in each member's view."""
        return self._grouped({name: self._shown_view(name) for name in self.world.running()})

    def _shown_view(self, name: str) -> str:
        view = self.world.view_of(name)
        merged = " merged" if isinstance(view, MergeView) else ""
        return f"[{' '.join(self.world.view_names(name))}]{merged}" if view is not None else "no view"

    def do_delivered(self, *names: str) -> Iterable[str]:
        """delivered [A B]: the multicasts that each delivered, in order."""
        return self._grouped({name: " ".join(map(h.show_payload, self.world.delivered(name))) or "nothing"
                              for name in names or self.world.running()})

    def do_counted(self, *names: str) -> Iterable[str]:
        """counted [A B]: how many multicasts each delivered."""
        return self._grouped({name: str(len(self.world.delivered(name))) for name in names or self.world.running()})

    def do_unicasts(self, *names: str) -> Iterable[str]:
        """unicasts [A B]: the unicasts that each delivered, in order."""
        return self._grouped({name: " ".join(map(h.show_payload, self.world.delivered(name, unicast=True))) or "nothing"
                              for name in names or self.world.running()})

    def do_reported(self) -> Iterable[str]:
        """reported: what RELAY reported to applications since the last `reported`, and which members left."""
        entries = self.world.history.entries[self.shown:]
        self.shown = len(self.world.history.entries)
        return [self.world.history.show(entry) for entry in entries
                if isinstance(entry, h.SiteStatusSeen | h.Unreached | h.Lost | h.MemberLeft)]

    def do_notes(self) -> Iterable[str]:
        """notes: errors in the logs of members."""
        return [entry.text for entry in self.world.history.entries
                if isinstance(entry, h.Remark) and " error: " in entry.text]

    def do_ledger(self, *names: str) -> Iterable[str]:
        """ledger [A B]: the ledger of each member's multicasts, for each other site."""
        rows = {}
        for name in names or self.world.running():
            report = self.world.node(name).local.find(SiteReporter).site_report()
            rows[name] = "; ".join(self._book(site, about, self.world.address(name).raw.hex())
                                   for site, about in sorted(report["sites"].items()))
        return self._grouped(rows)

    @staticmethod
    def _book(site: str, about: dict[str, Any], origin: str) -> str:
        book: dict[str, Any] = next((book for book in about["origins"] if book["address"] == origin), {})
        return f"{site} {about['status']}: {book.get('numbered', 0)} numbered, {book.get('acknowledged', 0)} " \
               f"acknowledged, {book.get('held', 0)} held, {book.get('lost', 0)} lost"

    def do_check(self) -> Iterable[str]:
        """check: the violations that the checkers find."""
        return [str(violation) for violation in check(self.world.history)] or ["nothing is violated"]

    @staticmethod
    def _grouped(values: dict[str, str]) -> Iterable[str]:
        groups: dict[str, list[str]] = {}
        for name, value in values.items():
            groups.setdefault(value, []).append(name)
        return [f"{' '.join(names)}: {value}" for value, names in groups.items()]
