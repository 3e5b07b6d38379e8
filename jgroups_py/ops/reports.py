"""Reports for operators, as values for JSON: changes of the members (node/reports.py has the members themselves), and
the configuration of a stack."""
from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from jgroups_py.config.properties import table_of
from jgroups_py.config.spec import StackSpec
from jgroups_py.model.address import Address
from jgroups_py.model.errors import ConfigError
from jgroups_py.model.outputs import (
    GlobalViewInstalled,
    MemberChanged,
    Output,
    SiteStatusChanged,
    UserEvent,
    ViewInstalled,
)
from jgroups_py.model.swim_member import REFUTED, SUSPECTED
from jgroups_py.model.view import View
from jgroups_py.node.reports import member_facts

Facts = dict[str, Any]


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
