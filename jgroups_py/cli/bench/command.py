"""`jgroups bench`: its options and its output."""
from __future__ import annotations

import json
import os
import platform
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Callable
from typing import Any

from jgroups_py.cli.argument_types import within
from jgroups_py.cli.bench import cost, membership, multicast, request, wan
from jgroups_py.cli.bench.figures import as_lines
from jgroups_py.cli.bench.group import BenchError
from jgroups_py.cli.bench.multicast import PIECE, WAYS, Load, Way
from jgroups_py.cli.showing import complain, reasons, show
from jgroups_py.cli.stack_file import add_property_argument
from jgroups_py.model.errors import ConfigError
from jgroups_py.model.units import NS_PER_S, parse_duration, parse_ratio, parse_size

KINDS = {
    "multicast": "messages a second in one group",
    "failover": "gap at another site when a relay is killed or frozen",
    "request": "requests a second, and latency of a request",
    "relay": "messages a second from site NYC to site SFO",
    "wan": "the same over a long path, beside one without delay",
    "membership": "time that a group takes to form, and to notice a crash",
    "protocol-cost": "CPU time of a message in each layer, without sockets",
}


TWO_SITES = ("relay", "wan", "failover")
BIT_UNITS = {"k": 10**3, "m": 10**6, "g": 10**9}


def add_parser(subparsers: Any) -> None:
    """Add `bench` to the command line."""
    parser: ArgumentParser = subparsers.add_parser(
        "bench", help="measure", description="Measure on real processes of this machine, over loopback. Exit 1 if a "
        "message was lost, doubled or out of order, or a request failed.")
    kinds = parser.add_subparsers(metavar="WHAT", required=True, dest="kind")
    for kind, text in KINDS.items():
        _arguments(kinds.add_parser(kind, help=text, description=text[0].upper() + text[1:] + "."), kind)
    parser.set_defaults(run=run)


def _arguments(parser: ArgumentParser, kind: str) -> None:
    whole, part = within(1, 10**9), within(0.001, 3600.0)
    parser.add_argument("--repeat", type=whole, default=5, help="measured rounds (%(default)s)")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument("--quiet", action="store_true", help="no progress on stderr")
    if kind not in TWO_SITES:
        parser.add_argument("--stack", default="udp", metavar="FILE", help="a stack file or a packaged stack's name "
                            "(%(default)s); its ports are chosen free if it has ${mcast_port} or ${bind_port}")
    if kind != "protocol-cost":
        parser.add_argument("--members", type=within(1 if kind in TWO_SITES else 2, 64), default=3,
                            help="members of each site (%(default)s)" if kind in TWO_SITES else "members (%(default)s)")
    if kind != "membership":
        parser.add_argument("--size", type=_size, default=1000, metavar="BYTES",
                            help="size of a message, at least 8 (%(default)s)")
    if kind in ("multicast", "request", "membership", "failover"):
        add_property_argument(parser)
    if kind in ("multicast", "request", "relay", "wan"):
        parser.add_argument("--seconds", type=part, default=2.0, help="approximate length of a round (%(default)s)")
    if kind in ("multicast", "relay", "wan"):
        parser.add_argument("--count", type=whole, metavar="N", help="messages of each sender in a round, "
                            "instead of --seconds")
        parser.add_argument("--piece", type=within(1, 10_000), metavar="N", help="messages handed to the channel at "
                            f"once ({PIECE}); 1: one by one, with send")
        parser.add_argument("--singly", action="store_true", help="receivers get messages one by one, with receive")
    if kind == "multicast":
        parser.add_argument("--ways", type=_ways, default=["one", "batch"], metavar="WAY,...", help="how messages are "
                            f"sent and received, some of {', '.join(f'{name} ({WAYS[name].label})' for name in WAYS)}, "
                            "each in a group of its own (one,batch); --piece and --singly name a single way instead")
        parser.add_argument("--senders", choices=("one", "all"), default="one",
                            help="the members that send (%(default)s)")
        parser.add_argument("--slow", type=within(0.0, 1e6), default=0.0, metavar="US",
                            help="microseconds by which the last member is slower for each message (%(default)s)")
    if kind == "failover":
        parser.add_argument("--how", choices=("kill", "freeze"), default="kill", help="what happens to the relay: its "
                            "process is killed, or stopped as with its host (%(default)s)")
    if kind in ("wan", "failover"):
        parser.add_argument("--delay", type=_delay, default="40ms", metavar="TIME",
                            help="of the path between the sites, one way (%(default)s)")
        parser.add_argument("--loss", type=_loss, default="0", metavar="RATIO", help="packets that the path loses, "
                            "such as 0.1%%; each costs its connection a round trip (%(default)s)")
        parser.add_argument("--bandwidth", type=_bandwidth, default="0", metavar="BITS", help="a second that the path "
                            "carries each way, such as 100M; 0: no limit (%(default)s)")
    if kind == "request":
        parser.add_argument("--requesters", type=within(1, 10_000), default=25, metavar="N",
                            help="requests that each member has under way (%(default)s)")
        parser.add_argument("--mode", choices=request.MODES, default="threads",
                            help="what sends the requests: threads, coroutines of asyncio or of uvloop, or one "
                            "thread of one member (%(default)s)")


