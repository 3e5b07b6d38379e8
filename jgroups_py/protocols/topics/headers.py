"""What members say to each other about their interests. The marks of runs stand in the vocabulary (topics.py)."""
from __future__ import annotations

from jgroups_py import wire
from jgroups_py.address import Address
from jgroups_py.batch import Header
from jgroups_py.topics import INTEREST, TOPICS_ID, Interest
from jgroups_py.view import ViewId


@wire.header(proto=TOPICS_ID, kind=4)
class Interested(Header):
    """To the coordinator: what the sender wants, told in view `view_id`; version counts its changes of mind."""

    view_id: ViewId = wire.field(wire.VIEW_ID)
    version: int = wire.field(wire.U64)
    interest: Interest = wire.field(INTEREST)


@wire.header(proto=TOPICS_ID, kind=5)
class Heard(Header):
    """From the coordinator to all: it goes by these versions of the members' interests from here on."""

    versions: dict[Address, int] = wire.field(wire.DIGEST)
