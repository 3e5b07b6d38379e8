"""FD_SOCK: see protocol.py and design/protocols/fd_sock.md."""
from jgroups_py.protocols.fd_sock.protocol import FdSock

__all__ = ["FdSock"]
