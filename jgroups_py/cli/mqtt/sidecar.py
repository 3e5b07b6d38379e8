"""`jgroups mqtt sidecar`: makes the clients of an unmodified mosquitto part of a federation."""
from __future__ import annotations

import asyncio
import logging
import signal
import ssl
import sys
from argparse import Namespace
from random import Random
from secrets import randbits
from time import monotonic_ns, time_ns

from jgroups_py.blocks.mqtt.broker.options import BrokerOptions
from jgroups_py.blocks.mqtt.codec.text import topic_filter_fault
from jgroups_py.blocks.mqtt.federation.core import FederationCore
from jgroups_py.blocks.mqtt.federation.options import FederationOptions
from jgroups_py.blocks.mqtt.mosquitto.link import MosquittoLink
from jgroups_py.blocks.mqtt.mosquitto.options import MosquittoOptions
from jgroups_py.blocks.mqtt.mosquitto.retained import WatchedRetained
from jgroups_py.blocks.mqtt.mosquitto.sidecar import MosquittoSidecar
from jgroups_py.blocks.mqtt.node.group import GroupFederation
from jgroups_py.blocks.mqtt.server.server import MqttServer
from jgroups_py.cli.mqtt.serve import loop_factory
from jgroups_py.config.load import load
from jgroups_py.model.errors import ConfigError

MAX_FILTERS = 1_000_000
MAX_PASSWORD_BYTES = 65_535


def run(args: Namespace) -> int:
    """Run until a signal comes, or the link can do no more. Raises ConfigError."""
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(levelname)s %(message)s")
    for each in args.filters:
        fault = topic_filter_fault(each)
        if fault:
            raise ConfigError(f"--filter: {fault}")
    options = MosquittoOptions(
        name=args.name, client_id=args.client_id, username=args.user, password=_password(args.password_file),
        filters=tuple(args.filters))
    tls = _tls(args.tls_ca)
    with asyncio.Runner(loop_factory=loop_factory(args.loop)) as runner:
        runner.run(_serve(args, options, tls))
    return 0


async def _serve(args: Namespace, options: MosquittoOptions, tls: ssl.SSLContext | None) -> None:
    broker = BrokerOptions(node_name=options.name, sys_interval_s=0, max_subscriptions=MAX_FILTERS, queue_qos_0=False)
    retained = WatchedRetained(broker.max_retained)
    core = FederationCore(FederationOptions(name=options.name), Random(randbits(64)), now_ns=monotonic_ns(),
                          wall_offset_ns=time_ns() - monotonic_ns())
    server = MqttServer(broker, [], federation=core, retained=retained)
    core.attach(server.broker)
    link = MosquittoLink(options, server.broker, core.interest_of_peers, Random(randbits(64)), monotonic_ns())
    retained.changed = link.retained_changed
    host, port = args.broker
    ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    def end(why: str) -> None:
        if not ended.done():
            ended.set_result(why)
    for each in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(each, end, "")
    spec = load(args.stack, dict(args.properties))
    async with GroupFederation(core, spec, args.cluster, server.settle, end), server:
        sidecar = MosquittoSidecar(link, server, host, port, tls)
        sidecar.linked = lambda: print(f"linked to mosquitto at {sidecar.place}", flush=True)
        print(f"{options.name} is in {args.cluster}", flush=True)
        async with sidecar:
            await asyncio.wait((ended, sidecar.failed), return_when=asyncio.FIRST_COMPLETED)
            if sidecar.failed.done():
                end(f"{sidecar.place}: {sidecar.failed.result()}")
    if ended.result():
        raise ConfigError(ended.result())
    print("stopped", flush=True)


def _password(path: str | None) -> bytes | None:
    if path is None:
        return None
    try:
        with open(path, "rb") as file:
            return file.readline(MAX_PASSWORD_BYTES).rstrip(b"\r\n")
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from None


def _tls(path: str | None) -> ssl.SSLContext | None:
    if path is None:
        return None
    try:
        return ssl.create_default_context(cafile=path)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(f"{path}: {error}") from None
