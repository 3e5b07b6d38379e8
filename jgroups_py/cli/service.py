"""A member as a service: it reads no commands, runs until SIGTERM, and tells systemd how it is.

The watchdog is fed only after the member's loop has run a round, so a member whose loop stands still is restarted, and
one whose application is slow, or whose group is in trouble, is not.
"""
from __future__ import annotations

import os
import threading
from collections.abc import Callable

from jgroups_py.model.errors import ChannelError
from jgroups_py.system.service_manager import ServiceManager

LOOK_SECONDS = 0.5
FEEDINGS = 4                                # in the time after which the watchdog ends the service


class MemberService:
    """See the module. manager: who started the process, by its environment."""

    def __init__(self, manager: ServiceManager | None = None) -> None:
        self._manager = manager or ServiceManager.of(os.environ, os.getpid())
        self._ended = threading.Event()

    def run(self, name: str, ran_a_round: Callable[[], object]) -> None:
        """Tell that the member is ready, then wait until a signal handler raises. ran_a_round: returns after the loop
        has run a round, raises ChannelError if it did not."""
        self._manager.tell("READY=1", f"STATUS={name} is in its group")
        if self._manager.watchdog_seconds is not None:
            threading.Thread(target=self._feed, args=(self._manager.watchdog_seconds / FEEDINGS, ran_a_round),
                             name="watchdog", daemon=True).start()
        # A signal that arrives as the thread is about to sleep does not wake it: its handler runs when it looks again.
        while not self._ended.wait(LOOK_SECONDS):
            pass

    def _feed(self, period_seconds: float, ran_a_round: Callable[[], object]) -> None:
        while True:
            try:
                ran_a_round()
                self._manager.tell("WATCHDOG=1")
            except ChannelError:
                pass                                         # that is what the watchdog is for
            if self._ended.wait(period_seconds):
                return

    def show(self, status: str) -> None:
        """What `systemctl status` shows."""
        self._manager.tell(f"STATUS={status}")

    def leave(self) -> None:
        """Tell that the member leaves."""
        self._ended.set()
        self._manager.tell("STOPPING=1", "STATUS=leaving")
