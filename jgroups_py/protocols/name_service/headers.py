"""The header of NAMES, whose payload is a resolution frame of Aeron's (res.py)."""
from __future__ import annotations

from jgroups_py import wire
from jgroups_py.model.batch import Header


@wire.header(proto=25, kind=1)
class Resolution(Header):
    """The payload is a RES frame: names, their addresses, and the ages of their confirmations."""
