"""Claim: clients of a member's HTTP endpoint slow its messages by 5 % at most. `python -m benchmarks.http_load`.

A receiver with an endpoint, a sender, and clients of the endpoint, each in a process of its own. By turns, A B A:
without clients, and with 500 connections that have sent half a request, 16 followers of events that read nothing, and
50 scrapes of /metrics a second. Measured in each turn: messages of 100 B at a fixed rate (delay until the receiver has
them, CPU of the receiver's own thread, and the share of a processor of all other threads of its process), then as many
as go through. `--scrapes 1 --half-open 0 --followers 0 --without endpoint --most 1.01`: what an endpoint costs that is
scraped each second.

Exit 1 if /livez took more than 200 ms, or a median of the ratios B to A is worse than --most.
"""
from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import socket
import subprocess
import sys
import threading
import time
from argparse import ArgumentParser, Namespace
from array import array
from statistics import median
from typing import Any, Self

import jgroups_py as jg
from jgroups_py.ops.http import HttpEndpoint
from jgroups_py.system.free_ports import free_range

SIZE, STAMP_BYTES = 100, 8
SAMPLED = 8                                 # of so many messages the delay of one is kept
LIVEZ_MS = 200.0
HALF = b"GET /livez HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Half: "
REOPEN_SECONDS = 10.0                       # a half-open connection that was closed is opened again so seldom
SETTLE_SECONDS = 1.0


def say(**facts: Any) -> None:
    """A line for the process that asked."""
    print(json.dumps(facts), flush=True)


# --- the receiver and the sender --------------------------------------------------------------------------------------

