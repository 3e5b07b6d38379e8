"""Profile mqtt: brokers of MQTT that federate on one group (blocks/mqtt), under all faults of a group."""
from __future__ import annotations

from jgroups_py.simulator.profiles.group import GroupProfile


class MqttProfile(GroupProfile):
    """Three to five brokers; they are in jgroups_py/testing/simulation/mqtt.py, their clients in mqtt_roaming.py."""

    name = "mqtt"
    bursts = False
    application = True
    sizes = (3, 5)
    reaches = ("messages from peers", "events sent again", "restarts of a peer", "messages parked", "trees asked for",
               "publishes acknowledged", "sessions that went on", "retained messages", "splits", "sessions moved",
               "wills published", "messages of shared subscriptions", "clean starts", "senseless frames")
