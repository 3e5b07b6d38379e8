"""PEX: discovery by peers that exchange lists of peers."""
from jgroups_py.protocols.discovery.pex.protocol import Pex

__all__ = ["Pex"]
