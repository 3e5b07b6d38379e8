"""A finding of the doctor."""
from __future__ import annotations

import attrs

OK, WARN, BAD = "ok", "warn", "bad"


@attrs.frozen
class Diagnosis:
    """level: OK, WARN (members run, with a disadvantage), BAD (they do not run, or do not find each other). check: a
    short name; what: the observation; remedy: what to set or do, "" for nothing."""

    level: str
    check: str
    what: str
    remedy: str = ""
