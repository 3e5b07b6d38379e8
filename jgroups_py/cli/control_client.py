"""The argument --control and its errors, for subcommands that use the control socket of a running member."""
from __future__ import annotations

import os
from argparse import ArgumentParser

from jgroups_py.cli.showing import complain

VARIABLE = "JGROUPS_CONTROL"
CLAIM_FAILED, USAGE_ERROR = 1, 2
WHICH = f"no member is named: give --control PATH, or set {VARIABLE} in the environment"


def add_control_argument(parser: ArgumentParser) -> None:
    """Add --control PATH."""
    parser.add_argument("--control", metavar="PATH", default=os.environ.get(VARIABLE),
                        help=f"the member's control socket (default: ${VARIABLE})")


def wrong(command: str, text: str) -> int:
    """Print why a subcommand cannot run; returns its exit code."""
    complain(f"jgroups {command}: {text}")
    return USAGE_ERROR
