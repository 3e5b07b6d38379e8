"""Profiles: what kind of world a seed makes, its faults and its traffic, and when it counts as at rest again.

Every seed first chooses which kinds of fault it uses at all (swarm testing, Groce et al. 2012): few kinds at a time
reach deeper than all at once. The stacks are the shipped files, so what is tested is what people run. A profile says
which states it is for (`reaches`, words of coverage.py); a test holds it to that.
"""
from __future__ import annotations

from jgroups_py.sim.profiles.base import REST_LIMIT_NS, Plan, Profile
from jgroups_py.sim.profiles.clocks import Clocks
from jgroups_py.sim.profiles.flow import Flow
from jgroups_py.sim.profiles.group import Group
from jgroups_py.sim.profiles.hostile import Hostile
from jgroups_py.sim.profiles.interleavings import Interleavings
from jgroups_py.sim.profiles.large import Large
from jgroups_py.sim.profiles.late import Late
from jgroups_py.sim.profiles.limits import Limits
from jgroups_py.sim.profiles.operators import Operators
from jgroups_py.sim.profiles.relay import Relay, RelayCrash
from jgroups_py.sim.profiles.replicas import Replicas
from jgroups_py.sim.profiles.scale import Scale
from jgroups_py.sim.profiles.site_crash import SiteCrash
from jgroups_py.sim.profiles.split_brain import SplitBrain
from jgroups_py.sim.profiles.split_topics import ScaleTopics, SplitBrainTopics, StormTopics
from jgroups_py.sim.profiles.states import SiteStates, States
from jgroups_py.sim.profiles.storm import RelayStorm
from jgroups_py.sim.profiles.swim import SwimAlone, SwimGroup
from jgroups_py.sim.profiles.topics import Topics
from jgroups_py.sim.profiles.wan import Wan

PROFILES: dict[str, type[Profile]] = {
    profile.name: profile for profile in (
        Group, Relay, RelayCrash, RelayStorm, SplitBrain, Limits, Scale, SiteCrash, Operators, Interleavings, Late,
        Clocks, Wan, Large, Topics, SplitBrainTopics, StormTopics, ScaleTopics, SwimAlone, SwimGroup, Replicas, Flow,
        Hostile, States, SiteStates)}

__all__ = ["PROFILES", "REST_LIMIT_NS", "Group", "Plan", "Profile", "Relay"]
