"""What operators are shown of members, as what JSON can say: who is there, and what changes.

A group of GMS has views: its members are those of the view, and whoever is out of it is gone. SWIM alone has no views:
a member is alive, suspect, failed or left by itself. Under GMS, SWIM (where it detects failures) adds what it measured.
"""
from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from jgroups_py.address import Address, PhysicalAddress
from jgroups_py.members import REFUTED, SUSPECTED, Member
from jgroups_py.node import Node
from jgroups_py.outputs import GlobalViewInstalled, MemberChanged, Output, SiteStatusChanged, ViewInstalled
from jgroups_py.ports import AddressBook, Membership, MemberTable
from jgroups_py.units import NS_PER_MS
from jgroups_py.userevents import UserEvent
from jgroups_py.view import View

Facts = dict[str, Any]


def members_report(node: Node) -> Facts:
    """This member and all that it knows: what `jgroups members --json` prints."""
    table: MemberTable | None = node.local.find(MemberTable)
    views: Membership | None = node.local.find(Membership)
    known = table.known_members() if table is not None else ()
    if views is None:
        return {"member": known[0].name if known else node.name, "cluster": node.cluster, "view": None,
                "members": [member_facts(member) for member in known]}
    view = views.current_view()
    measured = {member.address: member for member in known}
    book: AddressBook = node.local.find(AddressBook)
    members = view.members if view is not None else ()
    return {"member": str(node.me), "cluster": node.cluster, "view": None if view is None else str(view.id),
            "members": [in_view(member, book.physical_of(member), measured.get(member)) for member in members]}


def member_facts(member: Member) -> Facts:
    """A member as SWIM knows it."""
    return {"name": member.name, "uuid": member.address.raw.hex(), "address": place_text(member.place),
            "state": member.state, "incarnation": member.incarnation, "tags": dict(member.tags),
            "weight": member.weight, "rtt_ms": None if member.rtt_ns is None else round(member.rtt_ns / NS_PER_MS, 3)}


def in_view(address: Address, place: PhysicalAddress | None, measured: Member | None) -> Facts:
    """A member of a view; measured: what SWIM knows of it."""
    facts = {} if measured is None else member_facts(measured)
    facts.update({"name": str(address), "uuid": address.raw.hex(), "address": place_text(place)})
    return {"name": "", "uuid": "", "address": "", "state": "alive", "incarnation": None, "tags": {}, "weight": None,
            "rtt_ms": None, **facts}


def place_text(place: PhysicalAddress | None) -> str:
    """host:port, or nothing."""
    return "" if place is None else f"{place[0]}:{place[1]}"


class Changes:
    """Makes facts of a node's outputs, in order; of views what changed in them too.

    views: GMS says who is a member, so SWIM only adds to it; members: those of the view before the first output.
    """

    def __init__(self, views: bool, members: tuple[Address, ...] = ()) -> None:
        self._views = views
        self._members = members

    def of(self, output: Output) -> list[Facts]:
        """What an output tells an operator; often nothing."""
        match output:
            case ViewInstalled(view, failed):
                return self._view(view, failed)
            case MemberChanged():
                return self._changed(output)
            case SiteStatusChanged(site, status):
                return [{"event": "site", "site": site, "status": status}]
            case GlobalViewInstalled(view):
                return [{"event": "global_view", "sites": {site: names(members) for site, members in
                                                           sorted(view.sites.items())}}]
            case UserEvent(name, payload, ltime):
                text = payload.decode("utf-8", "replace")
                return [{"event": "user_event", "name": name, "payload": text, "ltime": ltime}]
        return []

    def _view(self, view: View, failed: tuple[Address, ...]) -> list[Facts]:
        before, self._members = self._members, view.members
        gone = [("failed" if member in failed else "left", member) for member in before if member not in view.members]
        come = [("joined", member) for member in view.members if member not in before]
        return [{"event": "view", "id": str(view.id), "coordinator": str(view.coordinator),
                 "members": names(view.members)},
                *({"event": change, "name": str(member), "uuid": member.raw.hex()} for change, member in gone + come)]

    def _changed(self, output: MemberChanged) -> list[Facts]:
        if not self._views:
            facts = member_facts(output.member)
        elif output.change in (SUSPECTED, REFUTED):
            facts = {"name": str(output.member.address), "uuid": output.member.address.raw.hex()}
        else:
            return []                                        # a view says so
        if output.accusations:
            facts["evidence"] = [str(accusation) for accusation in output.accusations]
        return [{"event": output.change, **facts}]


def names(members: Iterable[Address]) -> list[str]:
    """Their names, in order."""
    return [str(member) for member in members]

