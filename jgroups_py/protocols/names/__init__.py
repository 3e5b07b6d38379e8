"""NAMES: names by gossip. See names.py and design/protocols/names.md."""
from jgroups_py.protocols.names.config import NamesConfig
from jgroups_py.protocols.names.names import Names

__all__ = ["Names", "NamesConfig"]
