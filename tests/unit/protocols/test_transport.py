"""The transport: what it cannot write or read is counted by name, and ends nothing."""
from __future__ import annotations

from collections.abc import Callable
from zlib import crc32

import pytest

import jgroups_py
from jgroups_py import wire
from jgroups_py.model.address import Address
from jgroups_py.model.batch import Batch, Header
from jgroups_py.model.events import AddressesKnown, Connect, SendTo
from jgroups_py.model.outputs import Frame, LogEntry, Traced
from jgroups_py.model.units import seconds
from jgroups_py.model.view import ViewId
from jgroups_py.protocols.gms.headers import JoinRequest
from jgroups_py.protocols.nakack.headers import MulticastData
from jgroups_py.protocols.transport.protocol import MAX_NON_MEMBERS, Udp, UdpConfig
from jgroups_py.stack.stack import Stack
from jgroups_py.testing.bench import address, change, multicast, view_of

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
def test_a_number_that_fits_no_field_is_a_batch_that_is_lost(stack, number, size):
    batch = multicast("A", *[bytes(size // 100)] * 100, headers=(MulticastData(VIEW, number),))
    stack.inject(batch, 0)
    stack.inject(SendTo(("10.0.0.2", 7800), batch), 0)
    stack.inject(multicast("A", b"next"), 0)
    frames = [output for output in stack.outputs if isinstance(output, Frame)]
    assert len(frames) == 1
    assert stack.layers[0].stats()["unwritable_dropped"] == 2


def test_a_number_that_is_too_large_is_a_frame_that_is_malformed(stack):
    passed = []
    stack.layers[0].pass_up = passed.append
    for number in (1 << 62, 7):
        frame = wire.encode_frame(wire.cluster_id("demo"), Batch(B, None, (b"x",), (MulticastData(VIEW, number),)))
        stack.layers[0].receive([(b"".join(frame), ("10.0.0.2", 7800))])
    assert [batch.headers[-1] for batch in passed] == [MulticastData(VIEW, 7)]
    assert stack.layers[0].stats()["malformed_dropped"] == 1


# --- strangers --------------------------------------------------------------------------------------------------------

PLACE = ("10.0.0.2", 7800)


def frame(src: Address, *headers: Header) -> tuple[bytes, tuple[str, int]]:
    """A frame as it arrives."""
    return b"".join(wire.encode_frame(wire.cluster_id("demo"), Batch(src, None, (b"x",), headers))), PLACE


def stranger(number: int) -> Address:
    return Address(b"a stranger.." + number.to_bytes(4, "big"))


def test_of_many_non_members_the_latest_are_kept_and_all_members(stack):
    udp = stack.layers[0]
    stack.inject(change(view_of("A", "B")), 0)
    stack.now_ns = 1
    udp.receive([frame(B)])
    for number in range(5 * MAX_NON_MEMBERS):
        stack.now_ns += 1
        udp.receive([frame(stranger(number))])
    assert len(udp.last_frames) <= MAX_NON_MEMBERS + 2
    assert len(udp.book) <= MAX_NON_MEMBERS + 2
    assert udp.physical_of(B) == PLACE
    assert udp.last_frame_ns(B) == 1
    assert udp.physical_of(stranger(5 * MAX_NON_MEMBERS - 1)) == PLACE
    assert udp.physical_of(stranger(0)) is None


def test_of_many_announced_non_members_the_latest_are_kept(stack):
    udp = stack.layers[0]
    stack.inject(change(view_of("A", "B")), 0)
    stack.inject(AddressesKnown({B: PLACE}), 0)
    for number in range(0, 5 * MAX_NON_MEMBERS, 100):
        stack.inject(AddressesKnown({stranger(number + at): PLACE for at in range(100)}), 0)
    assert len(udp.book) <= 2 * MAX_NON_MEMBERS + 2
    assert udp.physical_of(B) == PLACE
    assert udp.physical_of(stranger(5 * MAX_NON_MEMBERS - 1)) == PLACE


# --- names ------------------------------------------------------------------------------------------------------------

def test_the_name_in_a_view_replaces_one_in_an_earlier_frame(stack):
    udp = stack.layers[0]
    passed = []
    udp.pass_up = passed.append
    forged = Address(B.raw, "forged")
    udp.receive([frame(stranger(1), JoinRequest(forged, PLACE, 0)), frame(B)])
    assert [str(passed[-1].src), str(passed[0].headers[0].member)] == ["forged", "forged"]
    udp.receive([frame(B, JoinRequest(B, PLACE, 0))])
    assert str(passed[-1].headers[0].member) == "B", "not what another has said of it"
    stack.inject(change(view_of("A", "B")), 0)
    udp.receive([frame(B), frame(stranger(1), JoinRequest(forged, PLACE, 0)), frame(B)])
    assert [str(batch.src) for batch in passed if batch.src == B][-2:] == ["B", "B"]


def test_members_keep_their_names_whatever_frames_of_non_members_arrive(stack):
    udp = stack.layers[0]
    passed = []
    udp.pass_up = passed.append
    stack.inject(change(view_of("A", "B")), 0)
    for number in range(udp.addresses.limit + 10):
        udp.addresses.get(stranger(number).raw)
    udp.receive([frame(B)])
    assert str(passed[-1].src) == "B"
    assert len(udp.addresses.table) < udp.addresses.limit


JOIN_ME = b"\x00\x0b\x01"                                     # GMS, kind 1


def frame_with(stack: Stack, change: Callable[[bytes], bytes]) -> bytes:
    """A frame of B as the stack's cluster has it, with its body changed and the checksum right."""
    header = JoinRequest(B, ("10.0.0.2", 7800), 1)
    data = b"".join(wire.encode_frame(stack.layers[0].cluster, Batch(B, None, (), (header,))))
    covered = change(data[8:])
    return data[:4] + crc32(covered, data[3]).to_bytes(4, "big") + covered


@pytest.mark.parametrize(("name", "spoil"), [
    ("unknown_header_dropped", lambda stack: frame_with(stack, lambda body: body.replace(JOIN_ME, b"\x03\xe7\x01"))),
    ("malformed_dropped", lambda stack: frame_with(stack, lambda body: body.replace(JOIN_ME, b"\x00\x0b\x07"))),
    ("foreign_version_dropped", lambda stack: b"JP\x02" + frame_with(stack, bytes)[3:]),
    ("wrong_checksum_dropped", lambda stack: frame_with(stack, bytes)[:-1] + b"\xff"),
])
def test_a_frame_of_other_members_is_dropped_counted_and_warned_of_once_a_minute(stack, name, spoil):
    for _ in range(3):
        stack.receive([(spoil(stack), ("10.0.0.2", 7800))], 0)
    assert {key: value for key, value in stack.layers[0].counters.items() if key.endswith("_dropped")} == {name: 3}
    notes = [output for output in stack.outputs if isinstance(output, LogEntry)]
    assert [note.level for note in notes] == ["warning"]
    stack.receive([(spoil(stack), ("10.0.0.2", 7800))], seconds(61))
    assert len([output for output in stack.outputs if isinstance(output, LogEntry)]) == 2


def test_what_is_dropped_before_it_is_decoded_is_logged_with_its_source():
    stack = Stack([Udp(UdpConfig())], A, explains=True)
    stack.inject(Connect("demo"), 0)
    stack.receive([(b"JP\x07" + frame_with(stack, bytes)[3:], None)], 0)
    (traced,) = [output for output in stack.outputs if isinstance(output, Traced)]
    assert B.raw.hex()[:8] in str(traced)
    assert str(traced).endswith(
        f"it is of version 7 of the wire format, and this member (jgroups_py {jgroups_py.__version__}) of version 1, "
        "so they understand nothing of each other: upgrade all members of the group at once (docs/how-to/upgrade.md) "
        "(foreign_version_dropped)")
