"""Reports the progress of a job on Spark while the driver waits for it."""
from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Progress = Callable[[int, int], None]
"""Called with (number of pieces that are done, number of all pieces)."""
POLL_SECONDS = 0.3


@contextmanager
def watched(total: int, done: Callable[[], int], progress: Progress | None) -> Iterator[None]:
    """Call `progress(done(), total)` every POLL_SECONDS from a thread, as long as the context is open."""
    if progress is None:
        yield
        return
    over = threading.Event()

    def poll() -> None:
        while not over.wait(POLL_SECONDS):
            progress(done(), total)

    watcher = threading.Thread(target=poll, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()
