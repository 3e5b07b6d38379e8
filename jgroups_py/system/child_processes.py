"""Processes that do not outlive the one that started them, however that ends."""
from __future__ import annotations

import ctypes
import os
import signal
import sys
from multiprocessing import get_context
from multiprocessing.pool import Pool

PR_SET_PDEATHSIG = 1                     # of prctl(2)


def end_with_parent(parent: int | None = None) -> None:
    """On Linux: this process is killed when its parent ends, also where it stands still. For a child to call, or as
    `preexec_fn`. parent: its process id, if known: it may be gone already."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if parent is not None and os.getppid() != parent:
            os.kill(os.getpid(), signal.SIGKILL)


def workers(jobs: int) -> Pool:
    """So many processes, which run what they are given; they end with this one, even if it is killed."""
    return get_context("fork").Pool(jobs, initializer=end_with_parent, initargs=(os.getpid(),))
