"""Fence: in front of what is protected, it admits no holder of a grant after a later one."""
from __future__ import annotations

import threading


class StaleFenceError(Exception):
    """A later holder was admitted before: this one has lost its grant. highest: the number of the later one."""

    def __init__(self, number: int, highest: int) -> None:
        super().__init__(f"fence {number} comes after {highest}: the grant was lost, and another holder has been here")
        self.number = number
        self.highest = highest


class Fence:
    """The highest number seen. One for each name, where the resource is: a file server, a table, a device.

    It must be checked and the work be done in one step that no other holder's work can come into; a database does that
    with `UPDATE ... WHERE fence <= :fence`. highest: keep it with the resource, so that it outlives this process.
    """

    def __init__(self, highest: int = 0) -> None:
        self.highest = highest
        self._lock = threading.Lock()

    def admit(self, number: int) -> None:
        """Admit the holder of the grant with this number; it may come as often as it likes.

        Raises:
            StaleFenceError: a higher number was admitted before.
        """
        with self._lock:
            if number < self.highest:
                raise StaleFenceError(number, self.highest)
            self.highest = number
