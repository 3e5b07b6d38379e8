"""The transport: what it cannot write or read is counted by name, and ends nothing."""
from __future__ import annotations

import pytest

from jgroups_py import wire
from jgroups_py.address import Address
from jgroups_py.batch import Batch, Header
from jgroups_py.events import AddressesKnown, Connect, SendTo
from jgroups_py.outputs import Frame
from jgroups_py.protocols.gms.headers import JoinMe
from jgroups_py.protocols.nakack.headers import Data
from jgroups_py.protocols.transport import MAX_STRANGERS, Udp, UdpConfig
from jgroups_py.stack import Stack
from jgroups_py.view import ViewId
from tests.unit.harness import address, change, multicast, view_of

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


# --- strangers --------------------------------------------------------------------------------------------------------

PLACE = ("10.0.0.2", 7800)


def frame(src: Address, *headers: Header) -> tuple[bytes, tuple[str, int]]:
    """A frame as it arrives."""
    return b"".join(wire.encode_frame(wire.cluster_id("demo"), Batch(src, None, (b"x",), headers))), PLACE


def stranger(number: int) -> Address:
    return Address(b"a stranger.." + number.to_bytes(4, "big"))


def test_of_many_strangers_the_latest_are_remembered_and_all_members(stack):
    udp = stack.layers[0]
    stack.inject(change(view_of("A", "B")), 0)
    stack.now_ns = 1
    udp.receive([frame(B)])
    for number in range(5 * MAX_STRANGERS):
        stack.now_ns += 1
        udp.receive([frame(stranger(number))])
    assert len(udp.heard) <= MAX_STRANGERS + 2
    assert len(udp.book) <= MAX_STRANGERS + 2
    assert udp.physical_of(B) == PLACE
    assert udp.heard_ns(B) == 1
    assert udp.physical_of(stranger(5 * MAX_STRANGERS - 1)) == PLACE
    assert udp.physical_of(stranger(0)) is None


def test_of_many_strangers_that_are_only_told_of_the_latest_are_remembered(stack):
    udp = stack.layers[0]
    stack.inject(change(view_of("A", "B")), 0)
    stack.inject(AddressesKnown({B: PLACE}), 0)
    for number in range(0, 5 * MAX_STRANGERS, 100):
        stack.inject(AddressesKnown({stranger(number + at): PLACE for at in range(100)}), 0)
    assert len(udp.book) <= 2 * MAX_STRANGERS + 2
    assert udp.physical_of(B) == PLACE
    assert udp.physical_of(stranger(5 * MAX_STRANGERS - 1)) == PLACE


# --- names ------------------------------------------------------------------------------------------------------------

def test_the_name_in_a_view_is_right_whatever_was_heard_first(stack):
    udp = stack.layers[0]
    passed = []
    udp.pass_up = passed.append
    forged = Address(B.raw, "forged")
    udp.receive([frame(stranger(1), JoinMe(forged, PLACE, 0)), frame(B)])
    assert [str(passed[-1].src), str(passed[0].headers[0].member)] == ["forged", "forged"]
    udp.receive([frame(B, JoinMe(B, PLACE, 0))])
    assert str(passed[-1].headers[0].member) == "B", "not what another has said of it"
    stack.inject(change(view_of("A", "B")), 0)
    udp.receive([frame(B), frame(stranger(1), JoinMe(forged, PLACE, 0)), frame(B)])
    assert [str(batch.src) for batch in passed if batch.src == B][-2:] == ["B", "B"]


def test_members_keep_their_names_however_many_strangers_are_heard(stack):
    udp = stack.layers[0]
    passed = []
    udp.pass_up = passed.append
    stack.inject(change(view_of("A", "B")), 0)
    for number in range(udp.addresses.limit + 10):
        udp.addresses.get(stranger(number).raw)
    udp.receive([frame(B)])
    assert str(passed[-1].src) == "B"
    assert len(udp.addresses.table) < udp.addresses.limit
