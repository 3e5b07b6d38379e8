"""A node of ours: `jgroups mqtt serve` with a file of gmqtt's keys."""
from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import yaml

from jgroups_py.system.child_processes import end_with_parent
from jgroups_py.system.free_ports import free_range
from tests.gmqtt.gmqttd import HOST, statuses
from tests.integration.serf_agent import until


class OurNode:
    """A node of ours on free ports of loopback; `with` kills it."""

    def __init__(self, name: str, folder: Path, join: Sequence[int] = (), **more: object) -> None:
        """join: gossip ports of other nodes; more: further keys of the federation."""
        self.more = more
        self.name = name
        self.port, self.fed, self.gossip, self.rest = (free_range(host=HOST) for _ in range(4))
        self.folder = folder
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
        path = self.folder / f"{self.name}.yml"
        path.write_text(yaml.safe_dump(self.config()), encoding="utf-8")
        with self.log_path.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "jgroups_py", "mqtt", "serve", "-c", str(path)], stdin=subprocess.DEVNULL,
                stdout=log, stderr=subprocess.STDOUT, preexec_fn=end_with_parent)
        until(lambda: self.name in statuses(self.rest) or self.process is None or self.process.poll() is not None,
              f"{self.name} answers")
        assert self.process.poll() is None, self.log

    def config(self) -> dict[str, object]:
        """Its file."""
        place = f"{HOST}:{{}}".format
        return {
            "listeners": [{"address": place(self.port)}],
            "api": {"http": [{"address": f"tcp://{place(self.rest)}"}]},
            "mqtt": {"max_queued_messages": 100_000, "maximum_qos": 2},
            "plugins": {"federation": {
                "node_name": self.name, "fed_addr": place(self.fed), "gossip_addr": place(self.gossip),
                "retry_join": [place(port) for port in self._join], "retry_interval": "1s", **self.more}},
            "plugin_order": ["federation"], "log": {"level": "info", "format": "text"}}

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
