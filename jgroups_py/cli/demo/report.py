"""The demo's result: per origin and receiver sent, received, lost, duplicated, out of order; copies; gaps; relays."""
from __future__ import annotations

from typing import Any

from jgroups_py.cli.demo.director import Director
from jgroups_py.cli.demo.processes import DemoMember
from jgroups_py.cli.demo.recording import as_line
from jgroups_py.cli.demo.tally import DemoTally

JOINING_S = 1.0
VERBS = {"killed": "was killed", "left": "left", "frozen": "was frozen", "cut": "was cut off from the bridge"}
GAP_WINDOW_S = 10.0              # a pause belongs to an incident if it is around it, or begins so soon after


def verdict(director: Director) -> dict[str, Any]:
    """The result as one document; `ok`: everything was replicated."""
    up = director.group.up()
    pairs = [row for origin in director.group.workers for row in rows_of(origin, up)]
    copies = [copy_of(director, member) for member in up if "#" not in member.tag]
    answers = answers_of(director)
    totals = {name: sum(row[name] for row in pairs)
              for name in ("expected", "received", "lost", "duplicated", "out_of_order")}
    foreign = sum(member.report["foreign"] for member in up if member.report)
    forgiven = [event for event in director.reported if event["event"] == "unreachable" and director.was_cut]
    unreachable = answers["lost"] if forgiven else 0         # guarantee R6: they arrive, or are reported
    ok = (not (totals["lost"] or totals["duplicated"] or totals["out_of_order"] or foreign)
          and all(copy["identical"] for copy in copies)
          and not (answers["lost"] - unreachable or answers["duplicated"] or answers["out_of_order"])
          and len(forgiven) == len(director.reported))
    return {
        "ok": ok, "lines": director.plan.lines, "totals": totals, "wrong_sender": foreign, "unreachable": unreachable,
        "pairs": pairs, "copies": copies, "answers": answers,
        "incidents": [with_gap(director, number) for number in range(len(director.incidents))],
        "relays": director.relays, "reported": director.reported, "out": str(director.plan.out),
    }


def rows_of(origin: DemoMember, receivers: list[DemoMember]) -> list[dict[str, Any]]:
    """The counts of one origin, one row per receiver."""
    rows = []
    for member in receivers:
        tally = member.tallies().get(origin.tag, DemoTally())
        sent = expected(origin, member, receivers)
        if "#" in member.tag:                                 # it counts from the first message it could see
            sent -= min(sent, sent_before(origin, member, sent) if tally.first is None else tally.first)
        rows.append({"origin": origin.tag, "origin_site": origin.site, "receiver": member.tag,
                     "receiver_site": member.site, "expected": sent, "received": tally.received,
                     "lost": max(0, sent - tally.received), "duplicated": tally.duplicated,
                     "out_of_order": tally.out_of_order})
    return rows


def sent_before(origin: DemoMember, late: DemoMember, sent: int) -> int:
    """How many messages of an origin were sent before a late joiner that received none of them was in the group.

    Messages of the joiner's first second may have been sent before it was in the group, so they count as before. An
    origin that is gone sent nothing after the joiner had started.
    """
    return origin.sent_by(late.up_at + JOINING_S) if origin.up else sent


def expected(origin: DemoMember, receiver: DemoMember, members: list[DemoMember]) -> int:
    """How many messages of an origin a member must have.

    The number that a killed origin had sent is not known. All members must have what any survivor of the origin's site
    has, and all members of a site what any survivor of that site has.
    """
    if origin.state != "killed":
        return origin.sent
    return max((tally.next for member in members
                if member.site in (origin.site, receiver.site) and "#" not in member.tag
                and (tally := member.tallies().get(origin.tag)) is not None), default=0)


def copy_of(director: Director, member: DemoMember) -> dict[str, Any]:
    """Whether a member's copy equals the file (the sender's own copy is compared too)."""
    path = director.plan.out / f"copy-{member.tag}.txt"
    copied = path.read_bytes()
    return {"member": member.tag, "site": member.site, "file": str(path), "bytes": len(copied),
            "identical": copied == director.plan.data}


