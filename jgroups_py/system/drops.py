"""Drops outside the stack: counted under a declared name and, where the log level is DEBUG, logged with the reason.

Layers of a stack are pure and report their drops as outputs (Protocol.drop); both go to the same logger.
"""
from __future__ import annotations

import logging

from jgroups_py.model.counters import Counters

drop_log = logging.getLogger("jgroups_py.drops")
"""All drops, at DEBUG."""


class LoggedCounters(Counters):
    """Counters of a part that touches the system: sockets, files, callbacks."""

    __slots__ = ()

    def drop(self, name: str, why: str, number: int = 1) -> None:
        """Count what goes no further; at DEBUG, log why."""
        self.add(name, number)
        if drop_log.isEnabledFor(logging.DEBUG):
            drop_log.debug("dropped %d: %s (%s)", number, why, name)
