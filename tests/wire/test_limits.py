"""What no peer of ours has is refused where it is decoded: numbers too large, names that steer terminals, no hosts."""
from __future__ import annotations

from typing import Any

import attrs
import pytest

from jgroups_py import wire
from jgroups_py.model.address import Address
from jgroups_py.model.batch import Batch
from jgroups_py.model.errors import WireError
from jgroups_py.model.view import View, ViewId
from jgroups_py.wire.codec import NUMBER_LIMIT, Codec, Interner, Reader
from tests.wire.collect import collected

A, B = Address(b"A" * 16, "A"), Address(b"B" * 16, "B")
CLUSTER = wire.cluster_id("demo")
TOO_LARGE = (NUMBER_LIMIT, NUMBER_LIMIT + 1, 1 << 63, (1 << 64) - 1)
STEERING = ("\0", "a\nb", "\x1b[31mred", "\x7f", "a\x85b", "\u202egpj", "\u2066x", "x\u200f", "\u061c",
            "two\u2028lines")
PLAIN = ("A", "Zoë Ångström", "名前", "node-1@host.example", "a b", "x" * 255, "👩\u200d🚀", "no\u00a0break")


def written(codec: Codec[Any], value: Any) -> bytes:
    out = bytearray()
    codec.write(value, out)
    return bytes(out)


def read(codec: Codec[Any], data: bytes) -> Any:
    return codec.read(Reader(data, Interner()))


@pytest.mark.parametrize("number", TOO_LARGE)
@pytest.mark.parametrize(("codec", "of"), [
    (wire.U64, lambda number: number),
    (wire.RANGE, lambda number: (1, number)),
    (wire.DIGEST, lambda number: {B: 7, A: number}),
    (wire.VIEW_ID, lambda number: ViewId(number, A)),
    (wire.VIEW, lambda number: View(ViewId(number, A), (A, B))),
    (wire.optional(wire.U64), lambda number: number),
    (wire.mapping(wire.ADDRESS, wire.U64), lambda number: {A: number}),
], ids=["U64", "RANGE", "DIGEST", "VIEW_ID", "VIEW", "optional", "mapping"])
def test_a_number_too_large_to_count_on_from_is_refused(codec, of, number):
    largest = NUMBER_LIMIT - 1
    assert read(codec, written(codec, of(largest))) == of(largest)
    with pytest.raises(WireError, match="a number is too large"):
        read(codec, written(codec, of(number)))


def test_what_only_has_64_bits_is_no_number():
    assert read(wire.BITS64, written(wire.BITS64, (1 << 64) - 1)) == (1 << 64) - 1


def test_every_header_with_a_number_refuses_one_that_is_too_large():
    checked = 0
    for header, _ in collected():
        for field in attrs.fields(type(header)):
            if field.metadata["codec"] is not wire.U64:
                continue
            checked += 1
            absurd = attrs.evolve(header, **{field.name: NUMBER_LIMIT})
            data = b"".join(wire.encode_frame(CLUSTER, Batch(A, None, (b"x",), (absurd,))))
            with pytest.raises(WireError, match="a number is too large"):
                wire.decode_frame(data, CLUSTER, Interner())
    assert checked > 40


@pytest.mark.parametrize("name", [*STEERING, "x" * 256, "é" * 128])
def test_an_invalid_name_is_refused(name):
    member = Address(b"E" * 16, name)
    for codec, value in ((wire.NAME, name), (wire.NAME_IF_KNOWN, name), (wire.MEMBER, member),
                         (wire.MEMBERS, (A, member)), (wire.ADDRESS_BOOK, {member: ("10.0.0.1", 1)})):
        with pytest.raises(WireError, match="a name that no member may have"):
            read(codec, written(codec, value))


@pytest.mark.parametrize("name", PLAIN)
def test_a_valid_name_is_accepted(name):
    assert read(wire.NAME, written(wire.NAME, name)) == name
    assert read(wire.MEMBER, written(wire.MEMBER, Address(b"E" * 16, name))).name == name


def test_only_a_name_that_may_be_unknown_may_be_empty():
    assert read(wire.NAME_IF_KNOWN, written(wire.NAME_IF_KNOWN, "")) == ""
    assert read(wire.MEMBER, written(wire.MEMBER, Address(b"E" * 16))).name == ""
    with pytest.raises(WireError):
        read(wire.NAME, written(wire.NAME, ""))


@pytest.mark.parametrize("host", ["10.0.0.1", "::1", "2001:db8::7", "node-1.example.org", "node_1", "a" * 253])
def test_a_host_is_an_address_or_a_name(host):
    assert read(wire.PHYSICAL, written(wire.PHYSICAL, (host, 7800))) == (host, 7800)


@pytest.mark.parametrize("host", [
    "", "\0", "no such host;", "xn--\u0130\u2603", "a" * 254, "%s%n", "fe80::1%eth0", "::1::2", "10.0.0.1\n", "*",
    "a/b", "[::1]", "user@host"])
def test_what_no_socket_takes_for_a_host_is_refused(host):
    with pytest.raises(WireError, match="nothing can be sent"):
        read(wire.PHYSICAL, written(wire.PHYSICAL, (host, 7800)))


def test_no_member_receives_at_port_0():
    with pytest.raises(WireError, match="nothing can be sent"):
        read(wire.PHYSICAL, written(wire.PHYSICAL, ("10.0.0.1", 0)))
