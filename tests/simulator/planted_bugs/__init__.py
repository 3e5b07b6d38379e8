"""Bugs planted into the production core, each the removal of one safeguard, for the simulator to find.

`SAFEGUARDS` is the table; design/safeguards.md has it in words. Nothing of this is in the shipped package: a
safeguard goes by replacing methods while seeds run.
"""
from __future__ import annotations

from tests.simulator.planted_bugs.attackers import ATTACKER_SAFEGUARDS
from tests.simulator.planted_bugs.auth import AUTH_SAFEGUARDS
from tests.simulator.planted_bugs.cache import CACHE_SAFEGUARDS
from tests.simulator.planted_bugs.certificates import CERTIFICATE_SAFEGUARDS
from tests.simulator.planted_bugs.coordination import COORDINATION_SAFEGUARDS
from tests.simulator.planted_bugs.dicts import DICT_SAFEGUARDS
from tests.simulator.planted_bugs.group import GROUP_SAFEGUARDS
from tests.simulator.planted_bugs.group_receipts import GROUP_RECEIPT_SAFEGUARDS
from tests.simulator.planted_bugs.hostile import HOSTILE_SAFEGUARDS
from tests.simulator.planted_bugs.journal import JOURNAL_SAFEGUARDS
from tests.simulator.planted_bugs.mqtt import MQTT_SAFEGUARDS
from tests.simulator.planted_bugs.order import ORDER_SAFEGUARDS
from tests.simulator.planted_bugs.owners import OWNERS_SAFEGUARDS
from tests.simulator.planted_bugs.receipts import RECEIPT_SAFEGUARDS
from tests.simulator.planted_bugs.relay import RELAY_SAFEGUARDS
from tests.simulator.planted_bugs.replicas import REPLICA_SAFEGUARDS
from tests.simulator.planted_bugs.safeguard import Patch, Safeguard
from tests.simulator.planted_bugs.sealed import SEALED_SAFEGUARDS
from tests.simulator.planted_bugs.services import SERVICE_SAFEGUARDS
from tests.simulator.planted_bugs.sites import SITE_SAFEGUARDS
from tests.simulator.planted_bugs.states import STATES_SAFEGUARDS
from tests.simulator.planted_bugs.swim import SWIM_SAFEGUARDS
from tests.simulator.planted_bugs.topics import TOPICS_SAFEGUARDS
from tests.simulator.planted_bugs.upgrade import UPGRADE_SAFEGUARDS
from tests.simulator.planted_bugs.versions import VERSIONS_SAFEGUARDS
from tests.simulator.planted_bugs.view_keys import VIEW_KEY_SAFEGUARDS

SAFEGUARDS = (*GROUP_SAFEGUARDS, *RELAY_SAFEGUARDS, *RECEIPT_SAFEGUARDS, *JOURNAL_SAFEGUARDS, *REPLICA_SAFEGUARDS,
              *SWIM_SAFEGUARDS, *TOPICS_SAFEGUARDS, *HOSTILE_SAFEGUARDS, *SEALED_SAFEGUARDS, *AUTH_SAFEGUARDS,
              *CERTIFICATE_SAFEGUARDS, *UPGRADE_SAFEGUARDS, *VIEW_KEY_SAFEGUARDS, *ATTACKER_SAFEGUARDS,
              *SITE_SAFEGUARDS, *STATES_SAFEGUARDS, *MQTT_SAFEGUARDS, *ORDER_SAFEGUARDS, *GROUP_RECEIPT_SAFEGUARDS,
              *DICT_SAFEGUARDS, *CACHE_SAFEGUARDS, *SERVICE_SAFEGUARDS, *COORDINATION_SAFEGUARDS, *OWNERS_SAFEGUARDS,
              *VERSIONS_SAFEGUARDS)

__all__ = ["SAFEGUARDS", "Patch", "Safeguard"]
