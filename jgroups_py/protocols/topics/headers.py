"""The headers with which members announce their interests. Those of batches about a topic: wire/topic_headers.py."""
from __future__ import annotations

from jgroups_py import wire
from jgroups_py.model.address import Address
from jgroups_py.model.batch import Header
from jgroups_py.model.topics import Interest
from jgroups_py.model.view import ViewId
from jgroups_py.wire.topic_headers import INTEREST, TOPICS_ID


@wire.header(proto=TOPICS_ID, kind=4)
class InterestHeader(Header):
    """To the coordinator: the sender's interest, sent in view `view_id`; version counts the changes of the interest."""

    view_id: ViewId = wire.field(wire.VIEW_ID)
    version: int = wire.field(wire.U64)
    interest: Interest = wire.field(INTEREST)


@wire.header(proto=TOPICS_ID, kind=5)
class InterestConfirmed(Header):
    """From the coordinator to all: from here on RELAY filters by these versions of the members' interests."""

    versions: dict[Address, int] = wire.field(wire.DIGEST)
