"""`jgroups doctor`: what keeps members of a stack apart, or slows them, and what to do about it.

Alone it examines this host: addresses, ports, whether multicasts come back, buffers, the places of initial_hosts, the
hold's folder. With --listen on one host and --peer HOST on another one it tries what passes between the two: TCP,
datagrams of growing sizes, multicasts in both directions, clocks. With --control it also asks a running member for two
members of one name. Exit 0: nothing bad was found, 1: something was, 2: wrong use.
"""
from __future__ import annotations

import json
import os
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections import Counter
from collections.abc import Iterator
from typing import Any

import attrs

from jgroups_py.cli.argument_types import within
from jgroups_py.cli.environment import properties_of
from jgroups_py.cli.showing import complain, reasons, show
from jgroups_py.cli.stack_file import add_stack_arguments
from jgroups_py.config.load import load
from jgroups_py.config.spec import StackSpec
from jgroups_py.model.errors import ChannelError, ConfigError
from jgroups_py.ops.control import ANSWER_SLACK_SECONDS, ask
from jgroups_py.ops.doctor import host, pair
from jgroups_py.ops.doctor.finding import BAD, OK, WARN, Diagnosis

LISTEN_SECONDS = 600.0


def add_parser(subparsers: Any) -> None:
    """Add `doctor` to the command line."""
    parser: ArgumentParser = subparsers.add_parser(
        "doctor", help="find what keeps members apart", description=__doc__,
        formatter_class=RawDescriptionHelpFormatter)
    add_stack_arguments(parser)
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--listen", action="store_true", help="answer the doctor of one other host, then end")
    which.add_argument("--peer", metavar="HOST", help="the host where `jgroups doctor STACK --listen` runs")
    parser.add_argument("--port", type=within(1, 65535), default=pair.PORT, help="of --listen and --peer (%(default)s)")
    parser.add_argument("--timeout", type=within(1.0, 86_400.0), default=LISTEN_SECONDS, metavar="SECONDS",
                        help="how long to listen (%(default)g)")
    parser.add_argument("--control", metavar="PATH", help="the control socket of a running member, to be asked too")
    parser.add_argument("--json", action="store_true", help="print the findings as one JSON document")
    parser.set_defaults(run=run)


def run(args: Namespace) -> int:
    """Examine and report."""
    try:
        spec = load(args.stack, properties_of(os.environ, dict(args.properties)))
    except ConfigError as error:
        complain(*reasons(error, "jgroups doctor: "))
        return 1
    if not hasattr(spec.layers[0].config, "bind_addr"):
        complain(f"jgroups doctor: {spec.layers[0].name} has no bind_addr")
        return 2
    if args.listen:
        return _listen(spec, args)
    found = list(_findings(spec, args))
    if args.json:
        print(json.dumps({"ok": all(each.level != BAD for each in found), "findings": list(map(attrs.asdict, found))},
                         indent=2))
    else:
        for each in found:
            show(f"{each.level:<5}{each.check:<14}{each.what}")
            if each.remedy:
                show(f"{'':<19}-> {each.remedy}")
        number = sum(each.level == BAD for each in found)
        show(f"{number} bad, {sum(each.level == WARN for each in found)} to be looked at")
    return int(any(each.level == BAD for each in found))


def _findings(spec: StackSpec, args: Namespace) -> Iterator[Diagnosis]:
    for warning in spec.warnings:
        yield Diagnosis(WARN, "stack", warning)
    yield from host.examined(spec)
    if args.control:
        yield _names(args.control)
    if args.peer:
        try:
            yield from pair.examined(spec, args.peer, args.port)
        except (ConfigError, OSError) as error:
            yield Diagnosis(BAD, "peer", str(error))


def _names(path: str) -> Diagnosis:
    """Whether two members of the group have one name: logs and orders by name mean either."""
    try:
        answer = ask(path, {"command": "members"}, ANSWER_SLACK_SECONDS)
    except ChannelError as error:
        return Diagnosis(BAD, "member", str(error))
    if not answer["ok"]:
        return Diagnosis(BAD, "member", answer["error"])
    twice = [name for name, number in Counter(member["name"] for member in answer["members"]).items() if number > 1]
    if twice:
        return Diagnosis(BAD, "names", f"{answer['cluster']} has several members named {', '.join(twice)}",
                       "give each a --name of its own")
    return Diagnosis(OK, "names", f"{answer['member']} sees {len(answer['members'])} members, no name twice")


def _listen(spec: StackSpec, args: Namespace) -> int:
    try:
        show(f"listening; on the other host: jgroups doctor {args.stack} ... --peer "
             f"{host.bound_host(spec.layers[0].config)} --port {args.port}")
        show(f"{pair.listen(spec, args.port, args.timeout)} has asked")
    except (ConfigError, ChannelError, OSError) as error:
        complain(f"jgroups doctor: {error}")
        return 1
    except KeyboardInterrupt:
        return 130
    return 0
