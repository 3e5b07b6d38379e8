"""The events that a member process prints on stdout."""
from __future__ import annotations

import json
import threading
from typing import Any


class Printer:
    """Prints an event as one flushed JSON line on stdout. May be called from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def __call__(self, event: str, **fields: Any) -> None:
        line = json.dumps({"event": event, **fields}, separators=(",", ":"))
        with self._lock:
            print(line, flush=True)
