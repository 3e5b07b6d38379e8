"""What all flow control of a receiver has in common: it knows whether its application is behind, and who says so."""
from __future__ import annotations

from jgroups_py.model.events import AppBusy
from jgroups_py.stack.protocol import Protocol, on

MAX_SENDERS = 10_000                    # senders whose marks are remembered


class Answering(Protocol):
    """The receiving half; see the module."""

    def start(self) -> None:
        super().start()
        self.busy: dict[str, None] = {}      # who says that the application is behind

    @on(AppBusy)
    def app_busy(self, event: AppBusy) -> None:
        """The application is behind until nobody says so any more."""
        if event.on:
            self.busy[event.why] = None
            return
        self.busy.pop(event.why, None)
        if not self.busy:
            self.caught_up()

    def caught_up(self) -> None:
        """Answer what had to wait for the application."""
        raise NotImplementedError
