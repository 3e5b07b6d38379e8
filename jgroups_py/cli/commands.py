"""Reads the commands of a member process from stdin, one per line, until `leave`, the end of input, or SIGTERM."""
from __future__ import annotations

import logging
import signal
import sys
from collections.abc import Callable, Mapping

from jgroups_py.cli.printer import Printer
from jgroups_py.model.errors import ChannelError, ConfigError
from jgroups_py.system.drops import drop_log

AGAIN_SECONDS = 2.0
Commands = Mapping[str, Callable[[str], None]]
"""Name -> its function, called with the rest of the line."""


class Ended(Exception):
    """SIGTERM was received. A member whose channel closed by itself sends it to its own process."""


def watch_sigterm() -> None:
    """Make SIGTERM raise Ended on the main thread, again every AGAIN_SECONDS until `ignore_sigterm`.

    Python ignores an exception that is raised in a destructor or in a callback of a weak reference, and a signal's
    handler may run there: then the first one is lost.
    """
    def terminated(*_: object) -> None:
        signal.setitimer(signal.ITIMER_REAL, AGAIN_SECONDS)
        raise Ended
    signal.signal(signal.SIGTERM, terminated)
    signal.signal(signal.SIGALRM, terminated)


def ignore_sigterm() -> None:
    """Make SIGTERM do nothing: the member is leaving already."""
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGALRM, signal.SIG_IGN)


def log_drops(switch: str) -> None:
    """The command `drops on` or `drops off`: log each drop with its reason to stderr, or stop that.

    Raises:
        ValueError: `switch` is neither.
    """
    if switch not in ("on", "off"):
        raise ValueError("drops takes on or off")
    drop_log.setLevel(logging.DEBUG if switch == "on" else logging.NOTSET)


def obey(commands: Commands, emit: Printer, failed: Callable[[], bool] = lambda: False) -> str:
    """Execute commands; return at `leave`, at the end of input, or at the first line after `failed()` became true.

    Returns the argument of `leave`, "" if there was none.
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
    """Execute one command; if it raises, emit the event `error`."""
    known = commands.get(name)
    if known is None:
        return emit("error", message=f"unknown command {name!r}; known: {', '.join(commands)}, leave")
    try:
        known(rest)
    except (ChannelError, ConfigError, ValueError) as error:
        emit("error", message=str(error))
    return None
