"""The live page's pictures of one member, made of its snapshots: its group, and the other sites as it knows them."""
from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from jgroups_py.ops.http.events import EventLog
from jgroups_py.ops.http.metrics import MemberFacts
from jgroups_py.ops.http.snapshot import MemberReport, Snapshot
from jgroups_py.ops.live.growth import Growth
from jgroups_py.ops.live.picture import (
    LOG_ENTRIES,
    MOST_MEMBERS,
    FlowPicture,
    LivePicture,
    LogLine,
    MemberPicture,
    SitePicture,
    cut,
)
from jgroups_py.ops.reports import Facts

PERIOD_SECONDS = 0.5
ALIVE = "alive"
INCIDENTS = ("failed", "left", "suspected", "site", "joined")


class MemberPictures:
    """See the module. For coroutines of one event loop."""

    def __init__(self, facts: MemberFacts, snapshot: Callable[[], Awaitable[Snapshot]], events: EventLog) -> None:
        self._facts = facts
        self._snapshot = snapshot
        self._events = events
        self._growth = Growth()

    async def take(self) -> LivePicture:
        """The present picture."""
        snapshot = await self._snapshot()
        name, report = cut(self._facts.member), snapshot.report
        log = tuple(log_entry(number, facts) for number, facts in self._events.newest(LOG_ENTRIES))
        if report is None:
            return LivePicture(title=f"{name} is in no group", log=log, note=f"its channel is {snapshot.state}")
        other = {} if report.sites is None else report.sites["sites"]
        self._growth.take(snapshot.at, {
            "": delivered(report),
            **{site: figures["acknowledged"] for site, figures in other.items()}})
        note = f"the member's loop does not answer; figures of {snapshot.stale_seconds:.0f} s ago" \
            if snapshot.silent_seconds else ""
        return LivePicture(
            title=cut(f"{name} in {snapshot.cluster}"), note=note, log=log,
            sites=(self._own_site(report), *map(self._other_site, sorted(other.items()))),
            flows=tuple(FlowPicture(
                src=self._site_name(report), dest=cut(site), held=figures["held"],
                rate=round(self._growth.rates.get(site, 0.0), 1)) for site, figures in sorted(other.items())),
            delivered=delivered(report),
            lost=None if report.sites is None else sum(figures["lost"] for figures in other.values()))

    def _site_name(self, report: MemberReport) -> str:
        return cut(self._facts.site or "") if report.sites is not None else ""

    def _own_site(self, report: MemberReport) -> SitePicture:
        members = report.members["members"]
        relay = None if report.sites is None else report.sites["relay"]
        rate = round(self._growth.rates.get("", 0.0), 1)
        return SitePicture(
            name=self._site_name(report), status="", rate=rate, more=max(0, len(members) - MOST_MEMBERS),
            members=tuple(MemberPicture(
                name=cut(member["name"]), state=member["state"], coordinator=at == 0, relay=member["name"] == relay,
                delivered=delivered(report) if member["uuid"] == report.uuid else None,
                rate=rate if member["uuid"] == report.uuid else None)
                for at, member in enumerate(members[:MOST_MEMBERS])))

    def _other_site(self, entry: tuple[str, dict[str, Any]]) -> SitePicture:
        """silent_seconds: for how long it has acknowledged nothing of what is held for it."""
        site, figures = entry
        silent = self._growth.at - self._growth.grew_at.get(site, self._growth.at) if figures["held"] else 0.0
        return SitePicture(
            name=cut(site), status=figures["status"], silent_seconds=round(silent, 3),
            rate=round(self._growth.rates.get(site, 0.0), 1), more=max(0, len(figures["members"]) - MOST_MEMBERS),
            members=tuple(MemberPicture(name=cut(name), state=ALIVE if figures["status"] == "UP" else "unknown")
                          for name in figures["members"][:MOST_MEMBERS]))


def delivered(report: MemberReport) -> int:
    """Messages given to the receiver; it is counted from the first one on."""
    return int(report.stats["channel"].get("delivered", 0))


def log_entry(number: int, facts: Facts) -> LogLine:
    """An event for the page's log."""
    event = str(facts["event"])
    match event:
        case "view":
            text = f"view {facts['id']}: {', '.join(facts['members'])}"
        case "site":
            text = f"site {facts['site']} is {facts['status']}"
        case "global_view":
            text = "all sites: " + "; ".join(f"{site} {', '.join(names)}" for site, names in facts["sites"].items())
        case _:
            text = f"{event}: {facts.get('name', '')}"
    return LogLine(number=number, at=facts["at"], text=cut(text), incident=event in INCIDENTS)
