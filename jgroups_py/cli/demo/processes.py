"""The demo's member processes, and what each told last."""
from __future__ import annotations

from typing import Any

import attrs

from jgroups_py.cli import company
from jgroups_py.cli.demo.tally import Tally

WORKER = "jgroups_py.cli.demo.worker"


@attrs.define(eq=False)
class Person(company.Person):
    """One member process and what it told last."""

    view: list[str] = attrs.Factory(list)
    coordinator: str = ""
    global_view: dict[str, list[str]] = attrs.Factory(dict)
    sent: int = 0
    received: dict[str, int] = attrs.Factory(dict)
    report: dict[str, Any] | None = None
    up_at: float = 0.0                  # when it was connected, seconds
    sent_log: list[tuple[float, int]] = attrs.Factory(list)     # how much it had sent, and when it said so

    def sent_by(self, at: float) -> int:
        """How much it had sent, as it said first at or after `at`; all of it, if it said nothing since."""
        return next((sent for when, sent in self.sent_log if when >= at), self.sent)

    def tallies(self) -> dict[str, Tally]:
        """What it counted, by tag of the origin."""
        received = (self.report or {}).get("received", {})
        return {tag: Tally.of(figures) for tag, figures in received.items()}


class Company(company.Company[Person]):
    """All members of the demo."""

    def __init__(self) -> None:
        super().__init__(WORKER, Person)

    def coordinator(self, site: str) -> Person | None:
        """The coordinator of a site, as its members see it."""
        for person in self.up(site):
            for other in self.up(site):
                if other.name == person.coordinator:
                    return other
        return None
