"""A node of ours in a process of its own: `python -m tests.gmqtt.our_node FACTS`, FACTS being JSON (see OurNode)."""
from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from random import Random
from secrets import randbits
from time import monotonic_ns, time
from types import TracebackType
from typing import Self

from jgroups_py.blocks.mqtt.broker.options import BrokerOptions
from jgroups_py.blocks.mqtt.broker.retained import RetainedTable
from jgroups_py.blocks.mqtt.gmqtt.grpc import GmqttFederation, GmqttPlaces
from jgroups_py.blocks.mqtt.gmqtt.link import GmqttLink
from jgroups_py.blocks.mqtt.gmqtt.options import GmqttOptions
from jgroups_py.blocks.mqtt.server.admin import AdminServer
from jgroups_py.blocks.mqtt.server.listen import ListenAddress
from jgroups_py.blocks.mqtt.server.rest import RestApi
from jgroups_py.blocks.mqtt.server.server import MqttServer
from jgroups_py.system.child_processes import end_with_parent
from tests.gmqtt.gmqttd import HOST, statuses
from tests.integration.serf_agent import free_port, until


class OurNode:
    """A node of ours on free ports of loopback; `with` kills it."""

    def __init__(self, name: str, folder: Path, join: Sequence[int] = ()) -> None:
        """join: gossip ports of other nodes."""
        self.name = name
        self.port, self.fed, self.gossip, self.rest = (free_port(HOST) for _ in range(4))
        self.log_path = folder / f"{name}.log"
        self.process: subprocess.Popen[bytes] | None = None
        self._join = list(join)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None,
    ) -> None:
        self.kill()

    def start(self) -> None:
        """Start it, again too; it takes connections when this returns."""
        facts = {"name": self.name, "port": self.port, "fed": self.fed, "gossip": self.gossip, "rest": self.rest,
                 "join": self._join}
        with self.log_path.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.gmqtt.our_node", json.dumps(facts)], stdin=subprocess.DEVNULL,
                stdout=log, stderr=subprocess.STDOUT, preexec_fn=end_with_parent)
        until(lambda: self.name in statuses(self.rest) or self.process is None or self.process.poll() is not None,
              f"{self.name} answers")
        assert self.process.poll() is None, self.log

    def kill(self) -> None:
        """As kill -9."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def stop(self) -> None:
        """As an operator stops it; it leaves."""
        assert self.process is not None, "it runs"
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(30) == 0, self.log
        self.process = None

    def status_of(self, name: str) -> str:
        """Of a member, as this node sees it; "" if it does not."""
        return statuses(self.rest).get(name, "")

    @property
    def log(self) -> str:
        """What it has logged so far."""
        return self.log_path.read_text(errors="replace") if self.log_path.exists() else ""


async def serve(facts: dict[str, object]) -> None:
    """Run until SIGTERM."""
    name = str(facts["name"])
    ports = {key: int(str(facts[key])) for key in ("port", "fed", "gossip", "rest")}
    retained = RetainedTable(100_000)
    link = GmqttLink(GmqttOptions(name=name), Random(randbits(64)), retained)
    server = MqttServer(BrokerOptions(node_name=name), [ListenAddress(HOST, ports["port"])], federation=link,
                        retained=retained)
    link.attach(server.broker)
    join = facts["join"]
    assert isinstance(join, list)
    places = GmqttPlaces(fed=(HOST, ports["fed"]), gossip=(HOST, ports["gossip"]),
                         join=tuple((HOST, port) for port in join))
    federation = GmqttFederation(link, places, server.settle)
    api = RestApi(server.broker, server.settle, federation, monotonic_ns, time)
    ended = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    async with server, federation, AdminServer(api, HOST, ports["rest"]):
        await ended.wait()


if __name__ == "__main__":
    logging.basicConfig(level=os.environ.get("LOG", "INFO"), format="%(asctime)s %(levelname)s %(name)s %(message)s")
    asyncio.run(serve(json.loads(sys.argv[1])))
