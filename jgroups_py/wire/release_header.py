"""The header that tells which releases members run. It may be skipped; a member that tells nothing counts as fitting.

It stands above another header: a JoinRequest, an Install, what coordinators send each other before a merge (GMS), and a
HELLO (RELAY). It is beside the frame because members of all stacks read it.
"""
from __future__ import annotations

import struct

from jgroups_py.model.address import Address
from jgroups_py.model.batch import Batch, Header
from jgroups_py.model.version import MemberRelease
from jgroups_py.wire.codec import ADDRESS, Codec, Reader, mapping
from jgroups_py.wire.declaring import field, header

_FORM = struct.Struct(">5H")


def _write_release(value: MemberRelease, out: bytearray) -> None:
    out += _FORM.pack(*value.version, *value.oldest)


def _read_release(reader: Reader) -> MemberRelease:
    major, minor, patch, oldest_major, oldest_minor = reader.unpack(_FORM)
    return MemberRelease((major, minor, patch), (oldest_major, oldest_minor))


RELEASE = Codec(_write_release, _read_release, _FORM.size)


@header(proto=2, kind=128)
class Releases(Header):
    """Above another header: the releases of the members that it is about, and the oldest beside which each may run."""

    of: dict[Address, MemberRelease] = field(mapping(ADDRESS, RELEASE))


def releases_in(batch: Batch) -> dict[Address, MemberRelease]:
    """What stands above the header that was taken off this batch; empty: nothing, as from members of before."""
    for found in batch.headers:
        if isinstance(found, Releases):
            return found.of
    return {}
