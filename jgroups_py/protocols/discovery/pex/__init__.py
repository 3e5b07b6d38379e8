"""PEX: discovery by peers that tell each other of peers."""
from jgroups_py.protocols.discovery.pex.protocol import Pex

__all__ = ["Pex"]
