"""Random headers in random order stop no member, and every frame that it sends can be encoded and decoded."""
from __future__ import annotations

from random import Random

from jgroups_py import wire
from jgroups_py.model.batch import Batch, Header
from jgroups_py.model.events import Disconnect, LinkDown, LinkUp
from jgroups_py.protocols.swim import SwimConfig
from jgroups_py.protocols.swim.headers import (
    Dead,
    Nack,
    NodeState,
    PingFor,
    PingHeader,
    ProbeAck,
    PushPull,
    SuspectedHeader,
    UserMessage,
)
from jgroups_py.testing.bench import address
from tests.unit.protocols.swim.bench import SwimBench, alive, place

NAMES = "ABCDE"
INCARNATIONS = (0, 1, 2, 3, 7, (1 << 32) - 2, (1 << 32) - 1)


def anything(rng: Random) -> Header:
    """A decodable header with random fields that need not make sense."""
    name, other = rng.choice(NAMES), rng.choice(NAMES)
    incarnation, number = rng.choice(INCARNATIONS), rng.randrange(20)
    state = alive(name, incarnation, member=address(rng.choice(NAMES)), listener=rng.choice((None, place(other))))
    return rng.choice((
        PingHeader(number, rng.choice((name, "")), other, rng.choice((None, place(other)))),
        PingFor(number, name, rng.choice((None, place(name))), address(other), rng.random() < 0.5, other, None),
        ProbeAck(number, b"x"), Nack(number),
        SuspectedHeader(incarnation, name, rng.choice((other, "")), rng.randrange(16)),
        state, Dead(incarnation, name, other), UserMessage(b"y"),
        PushPull(number, rng.random() < 0.5, rng.random() < 0.5, (NodeState(state, rng.randrange(4)),), b"")))


def test_no_sequence_of_headers_stops_a_member() -> None:
    for seed in range(10):
        rng = Random(seed)
        bench = SwimBench("BC", SwimConfig(trust_refusal=rng.random() < 0.5, lifeguard=rng.random() < 0.8))
        for step in range(120):
            bench.receive(*(anything(rng) for _ in range(rng.randint(1, 4))), src=rng.choice(NAMES[1:]))
            if rng.random() < 0.2:
                number = rng.randrange(5)
                bench.up(LinkDown(number, rng.random() < 0.5) if rng.random() < 0.5 else LinkUp(number, bytes(16)))
            bench.advance(rng.choice((0, 1, 100, 1500, 20_000)))
            if step == 100 and rng.random() < 0.3:
                bench.down(Disconnect())
            for _, headers in bench.frames():
                data = b"".join(wire.encode_frame(bytes(8), Batch(bench.me, bench.me, (), headers)))
                assert wire.decode_frame(data, bytes(8), wire.Interner()).headers == headers
        up = sum(member.state in ("alive", "suspect") for member in bench.swim.known_members()[1:])
        assert bench.swim.up_count == up
        assert sorted(bench.swim.ring.names) == sorted(bench.swim.nodes)
