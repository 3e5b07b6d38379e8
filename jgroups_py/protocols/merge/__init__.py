"""MERGE3: see protocol.py and design/protocols/merge.md."""
from jgroups_py.protocols.merge.protocol import Merge

__all__ = ["Merge"]
