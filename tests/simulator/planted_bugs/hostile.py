"""Safeguards against frames of non-members and forgers, shown by profile hostile."""
from __future__ import annotations

from typing import Any

from jgroups_py import wire
from jgroups_py.model.batch import Batch
from jgroups_py.protocols.gms.acceptor import ViewAcceptor
from jgroups_py.protocols.gms.headers import LeaveRequest
from jgroups_py.protocols.gms.leave import LeaveClient
from jgroups_py.protocols.transport.protocol import Transport
from tests.simulator.planted_bugs.safeguard import Patch, Safeguard


def a_leave_is_obeyed(self: LeaveClient, header: LeaveRequest, batch: Batch) -> None:
    if header.view_id is not None:
        self.layer.leave_group()


follow = ViewAcceptor.follow


def all_left_out_are_excluded(self: ViewAcceptor, header: Any, src: Any) -> None:
    if self.me in header.leavers and self.me not in header.view:
        self.layer.leave_group()
    else:
        follow(self, header, src)


def all_is_kept(self: Transport, data: bytes, physical: object) -> None:
    self.__dict__.setdefault("kept", []).append(data)


def nothing_is_caught(self: Transport, data: bytes, physical: object) -> None:
    self.count("frames_decoded")
    if len(data) < 1:
        return
    return wire.decode_frame(data, self.cluster, self.addresses)      # type: ignore[return-value]


HOSTILE_SAFEGUARDS = (
    Safeguard("a leave excludes its sender only", "GMS", "a member that is named in another's leave leaves itself",
              (Patch(LeaveClient, "on_leave_request", a_leave_is_obeyed),), "hostile", "H1"),
    Safeguard("only a member that asked to leave is excluded", "GMS", "a member is excluded at another one's request",
              (Patch(ViewAcceptor, "follow", all_left_out_are_excluded),), "hostile", "H1"),
    Safeguard("frames are forgotten", "transport", "all frames are kept, and none is passed on",
              (Patch(Transport, "decoded", all_is_kept),), "hostile", "H2"),
    Safeguard("malformed frames are caught", "transport", "errors of decoding end the node",
              (Patch(Transport, "decoded", nothing_is_caught),), "hostile", "core"),
)
