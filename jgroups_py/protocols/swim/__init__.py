"""SWIM: membership by probing and gossip, as failure detector under GMS or alone."""
from __future__ import annotations

from jgroups_py.protocols.swim.config import SwimConfig
from jgroups_py.protocols.swim.protocol import Swim

__all__ = ["Swim", "SwimConfig"]
