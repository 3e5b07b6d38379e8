"""Safeguards of groups with two versions, shown by profile versions."""
from __future__ import annotations

from jgroups_py.model.batch import Header
from jgroups_py.protocols.gms.releases import MemberReleases
from jgroups_py.wire import HeaderCodec, frame
from jgroups_py.wire.codec import Unread
from tests.simulator.planted_bugs.safeguard import Patch, Safeguard


def read_all(codec: HeaderCodec | None, proto: int, kind: int, unread: Unread) -> HeaderCodec | None:
    """What this member lacks is read, as if its stack had the layer."""
    assert codec is not None, "all headers of a seed are declared"
    return codec


def nothing_above(self: MemberReleases, header: Header) -> tuple[Header, ...]:
    """No message tells a release."""
    return ()


VERSIONS_SAFEGUARDS = (
    Safeguard("headers of layers that a stack lacks are skipped", "GMS", "they are read, and stay on the message",
              (Patch(frame, "_codec_here", read_all),), "versions", "V1"),
    Safeguard("views have their members' releases", "GMS", "nothing tells a release",
              (Patch(MemberReleases, "above", nothing_above),), "versions", "V2"),
)
