"""Finding members before there is a view."""
from __future__ import annotations

import attrs

from jgroups_py.model.address import Address, PhysicalAddress
from jgroups_py.model.batch import Batch
from jgroups_py.model.events.base import Event
from jgroups_py.model.view import ViewId


@attrs.frozen
class FolderRead(Event):
    """Up: the files that `folder` held, in order of their names."""

    folder: str
    entries: tuple[bytes, ...]


@attrs.frozen
class FindMembers(Event):
    """Down, from GMS or MERGE3: discovery shall send requests for `within_ns` and answer with MembersFound.

    everyone: search to the end, and ordinary members answer too; otherwise the first coordinator's answer ends it.
    """

    within_ns: int
    everyone: bool = False


@attrs.frozen
class SearchAt(Event):
    """Down, from an application: members of this cluster may be at `places` too. Discovery by a list of hosts searches
    at once, and asks there whenever it searches, as at places where members were before."""

    places: tuple[PhysicalAddress, ...]


@attrs.frozen
class SendTo(Event):
    """Down, from discovery: send `batch` to the place `physical`, whose member's address is not known."""

    physical: PhysicalAddress
    batch: Batch


@attrs.frozen
class Found:
    """One answer of discovery: a member, where it is, and the view it has (None: it is not in a group yet).

    trip_ns: how long after the request it arrived, 0: not known.
    """

    member: Address
    physical: PhysicalAddress
    view_id: ViewId | None
    is_coordinator: bool
    trip_ns: int = attrs.field(default=0, eq=False)


@attrs.frozen
class MembersFound(Event):
    """Up, from discovery: the answers, in order of arrival. At least once per FindMembers, at its end; with
    `everyone`, also later for each late answer."""

    found: tuple[Found, ...]


@attrs.frozen
class AddressesKnown(Event):
    """Down, from GMS and discovery: where members receive; for the transport's address cache."""

    book: dict[Address, PhysicalAddress]
