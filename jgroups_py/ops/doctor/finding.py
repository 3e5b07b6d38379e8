"""A finding of the doctor."""
from __future__ import annotations

import attrs

OK, WARN, BAD = "ok", "warn", "bad"


@attrs.frozen
class Diagnosis:
    """level: OK, WARN (members will run, but), BAD (they will not, or not together). check: a short name; what: what
    was seen; remedy: what to set or do, "" if nothing."""

    level: str
    check: str
    what: str
    remedy: str = ""
