"""The receiving half that MFC, UFC and FLOW share: whether the application keeps up, and if not, for which reasons."""
from __future__ import annotations

from jgroups_py.model.events import AppBusy
from jgroups_py.stack.protocol import Protocol, on

MAX_SENDERS = 10_000                    # senders whose marks are kept: bounds the memory that forged sources take


class MarkReceiver(Protocol):
    """See the module. A subclass answers marks, and defers what must wait for the application to `on_caught_up`."""

    def start(self) -> None:
        super().start()
        self.busy: dict[str, None] = {}      # reasons (AppBusy.why) for which the application is behind

    @on(AppBusy)
    def on_app_busy(self, event: AppBusy) -> None:
        """Several layers may report that the application is behind; it has caught up when none does any more."""
        if event.on:
            self.busy[event.why] = None
            return
        self.busy.pop(event.why, None)
        if not self.busy:
            self.on_caught_up()

    def on_caught_up(self) -> None:
        """Send the answers that had to wait for the application."""
        raise NotImplementedError