def run(args: Namespace) -> int:
    """Measure. Returns 0: done, 1: messages had faults or the benchmark failed, 2: usage error."""
    def progress(text: str) -> None:
        if not args.quiet:
            complain(*text.split("\n"))
    try:
        figures = MEASURES[args.kind](args, progress)
    except ConfigError as error:
        complain(*reasons(error, "jgroups bench: "))
        return 2
    except BenchError as error:
        complain(*f"jgroups bench {args.kind}: {error}".split("\n"))
        return 1
    except KeyboardInterrupt:
        complain("jgroups bench: interrupted; all members were ended")
        return 130
    document = {"benchmark": args.kind, "parameters": _parameters(args), **figures}
    if args.json:
        print(json.dumps(document, indent=2))
    else:
        show(*as_lines(document))
    return 1 if document["faults"] else 0


def _parameters(args: Namespace) -> dict[str, Any]:
    """The parameters of the benchmark, with Python's version and the number of CPUs."""
    left_out = ("run", "json", "quiet", "kind", "properties")
    found = {name: value for name, value in vars(args).items() if name not in left_out}
    if getattr(args, "properties", None):
        found["properties"] = dict(args.properties)
    return {**found, "python": platform.python_version(), "cpus": os.cpu_count()}


def _loads(args: Namespace) -> list[Load]:
    """What is sent, in each of the ways that are asked for."""
    if args.piece or args.singly or args.kind in TWO_SITES:
        ways = [Way("as asked for", args.piece or PIECE, args.singly)]
    else:
        ways = [WAYS[name] for name in args.ways]
    return [Load(args.size, way, args.count, args.seconds, args.repeat) for way in ways]


Measure = Callable[[Namespace, Callable[[str], None]], dict[str, Any]]
MEASURES: dict[str, Measure] = {
    "multicast": lambda args, progress: multicast.multicast(
        args.stack, args.members, args.senders, _loads(args), dict(args.properties), progress, args.slow),
    "relay": lambda args, progress: multicast.relay(args.members, _loads(args)[0], progress),
    "wan": lambda args, progress: wan.wan(args.members, _loads(args)[0], _path(args), progress),
    "failover": lambda args, progress: wan.failover(
        args.members, args.how, _path(args), args.repeat, args.size, dict(args.properties), progress),
    "request": lambda args, progress: request.request(
        args.stack, args.members, args.requesters, args.mode, args.size, args.seconds, args.repeat,
        dict(args.properties), progress),
    "membership": lambda args, progress: membership.membership(
        args.stack, args.members, args.repeat, dict(args.properties), progress),
    "protocol-cost": lambda args, progress: cost.protocol_cost(args.stack, args.size, args.repeat, progress),
}


def _path(args: Namespace) -> wan.BridgePath:
    return wan.BridgePath(args.delay, args.bandwidth / 8, args.loss)


def _delay(text: str) -> float:
    """Seconds."""
    return float(_parsed(parse_duration, text) / NS_PER_S)


def _loss(text: str) -> float:
    return float(_parsed(parse_ratio, text))


def _bandwidth(text: str) -> float:
    """Bits a second; k, M and G are powers of 1000, as is usual for networks."""
    number, factor = text, 1
    if text[-1:].lower() in BIT_UNITS:
        number, factor = text[:-1], BIT_UNITS[text[-1:].lower()]
    try:
        return within(0.0, 1e15)(number) * factor
    except ValueError:
        raise ArgumentTypeError(f"{text!r} is no bandwidth; write for example 100M or 1G (bits a second)") from None


def _parsed(parse: Callable[[str], Any], text: str) -> Any:
    try:
        return parse(text)
    except ConfigError as error:
        raise ArgumentTypeError(str(error)) from None


def _ways(text: str) -> list[str]:
    ways = text.split(",")
    if unknown := [way for way in ways if way not in WAYS]:
        raise ArgumentTypeError(f"{', '.join(map(repr, unknown))}: a way is one of {', '.join(WAYS)}")
    return list(dict.fromkeys(ways))


def _size(text: str) -> int:
    return within(8, 100 << 20)(str(_parsed(parse_size, text)))
