"""NAKACK: reliable multicast, in each sender's order, and the half of virtual synchrony that holds messages.

config (properties), headers (what goes over the wire), gaps (what to ask for again, and when), nakack (the layer).
"""
from jgroups_py.protocols.nakack.config import NakackConfig
from jgroups_py.protocols.nakack.nakack import Nakack

__all__ = ["Nakack", "NakackConfig"]
