"""The stores: three processes each, on loopback, with their files in a folder; each is ended by its id."""
from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import ClassVar

import grpc

from benchmarks.coordination_peers.clients import ETCD, KINDS, Locks
from benchmarks.coordination_peers.member import FOUNDERS
from jgroups_py.system.free_ports import free_ports, free_range

ROOT = Path(__file__).parents[2]
START_S = 60.0
ZOOKEEPER_JAR = Path("/usr/share/java/zookeeper.jar")
HEAP = "256m"
TICK_MS = 2000                             # ZooKeeper's own; a session lives for two of them at least


class Missing(Exception):
    """A program that a peer needs is not there; the text says how to get it."""


class Store:
    """Three servers. disk: how its files are kept; "" if there are none."""

    kind: ClassVar[str]

    def __init__(self, folder: Path, disk: str, ttl_s: float) -> None:
        self.folder, self.disk, self.ttl_s = folder, disk, ttl_s
        self.servers: list[subprocess.Popen[str]] = []

    @property
    def label(self) -> str:
        """Of its row."""
        return f"{self.kind}, {self.disk}"

    @property
    def place(self) -> str:
        """Where its clients find it."""
        raise NotImplementedError

    def start(self) -> None:
        """Start the servers, and wait until they serve."""
        raise NotImplementedError

    def client(self) -> Locks:
        """A client in this process."""
        return KINDS[self.kind](self.place, self.ttl_s)

    def holder(self, name: str) -> subprocess.Popen[str]:
        """A process that takes a lock, and says so."""
        return subprocess.Popen(
            [sys.executable, "-m", "benchmarks.coordination_peers.member", "holder", self.kind, self.place,
             str(self.ttl_s), name], cwd=ROOT, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def cpu_s(self) -> float:
        """Processor seconds of the servers so far."""
        ticks = 0
        for server in self.servers:
            words = Path(f"/proc/{server.pid}/stat").read_text().rpartition(")")[2].split()
            ticks += int(words[11]) + int(words[12])         # fields 14 and 15 of proc(5)
        return ticks / os.sysconf("SC_CLK_TCK")

    def close(self) -> None:
        """End the servers."""
        for server in self.servers:
            server.kill()
            server.communicate()


class OurStore(Store):
    """Three members of a group; nothing is written."""

    kind = "jgroups_py"

    def __init__(self, ttl_s: float, expire: str) -> None:
        super().__init__(Path(), "", ttl_s)
        self.expire = expire
        self.mcast_port = free_range()
        self.cluster = f"peers-{os.getpid()}-{self.mcast_port}"

    @property
    def label(self) -> str:
        """See Store."""
        return f"{self.kind}, in memory, expire={self.expire}"

    @property
    def place(self) -> str:
        """See Store."""
        return f"{self.cluster} {self.mcast_port} {self.expire}"

    def start(self) -> None:
        """See Store."""
        self.servers = [subprocess.Popen(
            [sys.executable, "-m", "benchmarks.coordination_peers.member", "server", name, self.cluster,
             str(self.mcast_port), str(self.ttl_s), self.expire],
            cwd=ROOT, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE) for name in FOUNDERS]
        for server in self.servers:
            hear(server, "ready")


class LedStore(Store):
    """One with a leader, which its clients use: the shortest way. clients: the ports for these."""

    def __init__(self, folder: Path, disk: str, ttl_s: float) -> None:
        super().__init__(folder, disk, ttl_s)
        self.clients: list[int] = []
        self._place = ""

    @property
    def place(self) -> str:
        """See Store."""
        return self._place

    def await_leader(self) -> None:
        """Until there is one: its `place`."""
        ends = time.monotonic() + START_S
        while time.monotonic() < ends:
            for port in self.clients:
                if self.leads(port):
                    self._place = f"127.0.0.1:{port}"
                    return
            time.sleep(0.1)
        raise RuntimeError(f"{self.kind} has no leader after {START_S:g} s; its output is in {self.folder}")

    def leads(self, port: int) -> bool:
        """Whether the server with this port for clients answers, as the leader."""
        raise NotImplementedError


class EtcdStore(LedStore):
    """etcd, with the defaults for heartbeats and elections."""

    kind = "etcd"

    def start(self) -> None:
        """See Store."""
        if shutil.which("etcd") is None:
            raise Missing("there is no etcd (Debian: apt-get install etcd-server)")
        ports = free_ports(6)
        self.clients, peers = ports[:3], ports[3:]
        cluster = ",".join(f"{name}=http://127.0.0.1:{port}" for name, port in zip(FOUNDERS, peers, strict=True))
        for name, port, peer in zip(FOUNDERS, self.clients, peers, strict=True):
            own, its = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{peer}"
            self.servers.append(quiet([
                "etcd", "--name", name, "--data-dir", str(self.folder / name), "--listen-client-urls", own,
                "--advertise-client-urls", own, "--listen-peer-urls", its, "--initial-advertise-peer-urls", its,
                "--initial-cluster", cluster, "--initial-cluster-token", str(self.folder), "--logger", "zap",
                "--log-level", "error"], self.folder / f"{name}.log"))
        self.await_leader()

    def leads(self, port: int) -> bool:
        """See LedStore."""
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            ask = channel.unary_unary("/etcdserverpb.Maintenance/Status",
                                      request_serializer=ETCD["Nothing"].SerializeToString,
                                      response_deserializer=ETCD["Status"].FromString)
            try:
                status = ask(ETCD["Nothing"](), timeout=2)
            except grpc.RpcError:
                return False
        return bool(status.leader and status.leader == status.header.member_id)


class ZooKeeperStore(LedStore):
    """ZooKeeper; the snapshots and the log of transactions are in one folder, the log is forced to it."""

    kind = "zookeeper"

    def start(self) -> None:
        """See Store."""
        if shutil.which("java") is None or not ZOOKEEPER_JAR.exists():
            raise Missing(f"there is no Java or no {ZOOKEEPER_JAR} (Debian: apt-get install zookeeper)")
        ports = free_ports(9)
        self.clients = ports[:3]
        members = "".join(f"server.{at + 1}=127.0.0.1:{ports[3 + at]}:{ports[6 + at]}\n" for at in range(3))
        for at, port in enumerate(self.clients):
            data = self.folder / str(at + 1)
            data.mkdir(parents=True)
            (data / "myid").write_text(f"{at + 1}\n")
            config = self.folder / f"{at + 1}.cfg"
            config.write_text(f"tickTime={TICK_MS}\ninitLimit=10\nsyncLimit=5\ndataDir={data}\nclientPort={port}\n"
                              f"clientPortAddress=127.0.0.1\nadmin.enableServer=false\n"
                              f"4lw.commands.whitelist=srvr\nmaxClientCnxns=0\n{members}")
            self.servers.append(quiet([
                "java", f"-Xms{HEAP}", f"-Xmx{HEAP}", "-cp", str(ZOOKEEPER_JAR),
                "org.apache.zookeeper.server.quorum.QuorumPeerMain", str(config)], self.folder / f"{at + 1}.log"))
        self.await_leader()

    def leads(self, port: int) -> bool:
        """See LedStore."""
        try:
            with socket.create_connection(("127.0.0.1", port), 2) as connection:
                connection.sendall(b"srvr")
                return b"Mode: leader" in connection.makefile("rb").read()
        except OSError:
            return False


def quiet(command: list[str], log: Path) -> subprocess.Popen[str]:
    """A server whose output goes into a file."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("w") as output:
        return subprocess.Popen(command, text=True, stdin=subprocess.DEVNULL, stdout=output, stderr=output)


def hear(process: subprocess.Popen[str], word: str) -> None:
    """Wait for a line of a process of ours."""
    assert process.stdout is not None, "a pipe"
    line = process.stdout.readline()
    if line.strip() != word:
        raise RuntimeError(f"{word!r} was expected of process {process.pid}, not {line!r}")
