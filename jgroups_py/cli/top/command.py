"""`jgroups top`: a live table of all members of the group and of the sites that are UP, by surveys of one of them.

Columns: state as in `jgroups members --all`; role (coordinator, relay); messages that the application sent and its
receiver got, with their rates; payload bytes a second out and in; messages that the relay holds for other sites; bytes
that the application sent and that wait for credits or a view (waitB), bytes that wait for the receiver (backB); and the
members by which a member is suspected. Columns that do not fit the terminal are left out. Members of earlier versions
have "-" for what they do not report. Rates are taken between two surveys, by each member's own clock.

Keys: q or Ctrl-C ends it, s sorts by the next column (site, sent/s, recv/s, held), p pauses. What changed since the
last survey, and every member that is not alive, is bold. While the member does not answer, the last table stays, with
the reason. A survey costs each member one small message.
"""
from __future__ import annotations

import json
import os
import sys
import threading
import time
from argparse import ArgumentParser, ArgumentTypeError, Namespace, RawDescriptionHelpFormatter
from collections import deque
from typing import Any

from jgroups_py.cli.control_client import wrong
from jgroups_py.cli.running_member import (
    WHICH_MEMBER,
    RunningMember,
    add_member_arguments,
    chosen_member,
)
from jgroups_py.cli.showing import show
from jgroups_py.cli.top.table import ORDERS, Facts, lines_of, with_rates
from jgroups_py.model.errors import ChannelError, ConfigError
from jgroups_py.ops.survey import ANSWER_SECONDS, FRESH_SECONDS

SECONDS = ANSWER_SECONDS + 2.0              # for an answer
ONCE_WIDTH, ONCE_HEIGHT = 200, 1000         # of a table that is printed


def add_parser(subparsers: Any) -> None:
    """Add `top` to the command line."""
    parser: ArgumentParser = subparsers.add_parser(
        "top", help="follow all members of the group and of other sites in a live table", description=__doc__,
        formatter_class=RawDescriptionHelpFormatter)
    add_member_arguments(parser)
    parser.add_argument("--interval", type=interval, default=1.0, metavar="SECONDS",
                        help=f"from survey to survey (%(default)s; {FRESH_SECONDS} at least)")
    parser.add_argument("--once", action="store_true", help="print one table, after two surveys, and end")
    parser.add_argument("--json", action="store_true", help="with --once: one JSON document, with totals")
    parser.set_defaults(run=run)


def interval(text: str) -> float:
    """Seconds from survey to survey. Surveys of a member within FRESH_SECONDS are one.

    >>> interval("2.5")
    2.5
    """
    try:
        found = float(text)
    except ValueError:
        found = 0.0
    if not FRESH_SECONDS <= found <= 3600:
        raise ArgumentTypeError(f"{text!r} is no interval; write {FRESH_SECONDS} to 3600 seconds")
    return found


def run(args: Namespace) -> int:
    """Show the table; 2 if no member answers at the start, or there is no terminal."""
    if not args.control and not args.http:
        return wrong("top", WHICH_MEMBER)
    if args.json and not args.once:
        return wrong("top", "--json is allowed only with --once")
    if not args.once and not (sys.stdin.isatty() and sys.stdout.isatty()):
        return wrong("top", "stdin or stdout is no terminal; --once prints one table")
    try:
        member = chosen_member(args)
        first = surveyed(member)
        return once(args, member, first) if args.once else follow(args, member, first)
    except (ChannelError, ConfigError) as error:
        return wrong("top", str(error))


def surveyed(member: RunningMember) -> Facts:
    """A survey by the member.

    Raises:
        ChannelError: there is none.
    """
    found = member.ask("survey", time.monotonic() + SECONDS)
    if "error" in found:
        raise ChannelError(found["error"])
    return found


def once(args: Namespace, member: RunningMember, first: Facts) -> int:
    """Print the state after an interval, with the rates within it."""
    time.sleep(args.interval)
    survey = with_rates(surveyed(member), first)
    if args.json:
        print(json.dumps(survey, indent=2))
    else:
        show(*lines_of(survey, ONCE_WIDTH, ONCE_HEIGHT, "site", styled=False, keys=""))
    return 0


class Surveys:
    """Surveys taken by a thread of its own, so that keys are answered while a member is not.

    came: the results not read yet, a survey or the reason why there is none. readable: a file descriptor that can be
    read when one has come. The thread ends with the process.
    """

    def __init__(self, member: RunningMember, seconds: float) -> None:
        self.came: deque[Facts | str] = deque(maxlen=2)
        self.readable, self._write = os.pipe()
        os.set_blocking(self.readable, False)
        self._member = member
        self._seconds = seconds
        threading.Thread(target=self._run, name="surveys", daemon=True).start()

    def _run(self) -> None:
        while True:
            time.sleep(self._seconds)
            try:
                self.came.append(surveyed(self._member))
            except ChannelError as error:
                self.came.append(str(error))
            os.write(self._write, b"\0")

    def read(self) -> Facts | str | None:
        """The last result that came since; None: none did."""
        try:
            os.read(self.readable, 64)
        except BlockingIOError:
            return None
        return self.came.pop() if self.came else None


def follow(args: Namespace, member: RunningMember, first: Facts) -> int:
    """Draw until q or a signal."""
    from jgroups_py.cli.top.terminal import opened
    surveys = Surveys(member, args.interval)
    last, before = with_rates(first, None), None
    order, orders, is_paused, failed = "site", list(ORDERS), False, ""
    with opened() as screen:
        while True:
            note = failed or ("paused" if is_paused else "")
            screen.draw(lines_of(last, *screen.size(), order, note=note, before=before))
            key = screen.key(surveys.readable, args.interval)
            if key == "q":
                return 0
            if key == "s":
                order = orders[(orders.index(order) + 1) % len(orders)]
            elif key == "p":
                is_paused = not is_paused
            came = surveys.read()
            if isinstance(came, str):
                failed = came
            elif came is not None:
                failed = ""
                if not is_paused:
                    last, before = with_rates(came, last), last
