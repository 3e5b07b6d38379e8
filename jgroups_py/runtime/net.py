"""The sockets of one stack of a node: those of its transport, and FD_SOCK's links."""
from __future__ import annotations

from collections.abc import Callable

from jgroups_py.errors import ConfigError
from jgroups_py.events import Event
from jgroups_py.outputs import OpenTransport
from jgroups_py.protocols.transport import TcpConfig, UdpConfig
from jgroups_py.runtime.links import Links
from jgroups_py.runtime.loop import Loop
from jgroups_py.runtime.tcp import TcpMesh
from jgroups_py.runtime.udp import Frames, UdpSockets


class Net:
    """Opened as `asked`; `received` gets the frames of a round, `tell` the news of links, `note` what is worth a log.

    Raises:
        OSError, ConfigError: the sockets cannot be opened.
    """

    __slots__ = ("links", "sockets")

    def __init__(
        self, loop: Loop, asked: OpenTransport, received: Callable[[Frames], None], tell: Callable[[Event], None],
        note: Callable[[str, str], None],
    ) -> None:
        config, me = asked.config, asked.me.raw
        if isinstance(config, UdpConfig):
            self.sockets: UdpSockets | TcpMesh = UdpSockets(loop, config, me, received, note)
        elif isinstance(config, TcpConfig):
            self.sockets = TcpMesh(loop, config, received, note)
        else:
            raise ConfigError(f"there are no sockets for a transport configured by {type(config).__name__}")
        self.links = Links(loop, me, tell)

    def close(self, graceful: bool) -> None:
        """Close everything; `graceful`: others shall not take it for a crash."""
        self.links.close(graceful)
        self.sockets.close()
