"""Profiles mqtt and mqtt-sites: MQTT brokers that form a federation (blocks/mqtt), in one group and across sites."""
from __future__ import annotations

from jgroups_py.simulator.profiles.group import GroupProfile
from jgroups_py.simulator.profiles.relay import RelayCrashProfile


class MqttProfile(GroupProfile):
    """Three to five brokers; they are in jgroups_py/testing/simulation/mqtt.py, their clients in mqtt_roaming.py."""

    name = "mqtt"
    bursts = False
    application = True
    sizes = (3, 5)
    reaches = ("messages from peers", "events sent again", "restarts of a peer", "messages parked", "trees asked for",
               "publishes acknowledged", "sessions that went on", "retained messages", "splits", "sessions moved",
               "wills published", "messages of shared subscriptions", "clean starts", "senseless frames")


class MqttSitesProfile(RelayCrashProfile):
    """Brokers at two or three sites, whose relays crash and whose bridge is cut; no message is lost or duplicated."""

    name = "mqtt-sites"
    bursts = False
    application = True
    reaches = ("messages from other sites", "messages from peers", "publishes acknowledged", "restarts of a peer",
               "filters sent to sites")
