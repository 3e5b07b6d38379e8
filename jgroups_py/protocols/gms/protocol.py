"""GMS: agrees with all other members on the members of the group, and on what was delivered before each change.

A view is changed by its acting coordinator (the first member that is neither suspected nor gone) in three rounds:
Prepare/State stops all members and collects how far each is, Cut/Ack brings all to the same point, Install/Installed
switches. Each attempt has a ballot; a higher one replaces a lower one, so a crash in the middle is repaired by the next
member in line. Joins, leaves and suspicions that arrive meanwhile are collected for the next change.

To follow a change, read proposer.py and acceptor.py from top to bottom. The parts and what they own:

    state           view, view counter, absent members, stage of life: pure, read by all
    acceptor        promises and acceptances (acceptor_state: the rules of safety)
    proposer        the running ballot (flush: its bookkeeping), the decided view that is being announced
    admission       joiners                            join    our own way into a group
    releases        which versions the members run, and which are not let in
    leave           leavers, and our own way out       merge   merges, led or followed (round_trips)
    renewal         a new key of the view by order

This file puts them together (`assemble`) and does what concerns all of them: installing a view, and leaving.

Place: above NAKACK, which stops, fills and starts when GMS demands it (Freeze, FlushTo, ViewChange).
Source: JGroups GMS (coordinator election, batching, join and merge roles), FLUSH (virtual synchrony), ballots as in
Paxos. Deviations: an install needs the acceptance of every member of the new view instead of a majority, since both
halves of a partition go on; no delta views; a member that is excluded becomes a group of one and merges back by itself.
"""
from __future__ import annotations

import attrs

from jgroups_py.model.address import Address, PhysicalAddress
from jgroups_py.model.batch import Batch, Header
from jgroups_py.model.events import Left, ViewChange, ViewKeyChosen
from jgroups_py.model.ports import AddressBook, Identities, MulticastCounts, ReleaseTable, ViewKeys, ViewSource
from jgroups_py.model.version import MemberRelease
from jgroups_py.model.view import MergeView, View, ViewId
from jgroups_py.protocols.gms.acceptor import ViewAcceptor
from jgroups_py.protocols.gms.admission import Admission
from jgroups_py.protocols.gms.config import GmsConfig
from jgroups_py.protocols.gms.counters import GMS_COUNTERS
from jgroups_py.protocols.gms.headers import InstallHeader, ViewKey
from jgroups_py.protocols.gms.join import JoinClient
from jgroups_py.protocols.gms.leave import LeaveClient
from jgroups_py.protocols.gms.links import MemberLinks
from jgroups_py.protocols.gms.merge import MergeCoordinator
from jgroups_py.protocols.gms.proposer import ViewProposer
from jgroups_py.protocols.gms.releases import MemberReleases
from jgroups_py.protocols.gms.renewal import KeyRenewal
from jgroups_py.protocols.gms.sent_counts import after_view, missed_counts
from jgroups_py.protocols.gms.state import GroupState, Lifecycle
from jgroups_py.sealing.identities import operator_refusal
from jgroups_py.stack.component import Component
from jgroups_py.stack.protocol import CONTROL, Protocol


