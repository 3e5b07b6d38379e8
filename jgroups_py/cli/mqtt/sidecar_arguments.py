"""Arguments of `jgroups mqtt sidecar`, apart from it: it imports asyncio and all of the broker."""
from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError

from jgroups_py.cli.stack_file import add_property_argument


def add_arguments(parser: ArgumentParser) -> None:
    """To the parser of the verb."""
    parser.add_argument("--broker", metavar="HOST:PORT", type=host_and_port, default=("127.0.0.1", 1883),
                        help="the mosquitto (default: 127.0.0.1:1883)")
    parser.add_argument("--name", metavar="NODE", required=True, help="name of this node, unique in the federation and "
                        "the same after a restart")
    parser.add_argument("--stack", metavar="FILE", default="tcp", help="a stack file, or a packaged stack's name, as "
                        "the other nodes have it (default: %(default)s)")
    parser.add_argument("--cluster", metavar="NAME", default="mqtt", help="the group of the federation (default: "
                        "%(default)s)")
    parser.add_argument("--filter", metavar="FILTER", action="append", default=[], dest="filters",
                        help="what clients of mosquitto want that subscribed before the sidecar came; "
                        "may be given again")
    parser.add_argument("--user", metavar="NAME", help="user name at mosquitto")
    parser.add_argument("--password-file", metavar="FILE", help="its password, the first line of this file")
    parser.add_argument("--client-id", metavar="ID", default="jgroups-sidecar", help="of the sidecar at mosquitto "
                        "(default: %(default)s)")
    parser.add_argument("--tls-ca", metavar="FILE", help="use TLS, and trust the certificates that this file has")
    parser.add_argument("--loop", choices=("auto", "uvloop", "asyncio"), default="auto",
                        help="event loop; auto: uvloop if it is installed")
    add_property_argument(parser)


def host_and_port(text: str) -> tuple[str, int]:
    """Of HOST:PORT; an IPv6 address stands in brackets.

    >>> host_and_port("broker:1883"), host_and_port("[::1]:1884")
    (('broker', 1883), ('::1', 1884))
    """
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isdecimal() or not 0 < int(port) < 65_536:
        raise ArgumentTypeError(f"{text!r} is not HOST:PORT")
    return host.removeprefix("[").removesuffix("]"), int(port)
