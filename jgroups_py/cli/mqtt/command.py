"""`jgroups mqtt`: options; each verb has a module."""
from __future__ import annotations

from argparse import ArgumentParser, Namespace
from importlib import import_module
from typing import Any

from jgroups_py.cli.argument_types import within
from jgroups_py.cli.mqtt import sidecar_arguments as sidecar
from jgroups_py.cli.mqtt.api import add_api_arguments
from jgroups_py.cli.showing import complain, reasons
from jgroups_py.model.errors import ConfigError

VERBS = {
    "serve": "run a broker until SIGTERM or SIGINT",
    "sidecar": "make the clients of a mosquitto part of a federation, until SIGTERM or SIGINT",
    "check": "check a broker's file",
    "members": "show the nodes of a running broker's federation",
    "peers": "show what a running broker has for each other node, and how far that has come",
    "clients": "show the sessions of a running broker; of one also its subscriptions",
    "where": "show at which node of a federation a client's session is, and which have copies of it",
    "retained": "show the retained messages of a running broker",
    "explain": "show where a message goes that is published at a running broker, and why",
    "bench": "measure what a message costs a broker, of any make",
    "password": "print a line for a password file; the password is read from stdin",
}


def add_parser(subparsers: Any) -> None:
    """Add `mqtt` to the command line."""
    parser = subparsers.add_parser("mqtt", help="run an MQTT broker, ask a running one", description=__doc__)
    verbs = parser.add_subparsers(metavar="VERB", required=True, dest="verb")
    made = {name: verbs.add_parser(name, help=text, description=text) for name, text in VERBS.items()}
    _serve_arguments(made["serve"])
    sidecar.add_arguments(made["sidecar"])
    made["check"].add_argument("file", help="the YAML file")
    _bench_arguments(made["bench"])
    for name in ("members", "peers", "clients", "where", "retained", "explain"):
        add_api_arguments(made[name])
    made["where"].add_argument("id", metavar="ID", help="the client id")
    made["clients"].add_argument("id", metavar="ID", nargs="?", help="one client id")
    made["retained"].add_argument("filter", metavar="FILTER", nargs="?", default="#", help="topic filter (default: #)")
    made["explain"].add_argument("topic", metavar="TOPIC", help="topic of the message")
    made["password"].add_argument("user", help="user name")
    parser.set_defaults(run=run)


def _serve_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("-c", "--config", metavar="FILE", help="YAML file with gmqtt's keys (docs/blocks/mqtt.md); "
                        "without it, one listener and the defaults")
    parser.add_argument("--host", metavar="HOST", help="address of the first listener; empty: all addresses")
    parser.add_argument("--port", metavar="PORT", type=within(0, 65_535),
                        help="port of the first listener; 0: a free one")
    parser.add_argument("--loop", choices=("auto", "uvloop", "asyncio"), default="auto",
                        help="event loop; auto: uvloop if it is installed")


def _bench_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--host", default="127.0.0.1", help="of the broker (default: %(default)s)")
    parser.add_argument("--port", type=within(1, 65_535), default=1883, help="of the broker (default: %(default)s)")
    parser.add_argument("--to", metavar="PORT", type=within(1, 65_535),
                        help="of another broker of the same federation: subscribers connect there")
    parser.add_argument("--pid", type=within(1, 1 << 22), action="append", default=[], dest="pids",
                        help="of the broker's process, to measure its processor time; may be given again")
    parser.add_argument("--pattern", choices=("batched", "fan-out", "single"), default="batched",
                        help="batched: many messages in a read; fan-out: the same with ten subscribers; single: 50 "
                             "clients, one message in a read (default: %(default)s)")
    parser.add_argument("--qos", type=within(0, 1), default=0, help="QoS (default: %(default)s)")
    parser.add_argument("--size", type=within(0, 1 << 20), default=100, help="bytes (default: %(default)s)")
    parser.add_argument("--messages", type=within(1, 100_000_000), default=100_000,
                        help="of a round (default: %(default)s)")
    parser.add_argument("--rounds", type=within(1, 1_000), default=3, help="how often (default: %(default)s)")


def run(args: Namespace) -> int:
    """Execute a verb; the exit code."""
    try:
        return int(import_module(f"jgroups_py.cli.mqtt.{args.verb}").run(args))
    except ConfigError as error:
        complain(*reasons(error))
        return 2