def answers_of(director: Director) -> dict[str, Any]:
    """The counts of the answerer's unicasts at the sender."""
    members = {member.tag: member for member in director.group.up()}
    sender, answerer = members.get(director.sender), members.get(director.answerer)
    if sender is None or answerer is None or not (sender.report and answerer.report):
        return {"sent": 0, "received": 0, "lost": 0, "duplicated": 0, "out_of_order": 0}
    tally, sent = DemoTally.of(sender.report["unicasts"]), answerer.report["answered"]
    return {"from": answerer.tag, "to": sender.tag, "sent": sent, "received": tally.received,
            "lost": sent - tally.received, "duplicated": tally.duplicated, "out_of_order": tally.out_of_order}


def with_gap(director: Director, number: int) -> dict[str, Any]:
    """The incident of that number, with the longest pause in the lines at each site around it. A pause that began after
    the next incident is that one's."""
    incident = director.incidents[number]
    at = incident["at"] + director.started_s
    following = [other["at"] + director.started_s for other in director.incidents[number + 1:number + 2]]
    until = min([at + GAP_WINDOW_S, *following])
    gaps = {}
    for site in director.sites:
        pauses = [length for member in director.group.up(site) if member.report and "#" not in member.tag
                  for began, length in member.report["gaps"] if began + length >= at and began <= until]
        gaps[site] = round(max(pauses, default=0.0), 3)
    return {**incident, "at": round(incident["at"], 2), "longest_gap_s": gaps}


def as_lines(result: dict[str, Any]) -> list[str]:
    """The document as lines of text."""
    lines = ["", f"{'origin':<10}{'receiver':<10}{'expected':>9}{'received':>10}{'lost':>6}{'twice':>7}"
             f"{'disorder':>10}"]
    for row in result["pairs"]:
        lines.append(f"{row['origin']}@{row['origin_site']:<{9 - len(row['origin'])}}"
                     f"{row['receiver']}@{row['receiver_site']:<{9 - len(row['receiver'])}}"
                     f"{row['expected']:>9}{row['received']:>10}{row['lost']:>6}{row['duplicated']:>7}"
                     f"{row['out_of_order']:>10}")
    totals, answers = result["totals"], result["answers"]
    lines.append(f"{'all':<20}{totals['expected']:>9}{totals['received']:>10}{totals['lost']:>6}{totals['duplicated']:>7}"
                 f"{totals['out_of_order']:>10}")
    if "from" in answers:
        lines.append(f"{'unicasts ' + answers['from'] + ' to ' + answers['to']:<20}{answers['sent']:>9}"
                     f"{answers['received']:>10}{answers['lost']:>6}{answers['duplicated']:>7}"
                     f"{answers['out_of_order']:>10}")
    lines.append("")
    lines += [incident_line(incident) for incident in result["incidents"]]
    for site in dict.fromkeys(relay["site"] for relay in result["relays"]):
        turns = [f"{relay['relay']} from {relay['at']:.1f} s" for relay in result["relays"] if relay["site"] == site]
        lines.append(f"relay of {site}: {', '.join(turns)}")
    lines += [f"reported by {event['member']}: {event['event']} {event}" for event in result["reported"]]
    same = [copy["member"] for copy in result["copies"] if copy["identical"]]
    other = [copy["member"] for copy in result["copies"] if not copy["identical"]]
    lines.append(f"copies of {result['lines']} lines identical at {', '.join(same) or 'no member'}"
                 + (f"; DIFFERENT at {', '.join(other)}" if other else "") + f" (in {result['out']})")
    if result["archive"] is not None:
        lines.append(as_line(result["archive"]))
    if "keys" in result:
        lines.append(f"all frames were sealed, all members known by their keys: {result['keys']}")
    lines.append(sentence(result) if result["ok"] else "FAILED: see above")
    return lines


def sentence(result: dict[str, Any]) -> str:
    """The result in a sentence."""
    if not result["ok"]:
        return "not everything arrived once and in order"
    number = result["unreachable"]
    but = f"; {number} unicasts were reported as unreachable while the bridge was cut" if number else ""
    return f"everything arrived once and in order{but}"


def incident_line(incident: dict[str, Any]) -> str:
    """One kill or leave as a line of text."""
    gaps = ", ".join(f"{gap:.2f} s at {site}" for site, gap in incident["longest_gap_s"].items())
    return (f"{incident['member']} of {incident['site']} {VERBS[incident['what']]} at {incident['at']:.1f} s "
            f"(line {incident['lines_sent']}); longest gap around it: {gaps}")
