"""The `jgroups` command: one module per subcommand, loaded only when it is used.

Each module has `add_parser(subparsers)` and `run(args) -> int`. Exit codes: 0 done, 1 a check failed, 2 usage error.

Ring 6.
"""
from __future__ import annotations

import os
import sys
from argparse import ArgumentParser
from collections.abc import Sequence
from importlib import import_module

SUBCOMMANDS = {
    "member": ("member", "run one member of a group as a process, driven by stdin"),
    "demo": ("demo", "two sites replicate a file while their coordinators are killed"),
    "members": ("members", "show the members known to a running member"),
    "events": ("events", "follow what changes at a running member"),
    "site": ("site", "show the other sites of a running member, take them offline, online, or drain them"),
    "rpc": ("rpc", "compare the typed services that members of a running group offer"),
    "doctor": ("doctor", "find what keeps the members of a stack apart, on this host or between two"),
    "top": ("top", "follow all members of the group and of other sites in a live table"),
    "bundle": ("bundle", "collect what a bug report needs from a running member"),
    "ops": ("ops", "write alert rules, a scrape configuration and a dashboard for operators"),
    "keys": ("keys", "make, show, trust, revoke and rotate keys of ENCRYPT and AUTH"),
    "key": ("key", "the former name of keys"),
    "lint": ("lint", "check a stack file"),
    "draw": ("draw", "show a stack as text"),
    "props": ("props", "list the properties of protocols: default, unit, meaning"),
    "counters": ("counters", "list what protocols count, and what they drop"),
    "bench": ("bench", "measure throughput, requests, relay, membership and the cost of the layers"),
    "mqtt": ("mqtt", "run an MQTT broker, check its file, ask a running one"),
    "archive": ("archive", "list, check, show and replay what members recorded"),
    "pipeline": ("pipeline", "check and analyse archives on Spark: audit, lag, timeline, traffic, simulator farm"),
    "sim": ("sim", "run the protocols on a virtual network under faults, and check what is guaranteed"),
}
"""Subcommand -> its module below jgroups_py.cli, and a line of help."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    args = build_parser(arguments[0] if arguments else "").parse_args(arguments)
    try:
        return int(args.run(args))
    except KeyboardInterrupt:
        return 130                                           # as shells report an end by Ctrl-C
    except BrokenPipeError:
        # The reader of stdout is gone. Without this, Python would report that again when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def build_parser(wanted: str) -> ArgumentParser:
    """The parser with the arguments of subcommand `wanted`, and a line of help for each of the others."""
    from jgroups_py import __version__
    parser = ArgumentParser(prog="jgroups", description="Group communication for Python. "
                            "Every subcommand has --help.")
    parser.add_argument("--version", action="version", version=f"jgroups_py {__version__}")
    subparsers = parser.add_subparsers(metavar="COMMAND", required=True)
    for name, (module, text) in SUBCOMMANDS.items():
        if name == wanted:
            import_module(f"{__name__}.{module}").add_parser(subparsers)
        else:
            subparsers.add_parser(name, help=text)
    return parser
