"""The demo's member processes, and what each reported last."""
from __future__ import annotations

from typing import Any

import attrs

from jgroups_py.cli import process_group
from jgroups_py.cli.demo.tally import DemoTally

WORKER = "jgroups_py.cli.demo.worker"


@attrs.define(eq=False)
class DemoMember(process_group.WorkerProcess):
    """One member process and what it reported last."""

    view: list[str] = attrs.Factory(list)
    coordinator: str = ""
    global_view: dict[str, list[str]] = attrs.Factory(dict)
    sent: int = 0
    received: dict[str, int] = attrs.Factory(dict)
    progress: dict[str, Any] = attrs.Factory(dict)          # the event, as it came last
    report: dict[str, Any] | None = None
    up_at: float = 0.0                  # when it was connected, seconds
    sent_log: list[tuple[float, int]] = attrs.Factory(list)     # (when it was reported, messages sent by then)

    def sent_by(self, at: float) -> int:
        """Messages sent, by the first report at or after `at`; by the last report, if there was none since."""
        return next((sent for when, sent in self.sent_log if when >= at), self.sent)

    def tallies(self) -> dict[str, DemoTally]:
        """The member's counts, by tag of the origin."""
        received = (self.report or {}).get("received", {})
        return {tag: DemoTally.of(figures) for tag, figures in received.items()}


class DemoGroup(process_group.ProcessGroup[DemoMember]):
    """All members of the demo."""

    def __init__(self) -> None:
        super().__init__(WORKER, DemoMember)

    def coordinator(self, site: str) -> DemoMember | None:
        """The coordinator of a site, as its members see it."""
        for member in self.up(site):
            for other in self.up(site):
                if other.name == member.coordinator:
                    return other
        return None
