"""What a service tells systemd (sd_notify): that it is ready, what it does, that it lives, that it ends."""
from __future__ import annotations

import contextlib
import socket
from collections.abc import Mapping
from typing import Self

import attrs

SECOND_US = 1_000_000


@attrs.frozen
class ServiceManager:
    """address: of its socket, None: nobody listens. watchdog_seconds: it ends a service from which it hears nothing for
    so long; None: it does not."""

    address: str | None = None
    watchdog_seconds: float | None = None

    @classmethod
    def of(cls, environment: Mapping[str, str], pid: int) -> Self:
        """As the environment of process `pid` has it.

        >>> ServiceManager.of({"NOTIFY_SOCKET": "@a", "WATCHDOG_USEC": "10000000", "WATCHDOG_PID": "7"}, 7)
        ServiceManager(address='@a', watchdog_seconds=10.0)
        >>> ServiceManager.of({"NOTIFY_SOCKET": "/a", "WATCHDOG_USEC": "10000000", "WATCHDOG_PID": "7"}, 8)
        ServiceManager(address='/a', watchdog_seconds=None)
        """
        given, period = environment.get("WATCHDOG_PID", str(pid)), environment.get("WATCHDOG_USEC", "")
        is_watched = given == str(pid) and period.isdecimal() and int(period) > 0
        return cls(environment.get("NOTIFY_SOCKET") or None, int(period) / SECOND_US if is_watched else None)

    def tell(self, *states: str) -> None:
        """Send states, as "READY=1"; a manager that does not listen is no error."""
        if self.address is None:
            return
        address = "\0" + self.address[1:] if self.address.startswith("@") else self.address
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.settimeout(1.0)
            sender.sendto("\n".join(states).encode(), address)
