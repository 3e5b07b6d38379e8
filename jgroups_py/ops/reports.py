"""Reports for operators, as values for JSON: the members known to a member, and their changes.

A group with GMS has views: the members of the view are the members, and one that is no longer in it failed or left.
SWIM alone has no views: each member is alive, suspect, failed or left. Under GMS, SWIM (where it detects failures)
adds its measurements.
"""
from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from jgroups_py.config.properties import table_of
from jgroups_py.config.spec import StackSpec
from jgroups_py.model.address import Address, PhysicalAddress
from jgroups_py.model.errors import ConfigError
from jgroups_py.model.outputs import (
    GlobalViewInstalled,
    MemberChanged,
    Output,
    SiteStatusChanged,
    UserEvent,
    ViewInstalled,
)
from jgroups_py.model.ports import AddressBook, MemberTable, ViewSource
from jgroups_py.model.swim_member import REFUTED, SUSPECTED, Member
from jgroups_py.model.units import NS_PER_MS
from jgroups_py.model.view import View
from jgroups_py.node.node import Node

Facts = dict[str, Any]


def members_report(node: Node) -> Facts:
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
    return {"member": str(node.me), "cluster": node.cluster, "view": None if view is None else str(view.id),
            "members": [in_view(member, book.physical_of(member), measured.get(member)) for member in members]}


def member_facts(member: Member) -> Facts:
    """A member, as known to SWIM."""
    return {"name": member.name, "uuid": member.address.raw.hex(), "address": place_text(member.place),
            "state": member.state, "incarnation": member.incarnation, "tags": dict(member.tags),
            "weight": member.weight, "rtt_ms": None if member.rtt_ns is None else round(member.rtt_ns / NS_PER_MS, 3)}


def in_view(address: Address, place: PhysicalAddress | None, measured: Member | None) -> Facts:
    """A member of a view; measured: the same member in SWIM."""
    facts = {} if measured is None else member_facts(measured)
    facts.update({"name": str(address), "uuid": address.raw.hex(), "address": place_text(place)})
    return {"name": "", "uuid": "", "address": "", "state": "alive", "incarnation": None, "tags": {}, "weight": None,
            "rtt_ms": None, **facts}


def place_text(place: PhysicalAddress | None) -> str:
    """host:port; "" if it is not known."""
    return "" if place is None else f"{place[0]}:{place[1]}"


class Changes:
    """Turns a node's outputs into facts, in order; for each view also what changed in it.

    views: membership is GMS's, so SWIM's changes other than suspicions are left out; members: those of the view before
    the first output.
    """

    def __init__(self, views: bool, members: tuple[Address, ...] = ()) -> None:
        self._views = views
        self._members = members

    def of(self, output: Output) -> list[Facts]:
        """The facts for operators in an output; often none."""
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
            return []                                        # the next view reports it
        if output.accusations:
            facts["evidence"] = [str(accusation) for accusation in output.accusations]
        return [{"event": output.change, **facts}]


def names(members: Iterable[Address]) -> list[str]:
    """The members' names, in order."""
    return [str(member) for member in members]


def config_facts(spec: StackSpec) -> list[Facts]:
    """The protocols of a stack, lowest first, with their properties as a stack file has them."""
    found = []
    for layer in spec.layers:
        try:
            rows = table_of(layer.protocol()).properties
        except ConfigError:                                  # its extra is not installed; the stack would not run
            rows = ()
        found.append({"protocol": layer.name, "properties": {
            row.name: row.show(getattr(layer.config, row.field)) for row in rows}})
    return found
