"""Reports how far a job on Spark is while the driver waits for it."""
from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Progress = Callable[[int, int], None]
"""Called with (how many are done, of how many)."""
LOOK_SECONDS = 0.3


@contextmanager
def watched(total: int, done: Callable[[], int], progress: Progress | None) -> Iterator[None]:
    """Call `progress` now and then with the result of `done`."""
    if progress is None:
        yield
        return
    over = threading.Event()

    def look() -> None:
        while not over.wait(LOOK_SECONDS):
            progress(done(), total)

    watcher = threading.Thread(target=look, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()
