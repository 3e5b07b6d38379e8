"""GMS: membership of a group with virtual synchrony. Begin with protocol.py; the idea is in design/protocols/gms.md."""
from jgroups_py.protocols.gms.protocol import Gms

__all__ = ["Gms"]
