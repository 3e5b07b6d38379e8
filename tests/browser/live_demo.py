"""`jgroups demo --web` as a process."""
from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from typing import Any

DEMO_WAIT_MS = 90_000


class Demo:
    """`jgroups demo --web` as a process; its lines are read on a thread."""

    def __init__(self, out: Any) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "jgroups_py", "demo", "--web", "--seconds", "600", "--rate", "200", "--no-audit",
             "--no-archive", "--out", str(out)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        assert self.process.stdout is not None
        self.url = self.process.stdout.readline().split()[1]
        self.lines: list[str] = []
        threading.Thread(target=lambda: self.lines.extend(self.process.stdout or ()), daemon=True).start()

    def until(self, text: str) -> None:
        deadline = time.monotonic() + DEMO_WAIT_MS / 1000
        while not any(text in line for line in self.lines):
            assert time.monotonic() < deadline, (text, self.lines)
            time.sleep(0.1)

    def interrupt(self) -> int:
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(60)
