"""Profiles: the kind of world that a seed makes, its faults and its traffic, and when the world is at rest.

A seed first chooses which kinds of fault it uses at all (swarm testing, Groce et al. 2012): few kinds at a time reach
more states than all kinds at once. The stacks are the shipped files, so the tested stacks are those of users. A profile
declares the states that its seeds must reach (`reaches`, keys of coverage.py), and a test checks it.
"""
from __future__ import annotations

from jgroups_py.simulator.profiles.attacker_site import AttackerSiteProfile
from jgroups_py.simulator.profiles.attackers import AttackerProfile, FormerMemberProfile, InsiderProfile
from jgroups_py.simulator.profiles.auth import AuthProfile
from jgroups_py.simulator.profiles.base import REST_LIMIT_NS, Plan, Profile
from jgroups_py.simulator.profiles.caches import CacheProfile, CacheSplitProfile
from jgroups_py.simulator.profiles.certificates import CertificatesProfile
from jgroups_py.simulator.profiles.clocks import ClocksProfile
from jgroups_py.simulator.profiles.coordination import CoordinationProfile
from jgroups_py.simulator.profiles.dicts import DictProfile
from jgroups_py.simulator.profiles.flow import FlowProfile
from jgroups_py.simulator.profiles.group import GroupProfile
from jgroups_py.simulator.profiles.hostile import HostileProfile
from jgroups_py.simulator.profiles.interleavings import InterleavingsProfile
from jgroups_py.simulator.profiles.large import LargeProfile
from jgroups_py.simulator.profiles.late import LateProfile
from jgroups_py.simulator.profiles.limits import LimitsProfile
from jgroups_py.simulator.profiles.mqtt import MqttExpiryProfile, MqttProfile, MqttSitesProfile, MqttSlowProfile
from jgroups_py.simulator.profiles.operators import OperatorsProfile
from jgroups_py.simulator.profiles.order import (
    OrderProfile,
    OrderSitesProfile,
    OrderSplitProfile,
    OrderStormProfile,
    OrderTopicsProfile,
)
from jgroups_py.simulator.profiles.owners import OwnersProfile
from jgroups_py.simulator.profiles.receipts import ReceiptsProfile
from jgroups_py.simulator.profiles.relay import RelayCrashProfile, RelayProfile
from jgroups_py.simulator.profiles.replicas import ReplicasProfile
from jgroups_py.simulator.profiles.scale import ScaleProfile
from jgroups_py.simulator.profiles.sealed import SealedProfile
from jgroups_py.simulator.profiles.sealed_disks import SealedDisksProfile
from jgroups_py.simulator.profiles.services import ServicesProfile, ServicesSitesProfile
from jgroups_py.simulator.profiles.site_crash import SiteCrashProfile
from jgroups_py.simulator.profiles.split_brain import SplitBrainProfile
from jgroups_py.simulator.profiles.split_topics import ScaleTopicsProfile, SplitBrainTopicsProfile, StormTopicsProfile
from jgroups_py.simulator.profiles.standby import StandbyProfile
from jgroups_py.simulator.profiles.states import SiteStatesProfile, StatesProfile
from jgroups_py.simulator.profiles.storm import RelayStormProfile
from jgroups_py.simulator.profiles.swim import SwimAloneProfile, SwimGroupProfile
from jgroups_py.simulator.profiles.tokens import TokensProfile
from jgroups_py.simulator.profiles.topics import TopicsProfile
from jgroups_py.simulator.profiles.upgrade import UpgradeProfile
from jgroups_py.simulator.profiles.versions import VersionsProfile
from jgroups_py.simulator.profiles.view_keys import ViewKeysProfile
from jgroups_py.simulator.profiles.wan import WanProfile

PROFILES: dict[str, type[Profile]] = {
    profile.name: profile for profile in (
        GroupProfile, RelayProfile, RelayCrashProfile, RelayStormProfile, SplitBrainProfile, LimitsProfile,
        ScaleProfile, SiteCrashProfile, OperatorsProfile, InterleavingsProfile, LateProfile, ClocksProfile, WanProfile,
        StandbyProfile,
        LargeProfile, TopicsProfile, SplitBrainTopicsProfile, StormTopicsProfile, ScaleTopicsProfile,
        SwimAloneProfile, SwimGroupProfile, ReplicasProfile, FlowProfile, HostileProfile, StatesProfile,
        SiteStatesProfile, MqttProfile, MqttExpiryProfile, MqttSlowProfile, MqttSitesProfile, SealedProfile,
        SealedDisksProfile, AuthProfile,
        ViewKeysProfile, CertificatesProfile, UpgradeProfile, AttackerSiteProfile, OrderProfile, OrderSitesProfile,
        OrderStormProfile, OrderSplitProfile, OrderTopicsProfile,
        DictProfile, ReceiptsProfile, AttackerProfile, InsiderProfile, FormerMemberProfile, TokensProfile,
        CacheProfile, CacheSplitProfile, ServicesProfile, ServicesSitesProfile, CoordinationProfile,
        OwnersProfile, VersionsProfile)}

__all__ = ["PROFILES", "REST_LIMIT_NS", "GroupProfile", "Plan", "Profile", "RelayProfile"]
