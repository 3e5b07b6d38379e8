"""UNICAST: reliable FIFO unicasts between two members. See protocol.py and design/protocols/unicast.md."""
from jgroups_py.protocols.unicast.config import UnicastConfig
from jgroups_py.protocols.unicast.headers import UnicastAck, UnicastBase, UnicastData, UnicastNak
from jgroups_py.protocols.unicast.protocol import Unicast

__all__ = ["Unicast", "UnicastAck", "UnicastBase", "UnicastConfig", "UnicastData", "UnicastNak"]
