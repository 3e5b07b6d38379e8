"""`jgroups mqtt serve`: a broker as a process."""
from __future__ import annotations

import asyncio
import gc
import json
import logging
import signal
import socket
import sys
from argparse import Namespace
from collections.abc import Callable
from importlib.util import find_spec

import attrs

from jgroups_py.blocks.mqtt.broker.options import BrokerOptions
from jgroups_py.blocks.mqtt.node import BrokerNode
from jgroups_py.blocks.mqtt.server.config import BrokerFile
from jgroups_py.blocks.mqtt.server.listen import ListenAddress
from jgroups_py.blocks.mqtt.server.listeners import raise_descriptor_limit
from jgroups_py.cli.control_client import CLAIM_FAILED
from jgroups_py.cli.mqtt.files import authorizer, broker_file
from jgroups_py.cli.showing import complain
from jgroups_py.model.errors import ConfigError

log = logging.getLogger(__name__)
COLLECT_AFTER = 20_000
"""New objects between two runs of Python's garbage collector."""
LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warn": logging.WARNING, "warning": logging.WARNING,
          "error": logging.ERROR}


def run(args: Namespace) -> int:
    """Serve until a signal comes. Raises ConfigError."""
    found, warnings = (BrokerFile(), []) if args.config is None else broker_file(args.config)
    _log_to_stderr(found.log.level, found.log.format)
    for warning in warnings:
        log.warning("%s", warning)
    options = _within_descriptors(found.broker_options(socket.gethostname()))

    def make() -> BrokerNode:
        return BrokerNode(found, options, _listeners(found, args), authorizer(found.auth))
    with asyncio.Runner(loop_factory=loop_factory(args.loop)) as runner:
        return runner.run(_serve(make))


def _within_descriptors(options: BrokerOptions) -> BrokerOptions:
    """Not more clients than the process may have sockets."""
    possible = raise_descriptor_limit(options.max_clients)
    if possible >= options.max_clients:
        return options
    log.info("at most %d clients, not %d: the process may not open more files (ulimit -n)", possible,
             options.max_clients)
    return attrs.evolve(options, max_clients=possible)


def loop_factory(wanted: str) -> Callable[[], asyncio.AbstractEventLoop] | None:
    """None: asyncio's own."""
    if wanted == "asyncio" or (wanted == "auto" and find_spec("uvloop") is None):
        return None
    try:
        import uvloop
    except ImportError:
        raise ConfigError("--loop uvloop: it is not installed; pip install 'jgroups_py[mqtt]'") from None
    return uvloop.new_event_loop


def _listeners(found: BrokerFile, args: Namespace) -> list[ListenAddress]:
    """Those of the file; the options change the first."""
    first, *others = found.addresses() if args.config is not None else [ListenAddress()]
    if args.host is not None:
        first = attrs.evolve(first, host=args.host)
    if args.port is not None:
        first = attrs.evolve(first, port=args.port)
    return [first, *others]


async def _serve(make: Callable[[], BrokerNode]) -> int:
    """The exit code: 0 after a signal, 1 if the node could not go on."""
    loop = asyncio.get_running_loop()
    node = make()

    def end() -> None:
        if not node.ended.done():
            node.ended.set_result("")
    for each in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(each, end)
    async with node:
        _collect_rarely()
        for address in node.listening:
            print(f"listening at {address}", flush=True)
        reason = await node.ended
    if reason:
        complain(f"jgroups mqtt: {reason}")
    else:
        print("stopped", flush=True)
    return CLAIM_FAILED if reason else 0


def _collect_rarely() -> None:
    """Messages on their way are many objects and no cycles, but Python's garbage collector would look at all of them
    again and again: a tenth of the processor time of a busy broker. Cycles are collected, after more objects."""
    gc.collect()
    gc.freeze()                                          # what is here now stays
    gc.set_threshold(COLLECT_AFTER, *gc.get_threshold()[1:])


def _log_to_stderr(level: str, format: str) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_JsonFormatter() if format == "json" else
                         logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    logging.basicConfig(level=LEVELS[level], handlers=[handler])


class _JsonFormatter(logging.Formatter):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        found = {"time": self.formatTime(record), "level": record.levelname.lower(), "message": record.getMessage()}
        if record.exc_info:
            found["error"] = self.formatException(record.exc_info)
        return json.dumps(found)
