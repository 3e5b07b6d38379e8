"""The applications of those profiles whose members run one: importing this module registers them all."""
from __future__ import annotations

from jgroups_py.testing.simulation import caches as caches
from jgroups_py.testing.simulation import coordination as coordination
from jgroups_py.testing.simulation import dicts as dicts
from jgroups_py.testing.simulation import mqtt as mqtt
from jgroups_py.testing.simulation import mqtt_roaming as mqtt_roaming
from jgroups_py.testing.simulation import owners as owners
from jgroups_py.testing.simulation import receipts as receipts
from jgroups_py.testing.simulation import replicas as replicas
from jgroups_py.testing.simulation import services as services
