"""A lone request of 100 B between two processes over three stacks by turns: unsealed, sealed, and unsealed with the
cipher alone. What the last one costs beside the first one is the least that sealing can cost here: each frame sent and
each one received also takes a call of AES-256-GCM, whose result is not used. Used by benchmarks.sealed.

A cipher that is used a few thousand times a second, with other work between, finds caches cold: a call takes several
times what it takes in a loop. So the floor is measured among the requests, not in a loop.
"""
from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from time import monotonic, perf_counter_ns, sleep
from typing import Any

import jgroups_py as jg
from jgroups_py.blocks.rpc import Rpc
from jgroups_py.protocols.transport.protocol import Transport
from jgroups_py.sealing.primitives import KEY_BYTES, NONCE_BYTES, Cipher
from jgroups_py.system.free_ports import free_range
from jgroups_py.wire import cluster_id
from jgroups_py.wire.sealed_head import HEAD_BYTES

PLAIN, CIPHER, SEALED = KINDS = ("unsealed", "cipher", "sealed")
BYTES = 100
TURN = 50                                # requests over one stack, then over the next one
FRAME_BYTES = 170                        # of what is sealed in a request


def with_cipher() -> None:
    """From now on the members of the group CIPHER of this process also seal for each frame sent, and open for each one
    received, and use neither."""
    cipher, nonce, head, text = Cipher(bytes(KEY_BYTES)), bytes(NONCE_BYTES), bytes(HEAD_BYTES), bytes(FRAME_BYTES)
    sealed, of_group = cipher.seal(nonce, text, head), cluster_id(CIPHER)
    transmit, decoded = Transport.transmit, Transport.decoded

    def transmit_too(self: Transport, batch: Any) -> bool:
        if self.cluster == of_group:
            cipher.seal(nonce, text, head)
        return transmit(self, batch)

    def decoded_too(self: Transport, data: bytes, physical: Any) -> Any:
        if self.cluster == of_group:
            cipher.open(nonce, sealed, head)
        return decoded(self, data, physical)
    Transport.transmit, Transport.decoded = transmit_too, decoded_too      # type: ignore[method-assign]


@contextmanager
def members(name: str, keyring: str, ports: dict[str, int]) -> Iterator[dict[str, tuple[jg.JChannel, Rpc]]]:
    """A member of each group, which answers with what it is asked."""
    with_cipher()
    with ExitStack() as opened:
        made = {}
        for kind in KINDS:
            properties = {"mcast_port": ports[kind], **({"keyring": keyring} if kind == SEALED else {})}
            channel = opened.enter_context(jg.JChannel("sealed" if kind == SEALED else "udp", name, properties))
            made[kind] = channel, Rpc(channel, lambda request: request.payload)
            channel.connect(kind)
        yield made


def round_trips_us(keyring: Path, seconds: float) -> dict[str, float]:
    """The median of a lone request's round trip over each of KINDS, in us. seconds: for all of them."""
    ports = {kind: free_range() for kind in KINDS}
    other = subprocess.Popen([sys.executable, "-m", "benchmarks.lone_request", str(keyring),
                              *(str(ports[kind]) for kind in KINDS)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    with ExitStack() as opened:
        opened.callback(other.wait)
        opened.callback(other.kill)
        assert other.stdout is not None
        assert other.stdout.readline() == b"ready\n", "the other process ended"
        mine = opened.enter_context(members("A", str(keyring), ports))
        until = monotonic() + 60
        while not all(channel.view is not None and len(channel.view) == 2 for channel, _ in mine.values()):
            assert monotonic() < until, "the groups did not form"
            sleep(0.01)
        return asked(mine, seconds)


def asked(mine: dict[str, tuple[jg.JChannel, Rpc]], seconds: float) -> dict[str, float]:
    """The medians of `round_trips_us`."""
    took: dict[str, list[int]] = {kind: [] for kind in KINDS}
    payload, ends = bytes(BYTES), monotonic() + seconds
    while monotonic() < ends:
        for kind, (channel, rpc) in mine.items():
            assert channel.view is not None
            dest = next(member for member in channel.view.members if member != channel.address)
            for at in range(TURN):
                began_ns = perf_counter_ns()
                rpc.request(dest, payload, 30.0)
                if at:                                       # the first one finds this stack's memory colder still
                    took[kind].append(perf_counter_ns() - began_ns)
    return {kind: median(each) / 1e3 for kind, each in took.items()}


def main() -> None:
    """The other process: answers until its input ends."""
    keyring, *ports = sys.argv[1:]
    with members("B", keyring, dict(zip(KINDS, map(int, ports), strict=True))):
        print("ready", flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
