"""The logs of drops and of traced messages.

jgroups_py.drops    every drop of every layer and socket, at DEBUG; the level may change while the member runs
jgroups_py.trace    the way of the messages that JGROUPS_TRACE names, as "A:17", "A:17-20" or "A"; read when a member
                    starts, since it changes how layers are wired. To stderr, unless the application has a handler
"""
from __future__ import annotations

import logging
import os

from jgroups_py.model.outputs import Traced
from jgroups_py.stack.tracing import Trace, TraceFilter
from jgroups_py.system.drops import drop_log

trace_log = logging.getLogger("jgroups_py.trace")
VARIABLE = "JGROUPS_TRACE"


def requested_trace() -> Trace | None:
    """The trace that JGROUPS_TRACE requests, if it is set; its log is enabled.

    Raises:
        ConfigError: the variable is not a source and a number.
    """
    text = os.environ.get(VARIABLE, "")
    if not text:
        return None
    messages = TraceFilter.parse(text)
    trace_log.setLevel(logging.DEBUG)
    if not trace_log.hasHandlers():
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(asctime)s.%(msecs)03d %(message)s", "%H:%M:%S"))
        trace_log.addHandler(handler)
    return Trace(messages)


def drops_are_logged() -> bool:
    """Whether the log has all drops."""
    return drop_log.isEnabledFor(logging.DEBUG)


def write(member: str, traced: Traced) -> None:
    """Log what a layer of `member` did."""
    log = drop_log if traced.verb == "drops" and drops_are_logged() else trace_log
    log.debug("%s: %s", member, traced)
