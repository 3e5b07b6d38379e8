"""`python -m tests.runtime.all_interleavings`: the hand-over of plain messages to the loop, in all interleavings with
two preemptions. Some minutes; tests/runtime/test_intake.py runs those with one, and says what is explored."""
from __future__ import annotations

import sys
from time import monotonic

from tests.runtime.interleavings import explore
from tests.runtime.test_intake import FILES, SHARED, closing, flood

TRIALS = {"one sender": flood(b"a"), "two senders": flood(b"a", b"b"), "a sender, and a thread that closes": closing()}


def main() -> None:
    """Explore; the first schedule that loses, doubles or forgets a message ends it with an error that names it."""
    for name, trial in TRIALS.items():
        began = monotonic()
        number = explore(trial, FILES, SHARED, preemptions=2)
        sys.stdout.write(f"{name}: {number:,} interleavings in {monotonic() - began:.0f} s, no message lost, doubled "
                         "or left alone\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
