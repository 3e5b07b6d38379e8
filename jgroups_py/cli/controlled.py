"""What subcommands that talk to a running member share: which member, and how errors are shown."""
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
    """Say what is wrong about the use of a subcommand; its exit code."""
    complain(f"jgroups {command}: {text}")
    return WRONG_USE
