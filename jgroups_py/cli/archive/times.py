"""Times of rows: parsed from arguments of the command line, and shown as text."""
from __future__ import annotations

from argparse import ArgumentTypeError
from datetime import UTC, datetime

from jgroups_py.model.units import NS_PER_S


def moment(text: str) -> int:
    """Nanoseconds since 1970 of a time on the command line.

    >>> moment("1970-01-01T00:01:00"), moment("60.5")
    (60000000000, 60500000000)
    """
    try:
        return round(float(text) * NS_PER_S)
    except ValueError:
        pass
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise ArgumentTypeError(f"{text!r} is not a time; write 2026-11-21T20:15:00 or seconds since 1970") from None
    return round((found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp() * NS_PER_S)


def show_time(wall_ns: int | None) -> str:
    """A wall clock time as text, UTC; "-" for none."""
    if wall_ns is None:
        return "-"
    return datetime.fromtimestamp(wall_ns / NS_PER_S, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3]
