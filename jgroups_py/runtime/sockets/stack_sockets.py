"""The sockets of one stack of a node: those of its transport, and FD_SOCK's links."""
from __future__ import annotations

import errno
import socket
from collections.abc import Callable

from jgroups_py.model.errors import ConfigError
from jgroups_py.model.events import Event
from jgroups_py.model.outputs import CloseLink, CloseStream, OpenLink, OpenStream, OpenTransport, WriteStream
from jgroups_py.protocols.transport.protocol import TcpConfig, UdpConfig
from jgroups_py.runtime.loop import Loop
from jgroups_py.runtime.sockets.interfaces import resolve
from jgroups_py.runtime.sockets.links import Links
from jgroups_py.runtime.sockets.streams import StreamSockets
from jgroups_py.runtime.sockets.tcp import TcpMesh
from jgroups_py.runtime.sockets.udp import Frames, UdpSockets, bound_in_range
from jgroups_py.stack.datagrams import BothKinds, Datagrams

LinkOrStream = OpenLink | CloseLink | OpenStream | WriteStream | CloseStream
LINKS_AND_STREAMS = (OpenLink, CloseLink, OpenStream, WriteStream, CloseStream)
ANY_PORT_TRIES = 20                         # for a port that is free for datagrams and for streams


class Net:
    """Opened for `request`; `received` gets the frames of a round, `notify` events of links and streams, `note` log
    entries (level, text).

    Raises:
        OSError, ConfigError: the sockets cannot be opened.
    """

    __slots__ = ("links", "sockets", "streams")

    def __init__(
        self, loop: Loop, request: OpenTransport, received: Callable[[Frames], None], notify: Callable[[Event], None],
        note: Callable[[str, str], None],
    ) -> None:
        config, me = request.config, request.me.raw
        self.streams: StreamSockets | None = None
        if isinstance(config, UdpConfig):
            self.sockets: UdpSockets | TcpMesh = UdpSockets(loop, config, me, received, note)
        elif isinstance(config, TcpConfig):
            self.sockets = TcpMesh(loop, config, received, note)
        elif isinstance(config, BothKinds):
            listener, self.sockets = both_kinds(config, lambda udp: UdpSockets(loop, udp, me, received, note))
            self.streams = StreamSockets(loop, listener, notify, self.sockets.host)
        elif isinstance(config, Datagrams):
            self.sockets = UdpSockets(loop, datagrams_only(config, config.bind_port, config.port_range), me, received,
                                      note)
        else:
            raise ConfigError(f"there are no sockets for a transport configured by {type(config).__name__}")
        self.links = Links(loop, me, notify, self.sockets.host)

    def carry_out(self, request: LinkOrStream) -> None:
        """Carry out a layer's output about links and streams."""
        match request:
            case OpenLink():
                return self.links.open(request)
            case CloseLink():
                return self.links.close_link(request.link)
        assert self.streams is not None, "only a transport with streams asks for them"
        match request:
            case OpenStream():
                return self.streams.open(request)
            case WriteStream():
                return self.streams.write(request)
            case CloseStream():
                return self.streams.close_stream(request)

    def counters(self) -> dict[str, int]:
        """What its datagrams, frames and streams counted; links count for themselves."""
        return {**self.sockets.counters, **(self.streams.counters if self.streams is not None else {})}

    def close(self, graceful: bool) -> None:
        """Close everything; `graceful`: peers get a goodbye, so that they do not suspect a crash."""
        self.links.close(graceful)
        self.sockets.close()
        if self.streams is not None:
            self.streams.close()


def both_kinds(
    config: BothKinds, datagrams: Callable[[UdpConfig], UdpSockets],
) -> tuple[socket.socket, UdpSockets]:
    """A socket for streams and one for datagrams on the same port.

    Raises:
        OSError, ConfigError: no port of the range is free for both.
    """
    ports = range(config.bind_port, config.bind_port + config.port_range + 1) if config.bind_port else \
        (0,) * ANY_PORT_TRIES
    taken: OSError | None = None
    for candidate in ports:
        listener = None
        try:
            listener = bound_in_range(socket.SOCK_STREAM, resolve(config.bind_addr), candidate, 0)
            return listener, datagrams(datagrams_only(config, listener.getsockname()[1]))
        except OSError as error:
            if listener is not None:
                listener.close()
            if error.errno != errno.EADDRINUSE:
                raise
            taken = error
    raise OSError(errno.EADDRINUSE, f"no port is free for datagrams and streams: {taken}")


def datagrams_only(config: Datagrams, port: int, port_range: int = 0) -> UdpConfig:
    """How the socket for datagrams is opened."""
    return UdpConfig(bind_addr=config.bind_addr, bind_port=port, port_range=port_range, ip_mcast=False,
                     external_addr=config.external_addr, external_port=config.external_port)
