"""Profiles mqtt, mqtt-expiry, mqtt-slow and mqtt-sites: MQTT brokers that form a federation (blocks/mqtt), in one group
and across sites."""
from __future__ import annotations

from random import Random
from typing import ClassVar

import attrs

from jgroups_py.simulator.faults.actions import Action, Begin
from jgroups_py.simulator.profiles.base import Plan, span
from jgroups_py.simulator.profiles.group import GroupProfile
from jgroups_py.simulator.profiles.relay import RelayCrashProfile

LATE_SHARE = 0.3
"""Of the seeds of mqtt-sites: one site starts late."""


class MqttProfile(GroupProfile):
    """Three to five brokers; they are in jgroups_py/testing/simulation/mqtt.py, their clients in mqtt_roaming.py."""

    name = "mqtt"
    bursts = False
    application = True
    sizes = (3, 5)
    reaches: ClassVar[tuple[str, ...]] = (
        "messages from peers", "events sent again", "restarts of a peer", "messages parked", "trees asked for",
        "publishes acknowledged", "sessions that went on", "retained messages", "splits", "sessions moved",
        "wills published", "messages of shared subscriptions", "clean starts", "senseless frames")


class MqttExpiryProfile(MqttProfile):
    """The same, where most sessions end: with their connection, soon after it, by DISCONNECT or by clean start."""

    name = "mqtt-expiry"
    reaches = (*MqttProfile.reaches, "sessions that ended")


class MqttSlowProfile(MqttProfile):
    """The same, with clients that acknowledge late: sessions move, are copied and end with messages in flight."""

    name = "mqtt-slow"
    reaches = (*MqttProfile.reaches, "answers of slow clients")


class MqttSitesProfile(RelayCrashProfile):
    """Brokers at two or three sites, whose relays crash and whose bridge is cut; no message is lost or duplicated. In
    some seeds one site starts late, when the others have published."""

    name = "mqtt-sites"
    bursts = False
    application = True
    reaches = ("messages from other sites", "messages from peers", "publishes acknowledged", "restarts of a peer",
               "filters sent to sites", "messages for some of the sites", "messages kept in their site",
               "messages that a site did not let in", "sites that started late")

    def make_plan(self) -> Plan:
        plan = super().make_plan()
        rng = Random(f"{self.seed}/late")           # of its own: the other draws are as they were
        if rng.random() >= LATE_SHARE:
            return plan
        late = rng.choice(list(plan.sites))
        wait_ns = span(rng, 2, 7)
        begun: dict[str, None] = {}
        traffic: list[Action] = []
        for action in plan.traffic:
            if isinstance(action, Begin) and action.name in plan.sites[late] and action.name not in begun:
                begun[action.name] = None
                action = attrs.evolve(action, at_ns=action.at_ns + wait_ns)
            traffic.append(action)
        return attrs.evolve(plan, traffic=tuple(traffic))
