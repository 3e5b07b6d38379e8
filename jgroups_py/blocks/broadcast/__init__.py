"""Best-effort broadcasts among peers that find each other."""
from jgroups_py.blocks.broadcast.broadcast import Gossip, PayloadSizeError

__all__ = ["Gossip", "PayloadSizeError"]
