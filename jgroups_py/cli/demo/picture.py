"""The display of the demo while it runs: a live picture on a terminal, plain lines elsewhere."""
from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self

from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from jgroups_py.cli.demo.processes import DemoMember
from jgroups_py.cli.showing import show
from jgroups_py.model.text import escaped

if TYPE_CHECKING:
    from jgroups_py.cli.demo.director import Director

PLAIN_EVERY_S = 5.0
LIVE_EVERY_S = 0.1
LOG_LINES = 8
COLOURS = {"up": "green", "starting": "yellow", "killed": "red", "left": "blue", "failed": "red"}


class Plain:
    """Prints a line per event, and the progress every few seconds."""

    def __init__(self, show_line: Callable[[str], None]) -> None:
        self.show_line = show_line
        self.shown_s = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def show(self, director: Director) -> None:
        """Print the progress, at most every PLAIN_EVERY_S."""
        if time.monotonic() - self.shown_s >= PLAIN_EVERY_S and any(p.sent for p in director.group.workers):
            self.shown_s = time.monotonic()
            received = {p.tag: p.received.get(director.sender, 0) for p in director.group.up()}
            director.show_line(f"{director.lines_sent} of {director.plan.lines} lines sent; received: "
                         + ", ".join(f"{tag} {number}" for tag, number in received.items()))


class Screen:
    """Both sites, their views and relays, rates and a progress bar, redrawn in place."""

    def __init__(self) -> None:
        self.live = Live(console=Console(), refresh_per_second=10)
        self.log: list[str] = []
        self.shown_s = 0.0
        self.rates: dict[str, tuple[float, int, float]] = {}     # tag -> (when, received, per second)

    def __enter__(self) -> Self:
        self.live.__enter__()
        return self

    def __exit__(self, *exception: Any) -> None:
        self.live.__exit__(*exception)

    def show_line(self, text: str) -> None:
        """Keep a line; the picture has the last few, and stays on the terminal at the end."""
        self.log.append(escaped(text))

    def show(self, director: Director) -> None:
        """Redraw, at most ten times a second."""
        if time.monotonic() - self.shown_s >= LIVE_EVERY_S:
            self.shown_s = time.monotonic()
            self.live.update(self.draw(director))

    def draw(self, director: Director) -> Group:
        """The picture."""
        sites = Table.grid(expand=True, padding=(0, 1))
        for _ in director.sites:
            sites.add_column(ratio=1)
        sites.add_row(*[self.site(director, site) for site in director.sites])
        done, total = director.lines_sent, director.plan.lines
        bar = Table.grid(padding=(0, 1))
        bar.add_row(Text(f"{director.sender} sends"), ProgressBar(total=total, completed=done, width=60),
                    Text(f"{done} of {total} lines"))
        return Group(sites, bar, Text("\n".join(self.log[-LOG_LINES:]), style="dim"))

    def site(self, director: Director, site: str) -> Panel:
        """One site: its view, and for each member whether it is the relay and what it has received."""
        table = Table.grid(padding=(0, 2))
        relay = director.group.coordinator(site)
        for member in [p for p in director.group.workers if p.site == site]:
            table.add_row(Text(member.tag, style="bold"), Text(member.state, style=COLOURS[member.state]),
                          Text("relay" if member is relay else "", style="magenta"),
                          f"{member.received.get(director.sender, 0)} lines", f"{self.rate(member):.0f}/s")
        view = next((p.view for p in director.group.up(site)), [])
        return Panel(table, title=escaped(f"{site}  view {' '.join(view)}"), border_style="cyan")

    def rate(self, member: DemoMember) -> float:
        """Messages received a second, of all origins."""
        now, number = time.monotonic(), sum(member.received.values())
        when, before, rate = self.rates.get(member.tag, (now, number, 0.0))
        if now - when >= 1.0:
            rate = (number - before) / (now - when)
            self.rates[member.tag] = (now, number, rate)
        elif member.tag not in self.rates:
            self.rates[member.tag] = (now, number, 0.0)
        return rate


def picture() -> Plain | Screen:
    """The display for standard output: Screen if it is a terminal."""
    return Screen() if sys.stdout.isatty() else Plain(show)
