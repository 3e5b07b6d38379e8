"""What NAMES says: a resolution frame of Aeron's (res.py), as the payload."""
from __future__ import annotations

from jgroups_py import wire
from jgroups_py.batch import Header


@wire.header(proto=25, kind=1)
class Resolution(Header):
    """The payload is a RES frame: names, where they are, and how long ago that was confirmed."""
