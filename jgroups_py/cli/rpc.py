"""`jgroups rpc check`: the typed services of a running group: which members offer what, and what does not fit.

The member that is asked must have services (Services or AsyncServices) and a control socket
(jgroups_py.ops.control.ControlSocket), and run as the same user on this host. It answers from what the members have
told it of themselves, at no cost for them. Members with one fingerprint of a service have the same methods, with the
same parameters and results; what some of its members have and others lack does not fit: calls of it reach some of them
only. Of methods that the asked member does not serve itself the keys are shown, as no names travel.

Exit codes: 0 all fits, 1 something does not, or nothing is offered, 2 no answer.
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


def add_parser(subparsers: Any) -> None:
    """Add `rpc` to the command line."""
    parser: ArgumentParser = subparsers.add_parser(
        "rpc", help="compare the typed services that members of a running group offer", description=__doc__,
        formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=["check"], help="compare what members offer")
    add_control_argument(parser)
    parser.add_argument("--json", action="store_true", help="the answer of the member as JSON")
    parser.set_defaults(run=run)


def run(args: Namespace) -> int:
    """Print the services; the exit codes are in the description."""
    if not args.control:
        return wrong("rpc", WHICH)
    try:
        answer = ask(args.control, {"command": "services"}, ANSWER_SLACK_SECONDS)
    except ChannelError as error:
        return wrong("rpc", str(error))
    if args.json:
        print(json.dumps(answer, indent=2))
    elif answer["ok"]:
        show(*map(escaped, as_text(answer)))
    else:
        complain(f"jgroups rpc: {answer['error']}")
    fits = answer["ok"] and answer["services"] and all(service["fits"] for service in answer["services"])
    return 0 if fits else CLAIM_FAILED


def as_text(report: dict[str, Any]) -> list[str]:
    """The report, in lines."""
    services = report["services"]
    wrong_ones = sum(not service["fits"] for service in services)
    verdict = f"{wrong_ones} of them not fitting" if wrong_ones else "all fit"
    lines = [f"{report['cluster']}, as {report['member']} knows it: {number(len(services), 'service')}, {verdict}"
             if services else f"{report['cluster']}, as {report['member']} knows it: no services"]
    for service in services:
        lines.append(f"{service['name']}: {'fits' if service['fits'] else 'DOES NOT FIT'}")
        for interface in service["interfaces"]:
            versions = "; ".join(f"version {version}: {', '.join(members)}"
                                 for version, members in interface["versions"].items())
            lines.append(f"  {interface['fingerprint']}, {number(interface['methods'], 'method')}; {versions}")
            if interface["lacks"]:
                lines.append(f"    lacks {', '.join(interface['lacks'])}")
    return lines


def number(of: int, what: str) -> str:
    """So many of something."""
    return f"{of} {what}" if of == 1 else f"{of} {what}s"