class Gms(Protocol, ViewSource, ReleaseTable):
    """Group membership with virtual synchrony."""

    control_only = True
    Config = GmsConfig
    COUNTERS = GMS_COUNTERS
    config: GmsConfig
    needs = {"addresses": AddressBook, "counts": MulticastCounts}
    addresses: AddressBook
    counts: MulticastCounts
    components = (JoinClient, Admission, LeaveClient, ViewAcceptor, ViewProposer, MergeCoordinator, KeyRenewal)

    def assemble(self) -> tuple[Component, ...]:
        """Make the parts, each with the ports of those that it asks (ports.py)."""
        keys: ViewKeys | None = self.stack.find(ViewKeys)
        self.view_keys = keys if keys is not None and keys.has_view_keys() else None
        self.secrets: dict[ViewId, bytes] = {}               # of our view, and of one that is being announced
        self.identities: Identities | None = self.stack.find(Identities)
        self.releases = MemberReleases(self.me)
        self.group = group = GroupState(self.me, self.drop)
        self.links = links = MemberLinks(self)
        self.joining = JoinClient(self, group)
        self.admission = Admission(self, group, self.rng_seed)
        self.leaving = LeaveClient(self, group, links, self.joining)
        self.acceptor = ViewAcceptor(self, group, links, self.joining)
        self.proposer = ViewProposer(self, group, links, self.acceptor, self.admission, self.leaving)
        self.merging = MergeCoordinator(self, group, links, self.proposer)
        self.renewal = KeyRenewal(self, group)
        # Parts that act on each other: the ports of those that are made later.
        self.joining.acceptor = self.acceptor
        self.admission.proposer = self.leaving.proposer = self.acceptor.proposer = self.proposer
        self.renewal.proposer = self.proposer
        self.acceptor.merging = self.proposer.merging = self.merging
        return self.joining, self.admission, self.leaving, self.acceptor, self.proposer, self.merging, self.renewal

    def current_view(self) -> View | None:
        return self.group.view

    def member_releases(self) -> dict[Address, MemberRelease]:
        return self.releases.known()

    # --- keys of views (ENCRYPT, mode "view") -------------------------------------------------------------------------

    def has_view_keys(self) -> bool:
        """See GmsPort."""
        return self.view_keys is not None

    def choose_key(self, view_id: ViewId) -> None:
        """See GmsPort."""
        if self.view_keys is not None:
            self.secrets[view_id] = self.view_keys.new_view_key()

    def take_key(self, view_id: ViewId, batch: Batch) -> bool:
        """See GmsPort."""
        if self.view_keys is None:
            return True
        for header in batch.headers:
            if isinstance(header, ViewKey):
                self.secrets[view_id] = header.secret
        return view_id in self.secrets

    def send(
        self, header: Header, dest: Address | None, payloads: tuple[bytes, ...] = (), flags: int = CONTROL,
    ) -> None:
        """As any layer, with the releases above the headers that tell them; an Install has the key of its view with it,
        but only for those that are members of it."""
        above = self.releases.above(header)
        if isinstance(header, InstallHeader) and dest in header.view.members and header.view.id in self.secrets:
            above = *above, ViewKey(self.secrets[header.view.id])
        self.pass_down(Batch(self.me, dest, payloads, (*above, header), flags))

    def objection(self, member: Address) -> str:
        """See GmsPort."""
        return self.identities.objection(member) if self.identities is not None else ""

    def contradiction(self, member: Address) -> str:
        """See GmsPort."""
        return self.identities.contradiction(member) if self.identities is not None else ""

    def disbelieve(self, member: Address, why: str) -> None:
        """See GmsPort."""
        if self.identities is not None:
            self.identities.disbelieve(member, why)

    def challenge_member(self, member: Address, physical: PhysicalAddress) -> None:
        """See GmsPort."""
        if self.identities is not None:
            self.identities.challenge_member(member, physical)

    def operator_refusal(self, member: Address) -> str:
        """See GmsPort."""
        return operator_refusal(self.identities, member)

    def shown_identity(self, member: Address) -> str:
        """See GmsPort."""
        found = self.identities.identity_of(member) if self.identities is not None else None
        return str(member if found is None else found)

    def sent_counts(self) -> dict[Address, int]:
        """See GmsPort."""
        installed = self.group.installed
        return after_view(installed.sent, self.counts.multicasts()) if installed is not None else {}

    def stats(self) -> dict[str, float]:
        view = self.group.view
        own = {"view_counter": view.id.counter, "members": len(view)} if view is not None else {}
        return {**self.counters, **own}

    # --- installing and leaving ---------------------------------------------------------------------------------------

    def install_alone(self) -> None:
        """See GmsPort. Its counter is above all that this member knows, so above every view that it had (M2)."""
        view = View(ViewId(self.group.counter + 1, self.me), (self.me,))
        self.choose_key(view.id)
        self.install(InstallHeader(view, (), (), self.links.book_of((self.me,)), self.sent_counts()))

    def install(self, header: InstallHeader) -> None:
        """See GmsPort."""
        view, previous = header.view, self.group.view
        # The proposer first, while it still has the old view: members that our ballot stopped need the Install (L).
        self.proposer.view_follows(header)
        shown: View = view
        if isinstance(view, MergeView) and previous is not None:
            shown = attrs.evolve(view, missed=missed_counts(header.sent, self.sent_counts(), self.me))
        failed = self.group.install(header)
        self.joining.stop()
        self.admission.view_installed(view)
        self.releases.keep((*view.members, *self.admission.joiners, *self.merging.ready_members()))
        self.leaving.view_installed(view)
        self.acceptor.view_installed(view.id)
        self.count("views_installed")
        before = previous.members if previous is not None else ()
        change = ViewChange(shown, previous, tuple(m for m in view.members if m not in before),
                            tuple(m for m in before if m not in view.members), failed)
        if self.view_keys is not None:
            secret = self.secrets[view.id]
            self.secrets = {view.id: secret}
            self.pass_down(ViewKeyChosen(secret))
        # Down first: the transport must know the new members before they are sent anything.
        self.pass_down(change)
        self.pass_up(change)
        self.later(self.after_install)

    def leave_group(self) -> None:
        """See GmsPort."""
        if self.group.lifecycle is Lifecycle.LEFT:
            return
        self.group.become(Lifecycle.LEFT)
        self.secrets = {}
        self.proposer.stop()
        self.joining.stop()
        self.leaving.stop()
        self.acceptor.stop()
        self.merging.stop()
        self.renewal.stop()
        self.later(self.after_leaving)

    def after_leaving(self) -> None:
        """Layers below stop timers and close links and files; layers above end."""
        self.pass_down(Left())
        self.pass_up(Left())

    def after_install(self) -> None:
        """All layers have the view: go on with what waited for the change to end (leaves, joins, merges)."""
        if self.group.lifecycle is Lifecycle.LEAVING:
            self.leaving.still_in_view()
        installed = self.group.installed
        if self.view_keys is not None and installed is not None and installed.flushes:
            maker = installed.flushes[0].ballot.owner
            if maker not in installed.view:
                # A coordinator that leaves decides the view without itself, and so knows its key: replace it.
                self.proposer.renew()
        self.renewal.view_installed()
        self.proposer.consider()
        self.merging.consider()
