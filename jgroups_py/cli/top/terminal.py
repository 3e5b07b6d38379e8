"""A terminal as a screen: the other screen buffer, keys without Enter, and all as it was when the block ends."""
from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import sys
import termios
import tty
from collections.abc import Iterator, Sequence

OTHER_SCREEN, OWN_SCREEN = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"
HOME, REST_OF_LINE, REST_OF_SCREEN = "\x1b[H", "\x1b[K", "\x1b[J"
VSUSP_OFF = b"\0"                           # a process that is stopped would leave the other screen behind


class Screen:
    """Draws lines and reads keys."""

    def draw(self, lines: Sequence[str]) -> None:
        """Show these lines; they have to fit `size`."""
        sys.stdout.write(HOME + "\n".join(line + REST_OF_LINE for line in lines) + REST_OF_SCREEN)
        sys.stdout.flush()

    def size(self) -> tuple[int, int]:
        """Columns and lines, of the terminal as it is now."""
        return shutil.get_terminal_size()

    def key(self, also: int, seconds: float) -> str:
        """The next key; "" after so many seconds, or as soon as `also`, a file descriptor, can be read."""
        ready, _, _ = select.select([sys.stdin.fileno(), also], [], [], seconds)
        if sys.stdin.fileno() not in ready:
            return ""
        typed = os.read(sys.stdin.fileno(), 1)
        if not typed:
            raise SystemExit(0)                              # the terminal is gone
        return typed.decode("ascii", "replace")


@contextlib.contextmanager
def opened() -> Iterator[Screen]:
    """The screen; SIGTERM and SIGHUP end the process through the end of the block, so that nothing is left behind."""
    def ended(number: int, frame: object) -> None:
        raise SystemExit(128 + number)
    keyboard = sys.stdin.fileno()
    as_it_was = termios.tcgetattr(keyboard)
    former = {number: signal.signal(number, ended) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        tty.setcbreak(keyboard)
        settings = termios.tcgetattr(keyboard)
        settings[6][termios.VSUSP] = VSUSP_OFF
        termios.tcsetattr(keyboard, termios.TCSANOW, settings)
        sys.stdout.write(OTHER_SCREEN)
        sys.stdout.flush()
        yield Screen()
    finally:
        termios.tcsetattr(keyboard, termios.TCSADRAIN, as_it_was)
        with contextlib.suppress(OSError):                   # the terminal is gone
            sys.stdout.write(OWN_SCREEN)
            sys.stdout.flush()
        for number, handler in former.items():
            signal.signal(number, handler)
