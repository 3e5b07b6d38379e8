"""`jgroups events`: prints the changes at a running member from now on, a line each, until it ends or Ctrl-C.

joined, failed, left, updated (and suspected, refuted, with the evidence, where SWIM is in the stack); view in a group;
site and global_view with RELAY; user_event with SERF. In a group, a member that is no longer in the view has failed
if this member's own failure detection had reported it by then; otherwise it left. The member must have a control
socket, as for `jgroups members`.
"""
from __future__ import annotations

import json
import time
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from typing import Any

from jgroups_py.cli.control_client import WHICH, add_control_argument, wrong
from jgroups_py.cli.showing import show
from jgroups_py.model.errors import ChannelError
from jgroups_py.ops.control import follow

SHOWN_OF = {
    "following": ("member", "cluster"),
    "view": ("id", "members"),
    "site": ("site", "status"),
    "global_view": ("sites",),
    "user_event": ("name", "payload"),
    "missed": ("count",),
}
SHOWN_OF_A_MEMBER = ("name", "address", "tags", "evidence")


def add_parser(subparsers: Any) -> None:
    """Add `events` to the command line."""
    parser: ArgumentParser = subparsers.add_parser(
        "events", help="follow what changes at a running member", description=__doc__,
        formatter_class=RawDescriptionHelpFormatter)
    add_control_argument(parser)
    parser.add_argument("--json", action="store_true", help="a JSON object a line")
    parser.set_defaults(run=run)


def run(args: Namespace) -> int:
    """Print events; 0 when the member ended, 2 if no member listens at the control socket."""
    if not args.control:
        return wrong("events", WHICH)
    try:
        for facts in follow(args.control):
            show(json.dumps(facts) if args.json else as_text(facts))
    except ChannelError as error:
        return wrong("events", str(error))
    return 0


def as_text(facts: dict[str, Any]) -> str:
    """An event as a line of text."""
    clock = time.strftime("%H:%M:%S", time.localtime(facts["at"])) if "at" in facts else "        "
    shown = [in_words(facts[key]) for key in SHOWN_OF.get(facts["event"], SHOWN_OF_A_MEMBER) if facts.get(key)]
    return " ".join([clock, f"{facts['event']:<10}", *shown]).rstrip()


def in_words(value: Any) -> str:
    """A value as text: strings as they are, lists and maps without the syntax of JSON."""
    if isinstance(value, dict):
        return " ".join(f"{key}={in_words(item)}" for key, item in sorted(value.items()))
    if isinstance(value, list):
        return "[" + ", ".join(map(in_words, value)) + "]"
    return str(value)
