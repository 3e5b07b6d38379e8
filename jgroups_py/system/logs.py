"""What the package writes to its log: a record stays one line, whatever others called themselves."""
from __future__ import annotations

import logging

from jgroups_py.model.text import escaped, is_plain

LOGS = ("jgroups_py", "jgroups_py.drops", "jgroups_py.trace")    # a filter sees the records of its own log only


class OneLine(logging.Filter):
    """Escapes the text of a record where it needs that; other records pass as they are, with their arguments."""

    def filter(self, record: logging.LogRecord) -> bool:
        """True: all records are written."""
        try:
            text = record.getMessage()
        except (TypeError, ValueError, KeyError):            # arguments that do not fit: the handler reports it
            return True
        if not is_plain(text):
            record.msg, record.args = escaped(text), ()
        return True


def escape_records() -> None:
    """Let the package's logs escape what they are given, once."""
    for name in LOGS:
        log = logging.getLogger(name)
        if not any(isinstance(known, OneLine) for known in log.filters):
            log.addFilter(OneLine())
