"""A report of the members known to a member, as values for JSON.

A group with GMS has views: the members of the view are the members, and one that is no longer in it failed or left.
SWIM alone has no views: each member is alive, suspect, failed or left. Under GMS, SWIM (where it detects failures)
adds its measurements.
"""
from __future__ import annotations

from typing import Any

from jgroups_py.model.address import Address, PhysicalAddress
from jgroups_py.model.ports import AddressBook, MemberTable, ReleaseTable, ViewSource
from jgroups_py.model.swim_member import Member
from jgroups_py.model.text import place as shown_place
from jgroups_py.model.units import NS_PER_MS
from jgroups_py.model.version import MemberRelease
from jgroups_py.node.node import Node


def members_report(node: Node) -> dict[str, Any]:
    """This member and all members known to it, as `jgroups members --json` prints them."""
    table: MemberTable | None = node.local.find(MemberTable)
    views: ViewSource | None = node.local.find(ViewSource)
    known = table.known_members() if table is not None else ()
    if views is None:
        return {"member": known[0].name if known else node.name, "cluster": node.cluster, "view": None,
                "members": [member_facts(member) for member in known]}
    view = views.current_view()
    measured = {member.address: member for member in known}
    book: AddressBook = node.local.find(AddressBook)
    members = view.members if view is not None else ()
    table_of_releases: ReleaseTable | None = node.local.find(ReleaseTable)
    releases = {} if table_of_releases is None else table_of_releases.member_releases()
    return {"member": str(node.me), "cluster": node.cluster, "view": None if view is None else str(view.id),
            "members": [in_view(member, book.physical_of(member), measured.get(member), releases.get(member))
                        for member in members]}


def member_facts(member: Member) -> dict[str, Any]:
    """A member, as known to SWIM."""
    return {"name": member.name, "uuid": member.address.raw.hex(), "address": place_text(member.place),
            "state": member.state, "incarnation": member.incarnation, "tags": dict(member.tags),
            "weight": member.weight, "version": None,
            "rtt_ms": None if member.rtt_ns is None else round(member.rtt_ns / NS_PER_MS, 3)}


def in_view(
    address: Address, place: PhysicalAddress | None, measured: Member | None, release: MemberRelease | None,
) -> dict[str, Any]:
    """A member of a view; measured: the same member in SWIM; release: what it runs, None: it did not tell."""
    facts = {} if measured is None else member_facts(measured)
    facts.update({"name": str(address), "uuid": address.raw.hex(), "address": place_text(place),
                  "version": None if release is None else str(release)})
    return {"name": "", "uuid": "", "address": "", "state": "alive", "incarnation": None, "tags": {}, "weight": None,
            "rtt_ms": None, **facts}


def place_text(place: PhysicalAddress | None) -> str:
    """host:port; "" if it is not known."""
    return "" if place is None else shown_place(*place)
