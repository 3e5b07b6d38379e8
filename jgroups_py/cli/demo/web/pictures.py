"""The live page's pictures of the demo, made of the reports of all members to the director."""
from __future__ import annotations

import time
from collections import deque
from typing import Any

from jgroups_py.cli.demo.processes import DemoMember
from jgroups_py.cli.demo.report import incident_line
from jgroups_py.cli.demo.web.director import LiveDirector
from jgroups_py.ops.live.growth import Growth
from jgroups_py.ops.live.picture import LOG_ENTRIES, FlowPicture, LivePicture, LogLine, MemberPicture, SitePicture

RATE_S = 0.5                         # over which rates are averaged
SHORTEST_GAP_S = 0.05                # members report no shorter pauses
INCIDENTS = ("killed", "froze", "cut")


class DemoPictures:
    """See the module."""

    def __init__(self) -> None:
        self._growth = Growth()
        self._grown_at = 0.0
        self._log: deque[LogLine] = deque(maxlen=LOG_ENTRIES)
        self._lines = 0
        self._longest_s: dict[str, tuple[float, float]] = {}     # site -> (time of the last incident, longest since)

    def add_line(self, text: str) -> None:
        """A line of the director, which begins with its seconds since the start."""
        self._lines += 1
        said = text.partition(" s  ")[2] or text
        self._log.append(LogLine(number=self._lines, at=time.time(), text=said, incident=said.startswith(INCIDENTS)))

    def take(self, director: LiveDirector) -> LivePicture:
        """The present picture."""
        now, up = time.time(), director.group.up()
        if now - self._grown_at >= RATE_S:
            self._grown_at = now
            self._growth.take(now, _counts(director))
        rates = self._growth.rates
        return LivePicture(
            title="jgroups demo: what happens to messages when relays die", log=tuple(self._log),
            sites=tuple(self._site(director, site) for site in director.sites
                        if any(member.site == site for member in director.group.workers)),
            flows=tuple(FlowPicture(src=src, dest=dest, held=_held(director, src, dest),
                                    rate=round(rates.get(f"{src} {dest}", 0.0), 1))
                        for src in director.sites for dest in director.sites if src != dest),
            delivered=sum(sum(member.received.values()) for member in director.group.workers),
            lost=sum(member.progress.get("missing", 0) for member in up),
            twice=sum(member.progress.get("twice", 0) for member in up), orders=director.offers())

    def _site(self, director: LiveDirector, site: str) -> SitePicture:
        latest = {member.name: member for member in director.group.workers if member.site == site}
        relay = director.group.coordinator(site)
        rates = self._growth.rates
        return SitePicture(
            name=site, status="", rate=round(max(rates.get(member.tag, 0.0) for member in latest.values()), 1),
            silent_seconds=_silent_s(director, site), longest_seconds=self._longest(director, site),
            members=tuple(MemberPicture(
                name=member.name, state=_state(director, member), coordinator=member is relay, relay=member is relay,
                delivered=sum(member.received.values()), rate=round(rates.get(member.tag, 0.0), 1))
                for member in latest.values()))

    def _longest(self, director: LiveDirector, site: str) -> float:
        """The longest pause of messages from another site that ended since the last incident."""
        since = director.incidents[-1]["at"] + director.started_s if director.incidents else director.started_s
        before, longest = self._longest_s.get(site, (since, 0.0))
        pauses = [length for member in director.group.up(site) for last in member.progress.get("pauses", {}).values()
                  for began, length in last if began + length >= since]
        longest = max([longest if before == since else 0.0, *pauses])
        self._longest_s[site] = since, longest
        return float(round(longest, 3))


def _state(director: LiveDirector, member: DemoMember) -> str:
    if member.tag in director.frozen:
        return "frozen"
    return "alive" if member.up else member.state


def _counts(director: LiveDirector) -> dict[str, float]:
    """Messages delivered: at each member, and from each site at one member of each other one."""
    found: dict[str, float] = {member.tag: sum(member.received.values()) for member in director.group.workers}
    site_of = {member.tag: member.site for member in director.group.workers}
    for dest in director.sites:
        receiver = next((member for member in director.group.up(dest)
                         if "#" not in member.tag and member.tag not in director.frozen), None)
        for src in director.sites:
            if receiver is not None and src != dest:
                found[f"{src} {dest}"] = sum(
                    number for tag, number in receiver.received.items() if site_of[tag] == src)
    return found


def _held(director: LiveDirector, src: str, dest: str) -> int:
    """Messages that site `src` holds for `dest`, as its relay reported."""
    relay = director.group.coordinator(src)
    return 0 if relay is None else int(relay.progress.get("held", {}).get(dest, 0))


def _silent_s(director: LiveDirector, site: str) -> float:
    """For how long no member of the site has got a message from another one; while members report, by their clocks."""
    facts = [member.progress for member in director.group.up(site)
             if member.progress.get("heard") and member.tag not in director.frozen]
    if not facts or director.is_ended:
        return 0.0
    silent = min(each["at"] - max(each["heard"].values()) for each in facts)
    return round(silent, 3) if silent >= SHORTEST_GAP_S else 0.0


def result_rows(verdict: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    """The final figures of the page."""
    totals = verdict["totals"]
    return (
        ("lines", f"{verdict['lines']:,}"),
        *((name.replace("_", " "), f"{totals[name]:,}") for name in (
            "expected", "received", "lost", "duplicated", "out_of_order")),
        ("unicasts", f"{verdict['answers']['received']:,} of {verdict['answers']['sent']:,}"),
        ("identical copies", ", ".join(copy["member"] for copy in verdict["copies"] if copy["identical"]) or "none"),
        *((f"{incident['at']:.1f} s", incident_line(incident)) for incident in verdict["incidents"]))
