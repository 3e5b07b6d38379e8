"""`jgroups members`: the members known to a running member.

The member must have a control socket (`jgroups member --control PATH`, or jgroups_py.ops.control.ControlSocket in a
program), and run as the same user on this host. In a group (GMS), the members of its view are listed, with a round-trip
time if SWIM detects failures. A membership of SWIM alone also has tags, and members that failed or left recently.

With --all the member asks all others, of its group and of the sites that are UP, and shows after a second at most what
they say: alive, blocked (the receiver has handled nothing for a second), "no answer" (stopped or cut off, or a program
without a control socket and an HTTP endpoint), silent (such a program that uses Rpc).
"""
from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Iterable
from typing import Any

from jgroups_py.cli.control_client import CLAIM_FAILED, WHICH, add_control_argument, wrong
from jgroups_py.cli.showing import complain, show
from jgroups_py.model.errors import ChannelError
from jgroups_py.model.text import escaped
from jgroups_py.ops.control import ANSWER_SLACK_SECONDS, ask

COLUMNS = ("name", "address", "state", "version", "incarnation", "tags", "rtt")
TO_THE_RIGHT = ("incarnation", "rtt")
SURVEY_COLUMNS = ("site", "name", "state", "is", "view", "version", "delivered", "backlog", "rtt", "clock")
SURVEY_TO_THE_RIGHT = ("delivered", "backlog", "rtt", "clock")


def add_parser(subparsers: Any) -> None:
    """Add `members` to the command line."""
    parser: ArgumentParser = subparsers.add_parser(
        "members", help="show the members known to a running member", description=__doc__,
        formatter_class=RawDescriptionHelpFormatter)
    add_control_argument(parser)
    parser.add_argument("--all", action="store_true", help="ask all members, of all sites that are UP, how they are")
    parser.add_argument("--json", action="store_true", help="the answer of the member as JSON")
    parser.set_defaults(run=run)


def run(args: Namespace) -> int:
    """Print the members; 1 if the member is in no group, 2 if no member listens at the control socket."""
    if not args.control:
        return wrong("members", WHICH)
    try:
        answer = ask(args.control, {"command": "survey" if args.all else "members"}, ANSWER_SLACK_SECONDS)
    except ChannelError as error:
        return wrong("members", str(error))
    if args.json:
        print(json.dumps(answer, indent=2))
    elif answer["ok"]:
        show(*(survey_text if args.all else as_text)(answer).split("\n"))
    else:
        complain(f"jgroups members: {answer['error']}")
    return 0 if answer["ok"] else CLAIM_FAILED


def as_text(report: dict[str, Any]) -> str:
    """The report as text."""
    view = "" if report["view"] is None else f", view {report['view']}"
    number = len(report["members"])
    return "\n".join([escaped(f"{report['cluster']}, as {report['member']} sees it{view}: {number} members"),
                      *aligned(COLUMNS, TO_THE_RIGHT, map(row_of, report["members"]))])


def aligned(columns: tuple[str, ...], to_the_right: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> list[str]:
    """A table with a head, as lines."""
    table = [columns, *(tuple(map(escaped, row)) for row in rows)]
    widths = [max(len(row[at]) for row in table) for at in range(len(columns))]
    lines = []
    for row in table:
        cells = [cell.rjust(width) if column in to_the_right else cell.ljust(width)
                 for column, cell, width in zip(columns, row, widths, strict=True)]
        lines.append("  ".join(cells).rstrip())
    return lines


def survey_text(survey: dict[str, Any]) -> str:
    """A survey as text."""
    members = survey["members"]
    answered = sum("view" in member for member in members)
    differ = [name for name, agrees in survey["agree"].items() if not agrees]
    lines = [escaped(f"{survey['cluster']}, asked by {survey['asked_by']}: {answered} of {len(members)} members "
                     f"answered in {survey['took_ms']:.1f} ms")]
    lines += aligned(SURVEY_COLUMNS, SURVEY_TO_THE_RIGHT, map(survey_row, members))
    lines += [f"members differ in: {', '.join(differ)}"] if differ else []
    lines += [f"not asked, since there are too many: {survey['not_asked']}"] if survey["not_asked"] else []
    down = [f"{site} is {status}" for site, status in survey["sites"].items() if status != "UP"]
    return "\n".join([*lines, *([escaped("not asked: " + ", ".join(down))] if down else [])])


def survey_row(member: dict[str, Any]) -> tuple[str, ...]:
    """The cells of one that was asked."""
    head = member["site"] or "-", member["name"], member["state"]
    if "view" not in member:
        return (*head, *["-"] * (len(SURVEY_COLUMNS) - len(head)))
    roles = ",".join(role for role in ("coordinator", "relay") if member[role])
    return (*head, roles or "-", member["view"] or "-", member["version"], str(member["delivered"]),
            str(member["backlog_bytes"]), f"{member['rtt_ms']:.1f} ms", f"{member['clock_offset_ms']:+.1f} ms")


def row_of(member: dict[str, Any]) -> tuple[str, ...]:
    """A member's cells."""
    tags = ",".join(f"{key}={value}" for key, value in sorted(member["tags"].items()))
    incarnation = "-" if member["incarnation"] is None else str(member["incarnation"])
    rtt = "-" if member["rtt_ms"] is None else f"{member['rtt_ms']:.2f} ms"
    version = member.get("version") or "-"                 # a member of before tells none
    return member["name"], member["address"] or "-", member["state"], version, incarnation, tags or "-", rtt
