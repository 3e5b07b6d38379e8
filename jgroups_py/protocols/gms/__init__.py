"""GMS: see gms.py and design/protocols/gms.md."""
from jgroups_py.protocols.gms.gms import Gms

__all__ = ["Gms"]
