"""`jgroups mqtt serve`: a broker as a process."""
from __future__ import annotations

import asyncio
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
from jgroups_py.blocks.mqtt.server.config import BrokerFile
from jgroups_py.blocks.mqtt.server.listen import ListenAddress
from jgroups_py.blocks.mqtt.server.listeners import raise_descriptor_limit
from jgroups_py.blocks.mqtt.server.server import MqttServer
from jgroups_py.cli.mqtt.files import authorizer, broker_file
from jgroups_py.model.errors import ConfigError

log = logging.getLogger(__name__)
LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warn": logging.WARNING, "warning": logging.WARNING,
          "error": logging.ERROR}


def run(args: Namespace) -> int:
    """Serve until a signal comes. Raises ConfigError."""
    found, warnings = (BrokerFile(), []) if args.config is None else broker_file(args.config)
    _log_to_stderr(found.log.level, found.log.format)
    for warning in warnings:
        log.warning("%s", warning)
    if found.federation is not None:
        log.warning("plugins.federation: this broker serves its own clients alone")
    options = _within_descriptors(found.broker_options(socket.gethostname()))
    server = MqttServer(options, _listeners(found, args), authorizer=authorizer(found.auth))
    with asyncio.Runner(loop_factory=_loop_factory(args.loop)) as runner:
        runner.run(_serve(server))
    return 0


def _within_descriptors(options: BrokerOptions) -> BrokerOptions:
    """Not more clients than the process may have sockets."""
    possible = raise_descriptor_limit(options.max_clients)
    if possible >= options.max_clients:
        return options
    log.info("at most %d clients, not %d: the process may not open more files (ulimit -n)", possible,
             options.max_clients)
    return attrs.evolve(options, max_clients=possible)


def _loop_factory(wanted: str) -> Callable[[], asyncio.AbstractEventLoop] | None:
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


async def _serve(server: MqttServer) -> None:
    loop = asyncio.get_running_loop()
    wanted = asyncio.Event()
    for each in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(each, wanted.set)
    async with server:
        for address in server.addresses:
            print(f"listening at {address}", flush=True)
        await wanted.wait()
    print("stopped", flush=True)


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
