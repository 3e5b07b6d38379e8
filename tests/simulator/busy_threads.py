"""An application of threads that uses executors, chance, clocks, requests and a dict: for Z1."""
from __future__ import annotations

import concurrent.futures
import queue
import random
import secrets
import threading
import time
import uuid
from random import Random

import jgroups_py as jg
from jgroups_py.blocks.dicts.replicated import ReplicatedDict
from jgroups_py.blocks.rpc.sync import Rpc
from jgroups_py.testing.simulation import Trial


class Busy:
    """What one member holds."""

    def __init__(self, ch: jg.JChannel) -> None:
        self.ch = ch
        self.rpc = Rpc(ch, self.answer)
        self.dict = ReplicatedDict(ch, "d", str, bytes)
        self.heard: queue.Queue[bytes] = queue.Queue()
        self.total = 0
        ch.on_message(lambda message: self.heard.put(message.payload))
        ch.connect("x")
        for work in (self.beat, self.count):
            threading.Thread(target=work, daemon=True).start()

    def answer(self, request: object) -> bytes:
        """Answers after a while."""
        time.sleep(random.uniform(0, 0.01))
        return uuid.uuid4().bytes

    def beat(self) -> None:
        """Sends now and then."""
        while True:
            time.sleep(random.uniform(0.05, 0.2))
            self.ch.send(b"%.3f" % time.monotonic() + secrets.token_bytes(2))

    def count(self) -> None:
        """Reads what was heard; the others see a total that is late."""
        while True:
            total = self.total
            total += len(self.heard.get())
            self.total = total

    def act(self, rng: Random) -> None:
        """One operation of everything."""
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            asked = [pool.submit(self.rpc.request, member, b"?", timeout=1) for member in self.ch.members * 2]
            done, _ = concurrent.futures.wait(asked)
            found = b" ".join(sorted(future.result() for future in done if not future.exception()))
            first = next(concurrent.futures.as_completed([pool.submit(time.sleep, rng.random()) for _ in range(3)]))
            assert first.done()
        self.dict.put(threading.current_thread().name, b"%d %s" % (self.total, found))


def run(seed: int) -> str:
    """The digest of a run."""
    return Trial("dict", Busy, Busy.act, sends_for_ever=True, threads=True).run(seed).digest
