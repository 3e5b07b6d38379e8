"""The services of a compose file as containers in network namespaces, joined by a bridge, with the file's names.

Each service has an address; each alias of a network, and each name of a service, has the addresses of all services that
have it, as the name server of a container engine answers. It reads of the file what deploy/compose.yaml uses: command,
networks with aliases.
"""
from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import yaml

from tests.deploy.image import Builder, run

NET, MASK = "10.89.77", 24
LEAVING_SECONDS = 60.0


class Topology:
    """Running services; all of them end with it, and so do their namespaces."""

    def __init__(self, builder: Builder, compose: Path, folder: Path) -> None:
        self.builder = builder
        self.services: dict[str, dict[str, Any]] = yaml.safe_load(compose.read_text())["services"]
        self.places = {name: f"{NET}.{10 + at}" for at, name in enumerate(self.services)}
        self.hosts = folder / "hosts"
        self.folder = folder
        self.tag = f"jg{os.getpid() % 10000}"
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.containers: dict[str, str] = {}

    def __enter__(self) -> Topology:
        names = [(place, name) for name, place in self.places.items()]
        for name, service in self.services.items():
            for network in service["networks"].values():
                names += [(self.places[name], alias) for alias in network["aliases"]]
        self.hosts.write_text("127.0.0.1 localhost\n" + "".join(f"{place} {name}\n" for place, name in names))
        run("ip", "netns", "add", f"{self.tag}-net")
        self.within("net", "ip", "link", "add", "br0", "type", "bridge")
        self.within("net", "ip", "link", "set", "br0", "up")
        for at, (name, place) in enumerate(self.places.items()):
            run("ip", "netns", "add", f"{self.tag}-{name}")
            self.within("net", "ip", "link", "add", f"p{at}", "type", "veth", "peer", "name", "eth0", "netns",
                        f"{self.tag}-{name}")
            self.within("net", "ip", "link", "set", f"p{at}", "master", "br0", "up")
            self.within(name, "ip", "addr", "add", f"{place}/{MASK}", "dev", "eth0")
            self.within(name, "ip", "link", "set", "eth0", "up")
            self.within(name, "ip", "link", "set", "lo", "up")
            self.containers[name] = self.builder.container()
        return self

    def __exit__(self, *_: object) -> None:
        for name in list(self.processes):
            self.kill(name)
        for name in (*self.places, "net"):
            with contextlib.suppress(AssertionError):
                run("ip", "netns", "del", f"{self.tag}-{name}")

    def within(self, name: str, *words: str) -> str:
        """Output of a command in the network of a service."""
        return run("ip", "netns", "exec", f"{self.tag}-{name}", *words, seconds=60.0)

    def start(self, name: str) -> None:
        """Start a service, by its command in the file."""
        words = ["jgroups", *self.services[name]["command"], "--name", name]
        command = self.builder.command(self.containers[name], words, [f"{self.hosts}:/etc/hosts:ro"])
        with (self.folder / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(
                ["ip", "netns", "exec", f"{self.tag}-{name}", *command], stdout=log, stderr=log,
                stdin=subprocess.DEVNULL, start_new_session=True)

    def ids(self, name: str) -> list[int]:
        """The processes of the member itself, in its network."""
        found = run("ip", "netns", "pids", f"{self.tag}-{name}").split()
        return [pid for pid in map(int, found) if b"/opt/jgroups/bin" in Path(f"/proc/{pid}/cmdline").read_bytes()
                and b"buildah" not in Path(f"/proc/{pid}/cmdline").read_bytes()]

    def kill(self, name: str, number: int = signal.SIGKILL) -> int:
        """Send the member a signal and wait until its container has ended; the exit code."""
        for pid in self.ids(name):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        process = self.processes.pop(name)
        try:
            return process.wait(LEAVING_SECONDS)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)

    def ask(self, name: str, path: str) -> Any:
        """A document of a member's HTTP endpoint, None while it does not answer."""
        code = f"import urllib.request as r; print(r.urlopen('http://127.0.0.1:7580{path}', timeout=3).read().decode())"
        try:
            return json.loads(self.within(name, "python3", "-c", code))
        except AssertionError:
            return None

    def wait(self, name: str, path: str, holds: Any, seconds: float = 60.0) -> Any:
        """The document once `holds` is true of it."""
        until = monotonic() + seconds
        while True:
            found = self.ask(name, path)
            if found is not None and holds(found):
                return found
            assert monotonic() < until, f"{name}{path}: {found}\n{(self.folder / f'{name}.log').read_text()[-3000:]}"
            sleep(0.3)
