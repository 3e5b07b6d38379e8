"""Entries of the log."""
from __future__ import annotations

import attrs

from jgroups_py.model.outputs.base import Output


@attrs.frozen(eq=False)
class LogEntry(Output):
    """Something for the log; level is "debug", "info", "warning" or "error"."""

    level: str
    text: str


@attrs.frozen(eq=False)
class Traced(Output):
    """What a layer did with a batch: for the log, made only while the log is read at that level.

    layer: its name, with "bridge." before it in the bridge stack; verb: "receives", "passes up", "passes down",
    "sends", "keeps", "drops" or "delivers"; what: the batch in words; why: of a drop, with the counter's name.
    """

    layer: str
    verb: str
    what: str
    why: str = ""

    def __str__(self) -> str:
        return f"{self.layer} {self.verb} {self.what}{': ' * bool(self.why)}{self.why}"
