"""FD_ALL: see protocol.py and design/protocols/fd_all.md."""
from jgroups_py.protocols.fd_all.protocol import FdAll

__all__ = ["FdAll"]
