"""NAMES: names by gossip. See protocol.py and design/protocols/names.md."""
from jgroups_py.protocols.name_service.config import NamesConfig
from jgroups_py.protocols.name_service.protocol import Names

__all__ = ["Names", "NamesConfig"]
