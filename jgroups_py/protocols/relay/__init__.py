"""RELAY: see relay.py."""
from jgroups_py.protocols.relay.relay import Relay

__all__ = ["Relay"]
