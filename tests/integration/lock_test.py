"""The lock test: processes update a number that a lock guards, while holders are stopped for longer than their sessions
live. `python -m tests.integration.lock_test --seconds 600`

The number is outside of the group, at the parent, which checks fences: then no update is ever lost. With --no-fence it
does not, and updates of processes that were stopped in the middle overwrite those of later holders.
"""
from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from argparse import ArgumentParser
from pathlib import Path

from jgroups_py.blocks.coordination import Fence, StaleFenceError

ROOT = Path(__file__).parents[2]
TTL_S = 1.0
SHARE_STOPPED = 0.08                        # of the updates that are stopped after they have read
RECOVERY_S = 60.0


class GuardedNumber:
    """What the processes update. admitted: writes; refused: by the fence."""

    def __init__(self, fenced: bool) -> None:
        self.fence = Fence() if fenced else None
        self.value = self.admitted = self.refused = 0
        self.lock = threading.Lock()

    def ask(self, words: list[str]) -> str:
        """The answer to "read FENCE" or "write FENCE NUMBER"."""
        with self.lock:
            if self.fence is not None:
                try:
                    self.fence.admit(int(words[1]))
                except StaleFenceError:
                    self.refused += 1
                    return "stale"
            if words[0] == "read":
                return str(self.value)
            self.value, self.admitted = int(words[2]), self.admitted + 1
            return "ok"


class LockTest:
    """The processes, and the number. stopped: how often a holder was stopped in the middle of an update."""

    def __init__(self, names: str = "ABC", fenced: bool = True) -> None:
        self.number = GuardedNumber(fenced)
        self.stopped = 0
        self.over = threading.Event()
        self.rng = random.Random(os.getpid())
        self.mcast_port = str(self.rng.randrange(20_000, 60_000))
        self.processes = {name: self.start(name) for name in names}
        self.threads = [threading.Thread(target=self.serve, args=(process,), daemon=True)
                        for process in self.processes.values()]

    def start(self, name: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "tests.integration.coordination_member", name, f"locks-{os.getpid()}",
             self.mcast_port, f"{TTL_S:g}s", "updater"], cwd=ROOT, text=True, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)

    def serve(self, process: subprocess.Popen[str]) -> None:
        """Answer a process; now and then stop it when it has read, for twice the time that its session lives."""
        assert process.stdin is not None
        assert process.stdout is not None
        for line in process.stdout:
            words = line.split()
            if words == ["ready"]:
                continue
            answer = "end" if self.over.is_set() and words[0] == "read" else self.number.ask(words)
            stop = words[0] == "read" and answer.isdigit() and self.rng.random() < SHARE_STOPPED
            if stop:                                         # it sleeps before it writes: it is stopped before
                self.stopped += 1
                process.send_signal(signal.SIGSTOP)
            try:
                process.stdin.write(answer + "\n")
                process.stdin.flush()
            except BrokenPipeError:
                return
            finally:
                if stop:
                    time.sleep(2 * TTL_S)
                    process.send_signal(signal.SIGCONT)

    def run(self, seconds: float, least_stops: int = 0) -> None:
        """Run for so long, and until so many holders were stopped."""
        for thread in self.threads:
            thread.start()
        ends_s = time.monotonic() + seconds
        while time.monotonic() < ends_s or (self.stopped < least_stops and time.monotonic() < ends_s + RECOVERY_S):
            time.sleep(0.1)
        self.over.set()
        for thread in self.threads:
            thread.join(RECOVERY_S)

    def close(self) -> None:
        """End the processes."""
        for process in self.processes.values():
            process.kill()
            process.communicate()

    def __str__(self) -> str:
        number = self.number
        return (f"{number.admitted} updates admitted, {number.value} in the number, {number.admitted - number.value} "
                f"lost; {self.stopped} holders stopped, {number.refused} refused by the fence")


def main(words: list[str]) -> int:
    """The command."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--no-fence", action="store_true", help="show that updates are lost then")
    arguments = parser.parse_args(words)
    test = LockTest("ABCDE", fenced=not arguments.no_fence)
    try:
        test.run(arguments.seconds)
    finally:
        test.close()
    sys.stdout.write(f"{test}\n")
    lost = test.number.admitted != test.number.value
    return int(not test.stopped or not test.number.admitted or lost != arguments.no_fence)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
