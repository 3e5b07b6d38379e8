"""Safeguards against frames of strangers and forgers, shown by profile hostile."""
from __future__ import annotations

from typing import Any

from jgroups_py import wire
from jgroups_py.protocols.gms.answering import Answerer
from jgroups_py.protocols.gms.leaving import Leaver
from jgroups_py.protocols.transport import Transport
from tests.sim.planted_bugs.safeguard import Patch, Safeguard


def a_leave_is_obeyed(self: Leaver, header: Any, src: Any) -> None:
    if header.view_id is not None:
        self.go()


follow = Answerer.follow


def whoever_is_left_out_goes(self: Answerer, header: Any, src: Any) -> None:
    gms = self.gms
    if gms.me in header.leavers and gms.me not in header.view:
        gms.leaver.go()
    else:
        follow(self, header, src)


def all_is_kept(self: Transport, data: bytes) -> None:
    self.__dict__.setdefault("kept", []).append(data)


def nothing_is_caught(self: Transport, data: bytes) -> None:
    self.count("frames_decoded")
    if len(data) < 1:
        return
    return wire.decode_frame(data, self.cluster, self.addresses)      # type: ignore[return-value]


HOSTILE_SAFEGUARDS = (
    Safeguard("a leave is its sender's own affair", "GMS", "a member that is asked to let another go leaves itself",
              (Patch(Leaver, "asked", a_leave_is_obeyed),), "hostile", "H1"),
    Safeguard("only who asked to leave goes", "GMS", "a member whose leave somebody else asked for goes",
              (Patch(Answerer, "follow", whoever_is_left_out_goes),), "hostile", "H1"),
    Safeguard("frames are forgotten", "transport", "all frames are kept, and none is passed on",
              (Patch(Transport, "decoded", all_is_kept),), "hostile", "H2"),
    Safeguard("malformed frames are caught", "transport", "what decoding raises goes on up",
              (Patch(Transport, "decoded", nothing_is_caught),), "hostile", "core"),
)
