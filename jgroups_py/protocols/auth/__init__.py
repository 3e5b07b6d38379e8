"""AUTH: see protocol.py and design/protocols/auth.md."""
from jgroups_py.protocols.auth.protocol import Auth

__all__ = ["Auth"]
