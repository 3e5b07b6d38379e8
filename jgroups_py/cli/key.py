"""`jgroups key` was the name of `jgroups keys`: an error that says so."""
from __future__ import annotations

from argparse import REMAINDER, Namespace
from typing import Any

from jgroups_py.cli.control_client import wrong

NOW = {"new": "generate --keyring FILE", "add": "rotate FILE", "activate": "rotate FILE", "retire": "rotate FILE",
       "show": "show FILE, or jgroups keys status --control PATH"}
"""An action of before -> what it is now."""


def add_parser(subparsers: Any) -> None:
    """Add `key` to the command line."""
    parser = subparsers.add_parser("key", help="the former name of `jgroups keys`",
                                   description="the former name of `jgroups keys`")
    parser.add_argument("words", nargs=REMAINDER, help="not used")
    parser.set_defaults(run=run)


def run(args: Namespace) -> int:
    """An error."""
    action = args.words[0] if args.words else ""
    return wrong("key", f"is now jgroups keys {NOW.get(action, '--help')}")
