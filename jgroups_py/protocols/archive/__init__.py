"""ARCHIVE: records what this member sends, delivers and learns (design/protocols/archive.md)."""
from jgroups_py.protocols.archive.config import ArchiveConfig
from jgroups_py.protocols.archive.protocol import Archive

__all__ = ["Archive", "ArchiveConfig"]
