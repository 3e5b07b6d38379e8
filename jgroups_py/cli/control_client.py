"""Shared by subcommands that use the control socket of a running member: the argument, and errors."""
from __future__ import annotations

import os
from argparse import ArgumentParser

from jgroups_py.cli.showing import complain

VARIABLE = "JGROUPS_CONTROL"
CLAIM_FAILED, WRONG_USE = 1, 2
WHICH = f"which member? --control PATH, or {VARIABLE} in the environment"


def add_control_argument(parser: ArgumentParser) -> None:
    """--control PATH."""
    parser.add_argument("--control", metavar="PATH", default=os.environ.get(VARIABLE),
                        help=f"the member's control socket (default: ${VARIABLE})")


def wrong(command: str, text: str) -> int:
    """Print why a subcommand cannot run; returns its exit code."""
    complain(f"jgroups {command}: {text}")
    return WRONG_USE
