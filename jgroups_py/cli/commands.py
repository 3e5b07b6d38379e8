"""What a member that runs as a process obeys: commands on stdin, a line each, until `leave`, the end, or SIGTERM."""
from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Mapping

from jgroups_py.cli.printer import Printer
from jgroups_py.errors import ChannelError, ConfigError

Commands = Mapping[str, Callable[[str], None]]
"""Name -> what does it, called with the rest of the line."""


class Ended(Exception):
    """SIGTERM, which a member whose channel closed by itself sends itself."""


def watch_sigterm() -> None:
    """From now on SIGTERM raises Ended on the main thread."""
    def terminated(*_: object) -> None:
        raise Ended
    signal.signal(signal.SIGTERM, terminated)


def ignore_sigterm() -> None:
    """From now on SIGTERM does nothing: the member is leaving."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


def obey(commands: Commands, emit: Printer, failed: Callable[[], bool] = lambda: False) -> str:
    """Do what the lines say; return at `leave`, at the end of input, or when a line comes after it `failed`.

    The result is what stood behind `leave`, "" if nothing did.
    """
    for line in sys.stdin:
        name, _, rest = line.strip().partition(" ")
        if failed():
            return ""
        if name == "leave":
            return rest.strip()
        if name:
            do(commands, emit, name, rest.strip())
    return ""


def do(commands: Commands, emit: Printer, name: str, rest: str) -> None:
    """One command; the event `error` says what is wrong with it."""
    known = commands.get(name)
    if known is None:
        return emit("error", message=f"unknown command {name!r}; known: {', '.join(commands)}, leave")
    try:
        known(rest)
    except (ChannelError, ConfigError, ValueError) as error:
        emit("error", message=str(error))
    return None
