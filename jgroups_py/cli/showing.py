"""How subcommands show texts of others: names of members and sites, tags, topics, stack files, reasons of errors."""
from __future__ import annotations

import sys

from jgroups_py.config.problems import StackError
from jgroups_py.errors import ConfigError
from jgroups_py.texts import escaped


def show(*lines: object) -> None:
    """Print lines, each of which stays one and steers no terminal, whatever is in it."""
    print("\n".join(map(escaped, lines)), flush=True)


def reasons(error: ConfigError, prefix: str = "") -> list[str]:
    """What is wrong, a line each: one for each problem of a stack."""
    found = error.problems if isinstance(error, StackError) else (error,)
    return [f"{prefix}{reason}" for reason in found]


def complain(*lines: object) -> None:
    """The same, to standard error."""
    print("\n".join(map(escaped, lines)), file=sys.stderr, flush=True)
