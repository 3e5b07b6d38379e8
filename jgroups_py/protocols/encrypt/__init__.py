"""ENCRYPT: see protocol.py, design/protocols/encrypt.md and design/encrypt.md."""
from jgroups_py.protocols.encrypt.protocol import Encrypt

__all__ = ["Encrypt"]
