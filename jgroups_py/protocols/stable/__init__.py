"""STABLE: see protocol.py and design/protocols/stable.md."""
from jgroups_py.protocols.stable.protocol import Stable

__all__ = ["Stable"]
