"""FRAG: messages larger than a frame. See protocol.py and design/protocols/frag.md."""
from jgroups_py.protocols.frag.config import FragConfig
from jgroups_py.protocols.frag.headers import Fragment
from jgroups_py.protocols.frag.protocol import Frag

__all__ = ["Frag", "FragConfig", "Fragment"]
