"""RELAY: see protocol.py."""
from jgroups_py.protocols.relay.protocol import Relay

__all__ = ["Relay"]
