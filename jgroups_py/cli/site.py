"""`jgroups site`: show the other sites as a running member knows them, or give orders about them.

The member must have a control socket (`jgroups member --control PATH`, or jgroups_py.ops.control.ControlSocket in a
program), and run as the same user on this host. An order works at any member of a site; it is carried out by the
site's coordinator and holds for the whole site until the opposite order.
"""
from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from typing import Any

from jgroups_py.cli.control_client import CLAIM_FAILED, WHICH, add_control_argument, wrong
from jgroups_py.cli.members import aligned
from jgroups_py.cli.showing import complain, show
from jgroups_py.model.errors import ChannelError
from jgroups_py.model.text import escaped
from jgroups_py.ops.control import ANSWER_SLACK_SECONDS, DRAIN_SECONDS, ask

EPILOG = """verbs:
  status [SITE]   status of the other sites, and the ledger of the messages for them:
                  numbered = acknowledged + held + lost. The first line counts messages in memory, among them
                  acknowledged ones, until all members know that they are
  status --all    the same of all sites that are UP, by their relays; and the relays that do not answer
  offline SITE    hold nothing for the site any longer: messages that it has not acknowledged are declared lost
  drain SITE      wait until the site has all messages that are held for it now, then take it offline: none of these
                  is lost; messages sent while it is offline are declared lost, by range, at both sites
  drain SITE --hold   the same, but hold messages that are sent while it is offline: the site gets them after `online`
                  (up to hold_bytes; the time offline does not count for hold_age), so nothing is lost
  online SITE     let the site return: from the current numbers on, or after `drain --hold` with all that was held
"""
FIGURES = ("numbered", "acknowledged", "held", "lost")


def add_parser(subparsers: Any) -> None:
    """Add `site` to the command line."""
    parser: ArgumentParser = subparsers.add_parser(
        "site", help="ask about other sites, take them offline, online, or drain them", description=__doc__,
        epilog=EPILOG, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("verb", choices=("status", "offline", "online", "drain"), metavar="VERB", help="see below")
    parser.add_argument("site", nargs="?", metavar="SITE", help="the name of another site")
    add_control_argument(parser)
    parser.add_argument("--timeout", type=float, default=DRAIN_SECONDS, metavar="SECONDS",
                        help="timeout of a drain (%(default)s), after which the site has its former status")
    parser.add_argument("--hold", action="store_true", help="with drain: hold what is sent while the site is offline, "
                        "for maintenance without loss")
    parser.add_argument("--all", action="store_true", help="with status: ask the relays of all sites that are UP")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.set_defaults(run=run)


def run(args: Namespace) -> int:
    """Send the question or order; 1 if it was not carried out, 2 if no member listens at the control socket."""
    if not args.control:
        return _wrong(WHICH)
    if args.verb != "status" and not args.site:
        return _wrong(f"{args.verb} needs a SITE")
    if args.timeout < 0:
        return _wrong("--timeout must not be negative")
    if args.hold and args.verb != "drain":
        return _wrong("--hold is allowed only with drain")
    if args.all and (args.verb != "status" or args.site):
        return _wrong("--all is allowed only with status, without a SITE")
    question = {"command": "survey"} if args.all else {
        "command": args.verb, "site": args.site or "", "timeout": args.timeout, "hold": args.hold}
    try:
        answer = ask(args.control, question, args.timeout + 2 * ANSWER_SLACK_SECONDS)
    except ChannelError as error:
        return _wrong(str(error))
    if not answer.pop("ok"):
        if args.json:
            print(json.dumps(answer))
        else:
            complain(f"jgroups site: {answer['error']}")
        return CLAIM_FAILED
    if args.all and not answer["sites"]:
        return _wrong("the member knows of no other sites")
    if args.all:
        print(json.dumps(answer, indent=2)) if args.json else show(*survey_lines(answer))
        return 0
    return _show(args, answer)


def survey_lines(survey: dict[str, Any]) -> list[str]:
    """The ledger of each site's relay, a row for each other site, as lines; then what is missing."""
    relays = [member for member in survey["members"] if member.get("relay")]
    rows = [(relay["site"], relay["name"], site, str(figures.get("status")),
             *(str(figures.get(figure, "-")) for figure in FIGURES))
            for relay in relays for site, figures in sorted(relay["sites"].items())]
    lines = aligned(("site", "relay", "to", "status", *FIGURES), FIGURES, rows)
    missing = sorted({member["site"] for member in survey["members"]} - {relay["site"] for relay in relays})
    lines += [escaped(f"no relay of {site} has answered") for site in missing]
    return lines + [escaped(f"not asked: {site} is {status}") for site, status in survey["sites"].items()
                    if status != "UP"]


def _show(args: Namespace, answer: dict[str, Any]) -> int:
    sites = answer.get("sites", {})
    if args.verb == "status" and args.site:
        if args.site not in sites:
            known = ", ".join(sorted(sites)) or "none"
            complain(f"jgroups site: {answer['site']} does not know site {args.site}; known: {known}")
            return CLAIM_FAILED
        answer["sites"] = {args.site: sites[args.site]}
    if args.json:
        print(json.dumps(answer, indent=2))
    elif args.verb == "status":
        show(*as_text(answer, origins=bool(args.site)).split("\n"))
    else:
        show(f"{args.site} may return" if args.verb == "online" else f"nothing is sent to {args.site} until it is "
             "ordered online; messages for it are held" if args.hold else f"{args.site} is OFFLINE")
    return 0


def _wrong(text: str) -> int:
    return wrong("site", text)


def as_text(report: dict[str, Any], *, origins: bool = False) -> str:
    """The report as text. origins: also a row for each origin."""
    kept = (f"{report['held_messages']} messages kept, {rounded(report['held_bytes'])} of "
            f"{rounded(report['hold_limit_bytes'])}")
    lines = [escaped(f"{report['site']}, as {report['member']} sees it (relay {report['relay']}): {kept}")]
    rows = [["site", "status", *FIGURES, "members"]]
    for name, site in sorted(report["sites"].items()):
        rows.append([name, _status(site), *(str(site[figure]) for figure in FIGURES), " ".join(site["members"])])
        if origins:
            rows += [[f"  from {entry['origin']}", "", *(str(entry[figure]) for figure in FIGURES), ""]
                     for entry in site["origins"]]
    if len(rows) == 1:
        return "\n".join([*lines, "no other site is known yet"])
    rows = [[escaped(cell) for cell in row] for row in rows]
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    for row in rows:
        cells = [cell.rjust(width) if 2 <= at < 2 + len(FIGURES) else cell.ljust(width)
                 for at, (cell, width) in enumerate(zip(row, widths, strict=True))]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def rounded(nbytes: int) -> str:
    """A size with a unit, rounded.

    >>> rounded(1973412), rounded(256 << 20), rounded(0)
    ('1.9M', '256M', '0')
    """
    for unit, factor in (("G", 1 << 30), ("M", 1 << 20), ("K", 1 << 10)):
        if nbytes >= factor:
            return f"{nbytes / factor:.1f}".removesuffix(".0") + unit
    return str(nbytes)


def _status(site: dict[str, Any]) -> str:
    notes = [note for note, holds in (
        ("draining", site["draining"]), ("by order", site["forbidden"]), ("on hold by order", site["on_hold"]),
        (f"regards this site as {site['status_there']}", site["status_there"] not in (None, "UP"))) if holds]
    return str(site["status"]) + (f" ({', '.join(notes)})" if notes else "")
