"""How the subcommands show texts that come from others: names of members and sites, tags, topics, reasons of errors."""
from __future__ import annotations

import sys

from jgroups_py.texts import escaped


def show(*lines: object) -> None:
    """Print lines, each of which stays one and steers no terminal, whatever is in it."""
    print("\n".join(map(escaped, lines)), flush=True)


def complain(*lines: object) -> None:
    """The same, to standard error."""
    print("\n".join(map(escaped, lines)), file=sys.stderr, flush=True)
