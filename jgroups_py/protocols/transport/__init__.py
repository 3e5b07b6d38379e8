"""UDP and TCP: see protocol.py and design/protocols/transport.md."""
from jgroups_py.protocols.transport.protocol import Tcp, Transport, Udp

__all__ = ["Tcp", "Transport", "Udp"]
