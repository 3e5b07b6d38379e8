"""Prints lines with texts from outside (names, tags, topics, files, errors), whose control characters are escaped."""
from __future__ import annotations

import sys

from jgroups_py.config.problems import StackError
from jgroups_py.model.errors import ConfigError
from jgroups_py.model.text import escaped


def show(*lines: object) -> None:
    """Print lines; control characters in them are escaped, so that each stays one line."""
    print("\n".join(map(escaped, lines)), flush=True)


def reasons(error: ConfigError, prefix: str = "") -> list[str]:
    """The problems of an error, a line each."""
    found = error.problems if isinstance(error, StackError) else (error,)
    return [f"{prefix}{reason}" for reason in found]


def complain(*lines: object) -> None:
    """As `show`, to standard error."""
    print("\n".join(map(escaped, lines)), file=sys.stderr, flush=True)
