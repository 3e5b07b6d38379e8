"""What the package writes to its log: a record stays one line, whatever others called themselves."""
from __future__ import annotations

import logging

from jgroups_py.texts import escaped, is_plain


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
    """Let the package's log escape what it is given, once."""
    log = logging.getLogger("jgroups_py")
    if not any(isinstance(known, OneLine) for known in log.filters):
        log.addFilter(OneLine())