class Delays:
    """What the receiver measures between `begin` and `end`."""

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Forget all."""
        self.count = 0
        self.delays_ms = array("d")
        self.first_ns = self.last_ns = 0
        self.first_cpu = self.last_cpu = self.first_process_cpu = self.last_process_cpu = 0.0

    def receive_batch(self, batch: jg.MessageBatch) -> None:
        """Messages, each with the time of its send."""
        now_ns = time.monotonic_ns()
        if not self.count:
            self.first_ns, self.first_cpu, self.first_process_cpu = now_ns, time.thread_time(), time.process_time()
        payloads = batch.payloads
        for payload in payloads[::SAMPLED]:
            self.delays_ms.append((now_ns - int.from_bytes(payload[:STAMP_BYTES], "big")) / 1e6)
        self.count += len(payloads)
        self.last_ns, self.last_cpu, self.last_process_cpu = now_ns, time.thread_time(), time.process_time()

    def end(self) -> dict[str, float]:
        """The figures. cpu_us_per_msg: of the thread that receives."""
        ordered = sorted(self.delays_ms)
        seconds, cpu = (self.last_ns - self.first_ns) / 1e9, self.last_cpu - self.first_cpu
        others = self.last_process_cpu - self.first_process_cpu - cpu
        return {"count": self.count, "msgs_per_s": self.count / seconds if seconds else 0.0,
                "cpu_us_per_msg": cpu / max(1, self.count) * 1e6,
                "other_threads": others / seconds if seconds else 0.0,
                "p50_ms": ordered[len(ordered) // 2] if ordered else 0.0,
                "p99_ms": ordered[len(ordered) * 99 // 100] if ordered else 0.0}


def receive(port: int) -> None:
    """The process with the endpoint; commands on stdin: endpoint on|off, begin, end."""
    delays = Delays()
    endpoint: HttpEndpoint | None = None
    with jg.JChannel("udp", "R", {"mcast_port": port}, delays) as channel:
        channel.connect("http-load")
        say(ready=True)
        for line in sys.stdin:
            match line.split():
                case ["endpoint", "on"]:
                    endpoint = endpoint or HttpEndpoint(channel, "0")
                    say(port=endpoint.port)
                case ["endpoint", "off"]:
                    if endpoint is not None:
                        endpoint.close()
                    endpoint = None
                    say(port=0)
                case ["begin"]:
                    delays.begin()
                    say(begun=True)
                case ["end"]:
                    say(**delays.end())


def send(port: int) -> None:
    """The process that sends; commands on stdin: pace RATE SECONDS, flood SECONDS."""
    rest = bytes(SIZE - STAMP_BYTES)

    def message() -> bytes:
        return time.monotonic_ns().to_bytes(STAMP_BYTES, "big") + rest
    with jg.JChannel("udp", "S", {"mcast_port": port}) as channel:
        channel.discard_own_messages = True
        channel.connect("http-load")
        channel.wait_for(members=2, timeout=60)
        say(ready=True)
        for line in sys.stdin:
            sent, began = 0, time.monotonic()
            match line.split():
                case ["pace", rate, seconds]:
                    while (passed := time.monotonic() - began) < float(seconds):
                        for _ in range(int(passed * float(rate)) - sent):
                            channel.send(None, message())
                            sent += 1
                        time.sleep(0.001)
                case ["flood", seconds]:
                    while time.monotonic() - began < float(seconds):
                        channel.send_batch(None, [message()] * 100)
                        sent += 100
            say(sent=sent)


# --- the clients ------------------------------------------------------------------------------------------------------

class Clients:
    """What they count."""

    def __init__(self, port: int, words: Namespace) -> None:
        self.port, self.words = port, words
        self.scrapes = self.failed = self.half_open = self.following = 0

    async def ask(self, path: str) -> bytes:
        """One request on a connection of its own."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            writer.write(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n".encode())
            return await reader.read()
        finally:
            writer.close()

    async def half(self) -> None:
        """A connection that never finishes its request."""
        while True:
            with contextlib.suppress(OSError):
                reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
                self.half_open += 1
                writer.write(HALF)
                await reader.read()
                writer.close()
            await asyncio.sleep(REOPEN_SECONDS)

    async def follow(self) -> None:
        """A follower that reads nothing."""
        while True:
            with contextlib.suppress(OSError):
                deaf = socket.socket()
                deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
                deaf.setblocking(False)
                loop = asyncio.get_running_loop()
                await loop.sock_connect(deaf, ("127.0.0.1", self.port))
                await loop.sock_sendall(deaf, b"GET /v1/live HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
                self.following += 1
                await asyncio.sleep(REOPEN_SECONDS)
                deaf.close()

    async def scrape(self) -> None:
        """Metrics, at this client's part of the rate."""
        while True:
            with contextlib.suppress(OSError):
                answer = await self.ask("/metrics")
                self.scrapes += answer.startswith(b"HTTP/1.1 200")
                self.failed += not answer.startswith(b"HTTP/1.1 200")
            await asyncio.sleep(1.0)

    async def run(self, stop: asyncio.Event) -> None:
        """All of them, until `stop`."""
        words = self.words
        tasks = [asyncio.create_task(work()) for number, work in (
            (words.half_open, self.half), (words.followers, self.follow), (words.scrapes, self.scrape))
            for _ in range(number)]
        await stop.wait()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def bother(words: Namespace) -> None:
    """The process of the clients; commands on stdin: start PORT, stop."""
    async def serve() -> None:
        loop, lines = asyncio.get_running_loop(), asyncio.Queue[str]()

        def read() -> None:
            for line in sys.stdin:
                loop.call_soon_threadsafe(lines.put_nowait, line)
        threading.Thread(target=read, daemon=True).start()
        say(ready=True)
        while True:
            clients, stop = Clients(int((await lines.get()).split()[1]), words), asyncio.Event()
            running = asyncio.create_task(clients.run(stop))
            say(started=True)
            await lines.get()
            stop.set()
            await running
            say(scrapes=clients.scrapes, failed=clients.failed, half_open=clients.half_open,
                followers=clients.following)
    asyncio.run(serve())


# --- the benchmark ----------------------------------------------------------------------------------------------------

class Part:
    """One of the processes."""

    def __init__(self, role: str, *words: object) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.http_load", "--role", role, *map(str, words)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.read()

    def read(self) -> dict[str, Any]:
        """Its next line."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"a process of the benchmark ended: {self.process.args}")
        found: dict[str, Any] = json.loads(line)
        return found

    def ask(self, command: str) -> dict[str, Any]:
        """A command and its answer."""
        assert self.process.stdin is not None
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()
        return self.read()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()


class Probe:
    """The probe of an orchestrator, from this process, which has nothing else to do; an answer that does not come, or
    is not 200, counts as for ever."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._over = threading.Event()
        self._times_ms: list[float] = []
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._over.wait(0.2):
            began, status = time.monotonic(), 0
            with contextlib.suppress(OSError, http.client.HTTPException):
                client = http.client.HTTPConnection("127.0.0.1", self._port, timeout=30)
                client.request("GET", "/livez")
                status = client.getresponse().status
                client.close()
            self._times_ms.append((time.monotonic() - began) * 1000 if status == 200 else float("inf"))

    def end(self) -> dict[str, float]:
        """Its figures."""
        self._over.set()
        self._thread.join()
        ordered = sorted(self._times_ms)
        return {"probes": len(ordered), "livez_p50_ms": round(ordered[len(ordered) // 2], 1),
                "livez_max_ms": round(ordered[-1], 1)}


def turn(receiver: Part, sender: Part, words: Namespace) -> dict[str, float]:
    """The figures of one turn; it ends when all that was sent is there."""
    found: dict[str, float] = {}
    for command, figures in (
            (f"pace {words.rate} {words.seconds}", ("p50_ms", "p99_ms", "cpu_us_per_msg", "other_threads")),
            (f"flood {words.seconds}", ("msgs_per_s",))):
        receiver.ask("begin")
        sent, got = sender.ask(command)["sent"], receiver.ask("end")
        until = time.monotonic() + 60
        while got["count"] < sent:
            if time.monotonic() > until:
                raise RuntimeError(f"{got['count']} of {sent} messages came")
            time.sleep(0.05)
            got = receiver.ask("end")
        found |= {name: got[name] for name in figures}
    return found


def measure(words: Namespace) -> dict[str, Any]:
    """Turns A B A, `rounds` times."""
    port = free_range()
    options = [f"--{name.replace('_', '-')}={getattr(words, name)}" for name in ("half_open", "followers", "scrapes")]
    rows: list[dict[str, dict[str, float]]] = []
    clients_saw: list[dict[str, Any]] = []
    with Part("receiver", f"--port={port}") as receiver, Part("sender", f"--port={port}") as sender, \
            Part("clients", *options) as clients:
        turn(receiver, sender, words)                        # warms up
        for _ in range(words.rounds):
            receiver.ask("endpoint off" if words.without == "endpoint" else "endpoint on")
            before = turn(receiver, sender, words)
            place = receiver.ask("endpoint on")["port"]
            probe = Probe(place)
            clients.ask(f"start {place}")
            time.sleep(SETTLE_SECONDS)
            loaded = turn(receiver, sender, words)
            clients_saw.append({**clients.ask("stop"), **probe.end()})
            receiver.ask("endpoint off" if words.without == "endpoint" else "endpoint on")
            time.sleep(SETTLE_SECONDS)
            after = turn(receiver, sender, words)
            rows.append({"without": {name: (before[name] + after[name]) / 2 for name in before}, "with": loaded})
    names = list(rows[0]["with"])
    return {"clients": clients_saw,
            **{side: {name: round(median(row[side][name] for row in rows), 3) for name in names}
               for side in ("without", "with")},
            "ratio": {name: round(median(row["with"][name] / row["without"][name] for row in rows), 3)
                      for name in names if name != "other_threads"}}


def main(words: list[str]) -> int:
    """The command."""
    parser = ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--half-open", type=int, default=500)
    parser.add_argument("--followers", type=int, default=16)
    parser.add_argument("--scrapes", type=int, default=50, help="a second")
    parser.add_argument("--without", choices=("clients", "endpoint"), default="clients", help="in the turns A")
    parser.add_argument("--rate", type=int, default=2000, help="of the messages whose delay is measured, a second")
    parser.add_argument("--seconds", type=float, default=3.0, help="of each half of a turn")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--most", type=float, default=1.05)
    parser.add_argument("--role", choices=("receiver", "sender", "clients"), help="for the processes of the benchmark")
    parser.add_argument("--port", type=int)
    args = parser.parse_args(words)
    if args.role is not None:
        {"receiver": lambda: receive(args.port), "sender": lambda: send(args.port),
         "clients": lambda: bother(args)}[args.role]()
        return 0
    found = measure(args)
    print(json.dumps(found, indent=1))
    ratio = found["ratio"]
    slow = [clients for clients in found["clients"] if clients["livez_max_ms"] > LIVEZ_MS]
    within = max(ratio["p99_ms"], ratio["cpu_us_per_msg"], 1 / ratio["msgs_per_s"]) <= args.most
    return 0 if within and not slow else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
