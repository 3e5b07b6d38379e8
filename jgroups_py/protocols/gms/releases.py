"""Which release each member of the view runs, and which releases are not let in.

A joiner tells its release above its JoinRequest, the coordinator those of joiners above each Prepare and those of all
members above each Install, and coordinators those of their groups before they merge (wire/release_header.py). So each
member has them all, and can refuse what may not run beside one of them, whoever is coordinator next. Members of before
this header tell nothing, and count as fitting. A release is a claim: it decides nothing but that.
"""
from __future__ import annotations

from collections.abc import Iterable, Mapping

from jgroups_py.model.address import Address
from jgroups_py.model.batch import Header
from jgroups_py.model.version import OWN, MemberRelease, misfit
from jgroups_py.protocols.gms.headers import (
    InstallHeader,
    JoinRefused,
    JoinRequest,
    MergeProposal,
    MergeReady,
    MergeRequest,
    Prepare,
)
from jgroups_py.wire import Releases

OF_THE_SENDER = JoinRequest, JoinRefused
OF_ITS_GROUP = MergeProposal, MergeRequest, MergeReady


class MemberReleases:
    """own: of this member; of: member of the view, or one that joins -> its release, where it told it."""

    def __init__(self, me: Address) -> None:
        self.me = me
        self.own = OWN
        self.of: dict[Address, MemberRelease] = {}

    def known(self) -> dict[Address, MemberRelease]:
        """The releases of this member and of all that told theirs."""
        return {**self.of, self.me: self.own}

    def above(self, header: Header) -> tuple[Header, ...]:
        """What travels above a header that this member sends; nothing above most."""
        if isinstance(header, OF_THE_SENDER):
            return (Releases({self.me: self.own}),)
        if isinstance(header, Prepare):
            told = {member: self.of[member] for member in header.joiners if member in self.of}
            return (Releases(told),) if told else ()
        if isinstance(header, OF_ITS_GROUP):
            return (Releases(self.known()),)
        if isinstance(header, InstallHeader):
            known = self.known()
            return (Releases({member: known[member] for member in header.view.members if member in known}),)
        return ()

    def note(self, told: Mapping[Address, MemberRelease], members: Iterable[Address]) -> None:
        """Take what was told about `members`, and nothing about others: they come from the network."""
        for member in members:
            if member in told and member != self.me:
                self.of[member] = told[member]

    def keep(self, members: Iterable[Address]) -> None:
        """Forget all but these."""
        self.of = {member: self.of[member] for member in members if member in self.of}

    def objection(self, told: Mapping[Address, MemberRelease], who: object) -> str:
        """Why these may not be in one group with its members, "": they may."""
        return misfit(self.known().values(), told.values(), str(who), "this group")
