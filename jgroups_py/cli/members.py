"""`jgroups members`: the members known to a running member.

The member must have a control socket (`jgroups member --control PATH`, or jgroups_py.ops.control.ControlSocket in a
program), and run as the same user on this host. In a group (GMS), the members of its view are listed, with a round-trip
time if SWIM detects failures. A membership of SWIM alone also has tags, and members that failed or left recently.
"""
from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from typing import Any

from jgroups_py.cli.control_client import CLAIM_FAILED, WHICH, add_control_argument, wrong
from jgroups_py.cli.showing import complain, show
from jgroups_py.model.errors import ChannelError
from jgroups_py.model.text import escaped
from jgroups_py.ops.control import ANSWER_SLACK_SECONDS, ask

COLUMNS = ("name", "address", "state", "incarnation", "tags", "rtt")
TO_THE_RIGHT = ("incarnation", "rtt")


def add_parser(subparsers: Any) -> None:
    """Add `members` to the command line."""
    parser: ArgumentParser = subparsers.add_parser(
        "members", help="show the members known to a running member", description=__doc__,
        formatter_class=RawDescriptionHelpFormatter)
    add_control_argument(parser)
    parser.add_argument("--json", action="store_true", help="the answer of the member as JSON")
    parser.set_defaults(run=run)


def run(args: Namespace) -> int:
    """Print the members; 1 if the member is in no group, 2 if no member listens at the control socket."""
    if not args.control:
        return wrong("members", WHICH)
    try:
        answer = ask(args.control, {"command": "members"}, ANSWER_SLACK_SECONDS)
    except ChannelError as error:
        return wrong("members", str(error))
    if args.json:
        print(json.dumps(answer, indent=2))
    elif answer["ok"]:
        show(*as_text(answer).split("\n"))
    else:
        complain(f"jgroups members: {answer['error']}")
    return 0 if answer["ok"] else CLAIM_FAILED


def as_text(report: dict[str, Any]) -> str:
    """The report as text."""
    view = "" if report["view"] is None else f", view {report['view']}"
    rows = [COLUMNS, *(tuple(map(escaped, row_of(member))) for member in report["members"])]
    widths = [max(len(row[at]) for row in rows) for at in range(len(COLUMNS))]
    lines = [escaped(f"{report['cluster']}, as {report['member']} sees it{view}: {len(rows) - 1} members")]
    for row in rows:
        cells = [cell.rjust(width) if column in TO_THE_RIGHT else cell.ljust(width)
                 for column, cell, width in zip(COLUMNS, row, widths, strict=True)]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def row_of(member: dict[str, Any]) -> tuple[str, ...]:
    """A member's cells."""
    tags = ",".join(f"{key}={value}" for key, value in sorted(member["tags"].items()))
    incarnation = "-" if member["incarnation"] is None else str(member["incarnation"])
    rtt = "-" if member["rtt_ms"] is None else f"{member['rtt_ms']:.2f} ms"
    return member["name"], member["address"] or "-", member["state"], incarnation, tags or "-", rtt
