"""Best-effort broadcasts among peers that find each other."""
from jgroups_py.blocks.gossip.gossip import Gossip, PayloadSizeError

__all__ = ["Gossip", "PayloadSizeError"]
