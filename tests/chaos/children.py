"""Processes that do not outlive the test that started them, however that ends."""
from __future__ import annotations

import ctypes
import signal
import sys

PR_SET_PDEATHSIG = 1                     # of prctl(2)


def end_with_parent() -> None:
    """On Linux: this process is killed when its parent ends, also where it stands still. For a child to call, or as
    `preexec_fn`."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
