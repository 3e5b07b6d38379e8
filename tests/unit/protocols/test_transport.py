"""The transport: what it cannot write or read is counted by name, and ends nothing."""
from __future__ import annotations

import pytest

from jgroups_py import wire
from jgroups_py.batch import Batch
from jgroups_py.events import Connect, SendTo
from jgroups_py.outputs import Frame
from jgroups_py.protocols.nakack.headers import Data
from jgroups_py.protocols.transport import Udp, UdpConfig
from jgroups_py.stack import Stack
from jgroups_py.view import ViewId
from tests.unit.harness import address, multicast

A, B = address("A"), address("B")
VIEW = ViewId(1, A).raw


@pytest.fixture
def stack() -> Stack:
    made = Stack([Udp(UdpConfig())], A)
    made.inject(Connect("demo"), 0)
    made.outputs.clear()
    return made


@pytest.mark.parametrize("number", [1 << 64, -1])
@pytest.mark.parametrize("size", [1, 100_000])
def test_a_number_that_fits_no_field_is_a_run_that_is_lost(stack, number, size):
    run = multicast("A", *[bytes(size // 100)] * 100, headers=(Data(VIEW, number),))
    stack.inject(run, 0)
    stack.inject(SendTo(("10.0.0.2", 7800), run), 0)
    stack.inject(multicast("A", b"next"), 0)
    frames = [output for output in stack.outputs if isinstance(output, Frame)]
    assert len(frames) == 1
    assert stack.layers[0].stats()["unwritable_dropped"] == 2


def test_a_number_that_is_too_large_is_a_frame_that_is_malformed(stack):
    passed = []
    stack.layers[0].pass_up = passed.append
    for number in (1 << 62, 7):
        frame = wire.encode_frame(wire.cluster_id("demo"), Batch(B, None, (b"x",), (Data(VIEW, number),)))
        stack.layers[0].receive([(b"".join(frame), ("10.0.0.2", 7800))])
    assert [batch.headers[-1] for batch in passed] == [Data(VIEW, 7)]
    assert stack.layers[0].stats()["malformed_dropped"] == 1
