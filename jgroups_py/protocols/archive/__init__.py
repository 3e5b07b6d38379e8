"""ARCHIVE: records what this member sends and delivers, its views and losses (design/protocols/archive.md)."""
from jgroups_py.protocols.archive.config import ArchiveConfig
from jgroups_py.protocols.archive.protocol import Archive

__all__ = ["Archive", "ArchiveConfig"]
