"""What the parts of GMS see of their layer and of each other; protocol.py puts them together.

A part owns its tables. Another part asks questions and reports facts through one of these ports; it never
writes there.
"""
from __future__ import annotations

import typing
from collections.abc import Iterable, Mapping

from jgroups_py.model.address import Address, PhysicalAddress
from jgroups_py.model.batch import Batch, Header
from jgroups_py.model.ports import AddressBook
from jgroups_py.model.view import View, ViewId
from jgroups_py.protocols.gms.flush import Flush, MergeKey
from jgroups_py.protocols.gms.headers import Ballot, FlushId, InstallHeader
from jgroups_py.protocols.gms.releases import MemberReleases
from jgroups_py.stack.component import LayerPort


class GmsPort(LayerPort, typing.Protocol):
    """The layer, as its parts see it."""

    addresses: AddressBook

    def install(self, header: InstallHeader) -> None:
        """Make `header.view` our view, in all parts, and pass ViewChange down and up."""

    def install_alone(self) -> None:
        """Install a view with only this member in it."""

    def leave_group(self) -> None:
        """Have no view from now on, in all parts, and pass Left down and up."""

    def has_view_keys(self) -> bool:
        """Whether each view has a key of its own."""

    def choose_key(self, view_id: ViewId) -> None:
        """This member has decided a view: draw its key."""

    def take_key(self, view_id: ViewId, batch: Batch) -> bool:
        """Note the key that came with an Install, in `batch`; False: there must be one, and there is none."""

    def objection(self, member: Address) -> str:
        """Why AUTH does not let `member` into a view under its name; "": it does, or there is no AUTH."""

    def contradiction(self, member: Address) -> str:
        """Why the name of `member` is known to AUTH to be another one; "": it is right, or not known."""

    def disbelieve(self, member: Address, why: str) -> None:
        """Have AUTH believe nothing more of `member`, which has contradicted itself."""

    def challenge_member(self, member: Address, physical: PhysicalAddress) -> None:
        """Have a process show AUTH who it is."""

    def operator_refusal(self, member: Address) -> str:
        """Why the orders of a member are not obeyed; "": they are."""

    def shown_identity(self, member: Address) -> str:
        """A member as logs name it: by its verified identity, if there is AUTH."""

    releases: MemberReleases

    def sent_counts(self) -> dict[Address, int]:
        """Sender -> how many of its multicasts were delivered here in all views, the present one included."""


class MemberLink(typing.Protocol):
    """Sending to members, this one included (links.py)."""

    def send(self, header: Header, dest: Address) -> None: ...
    def send_each(self, header: Header, targets: Iterable[Address]) -> None: ...
    def book_of(self, members: Iterable[Address]) -> dict[Address, PhysicalAddress]: ...


class JoinPort(typing.Protocol):
    """The join client, as the acceptor and the leave client see it."""

    @property
    def coordinator(self) -> Address | None: ...

    def expect_progress(self) -> None:
        """The coordinator is at work on letting us in; begin to wait anew."""


class AdmissionPort(typing.Protocol):
    """Admission, as the proposer sees it."""

    @property
    def joiners(self) -> Mapping[Address, None]: ...
    def next_joiners(self) -> tuple[Address, ...]: ...
    def withdraw(self, joiner: Address) -> bool: ...
    def exclude_silent(self, joiners: Iterable[Address]) -> None: ...
    def view_decided(self, view: View) -> None: ...


class LeavePort(typing.Protocol):
    """The leave client, as the proposer sees it."""

    @property
    def leavers(self) -> Mapping[Address, None]: ...


class AcceptorPort(typing.Protocol):
    """The acceptor, as the proposer and the join client see it."""

    def next_ballot(self) -> Ballot: ...
    def adopt_round(self, ballot: Ballot) -> bool: ...
    def expect_progress(self) -> None: ...
    def forget_promises(self) -> None: ...


class ProposerPort(typing.Protocol):
    """The proposer, as all other parts see it."""

    @property
    def flush(self) -> Flush | None: ...

    def consider(self) -> None:
        """A view change may be due: collect reasons for a moment, then begin a ballot if one is."""

    def renew(self) -> None:
        """Change the view for the sake of its key."""

    def begin(self, merge: MergeKey | None = None) -> None: ...
    def change_alone(self) -> None: ...
    def close(self) -> None: ...
    def yield_to(self, other: FlushId) -> None: ...
    def member_gone(self, member: Address) -> None: ...
    def joiner_withdrew(self, joiner: Address) -> None: ...
    def approach(self, counter: int) -> None: ...
    def decide(self, install: InstallHeader) -> None: ...


class MergePort(typing.Protocol):
    """The merge coordinator, as the acceptor and the proposer see it."""

    def unite_with(self, others: dict[Address, ViewId]) -> None:
        """Coordinators of other groups -> their views: merge with them, or ask the one of them that leads."""

    def flushed(self, flush: Flush) -> None: ...
    def withdraw(self, flush: Flush) -> None: ...
    def repeat_ready(self, flush: Flush) -> None: ...
