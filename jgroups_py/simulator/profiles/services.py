"""Profiles services and services-sites: typed services (blocks/service) on one group, under all faults of a group, and
on sites whose relays crash and which part."""
from __future__ import annotations

from jgroups_py.simulator.faults.actions import Action, CrashOfCoordinator
from jgroups_py.simulator.profiles.group import GroupProfile
from jgroups_py.simulator.profiles.one_group import GROUP_FAULTS
from jgroups_py.simulator.profiles.relay import RelayProfile


class ServicesProfile(GroupProfile):
    """Two to five members, all of which serve and call; see jgroups_py/testing/simulation/services.py."""

    name = "services"
    bursts = False
    application = True
    sizes = (2, 5)
    kinds = (*GROUP_FAULTS, "coordinator")
    reaches = ("calls answered", "faults declared", "tried elsewhere", "definite failures", "indefinite failures",
               "no such method", "cancelled by callers", "handlers cancelled", "asked again", "streams read",
               "streams given up", "streams broken", "answers of all")

    def fault(self, kind: str, at_ns: int) -> Action:
        if kind == "coordinator":
            return CrashOfCoordinator(at_ns, self.rng.choice(self.members))
        return super().fault(kind, at_ns)


class ServicesSitesProfile(RelayProfile):
    """Two or three sites of two or three members, all of which call; in some seeds the members of one site serve
    nothing, so that what is nearest is another site."""

    name = "services-sites"
    bursts = False
    application = True
    reaches = ("answered by another site", "answered by the own site", "calls of no known member", "tried elsewhere",
               "definite failures", "indefinite failures", "cancelled by callers",
               "handlers cancelled from another site", "asked again", "streams read from another site",
               "streams given up", "streams broken", "answers of all")
