"""RELAY: joins the group of this site with the groups of other sites, and loses nothing when a relay dies.

The coordinator (the relay) joins a global group, the bridge. Multicasts are numbered by their origin, held by the
origin, the relay and the next `backups` members until every site has acknowledged them, forwarded by the relay, and
disseminated in the other site with a ProxyUUID as their sender. Every member drops what it has delivered already, so
sending twice does no harm, and failover is simple: a new relay asks each site what it has (HELLO) and sends the rest.
RELAY is the top layer of the local stack; the node builds the bridge stack for it. The rules are numbered in
design/relay-rules.md. Source: RELAY.txt (2010), whose failover Java JGroups never built; where this differs from it
(numbers per origin, contiguous prefixes, replay of the higher numbers) stands there too.

RELAY consists of parts, each with tables of its own. This file lists them; it only routes what the application sends:

    origin/     numbers, the hold, copies for other holders, messages of the own site that a partition kept away
    outbound/   the bridge, introductions and fencing, forwarding to other sites
    inbound/    SYNC at every view; other sites' messages: multicast here, delivered, acknowledged
    sites/      the site table and its statuses, operators' orders, TRIM, reports to the application, planned stops
    unicast/    unicasts between sites
    receipts/   `send(until=...)`
    state/      a state of another site
    journal/    the hold on disk
"""
from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any, ClassVar, TypeVar

from jgroups_py.model.address import Address
from jgroups_py.model.batch import NO_RELAY, NO_RELIABILITY, Batch, Header
from jgroups_py.model.ports import Identities, MulticastNumbers, SiteReporter
from jgroups_py.model.secrets import Secrets
from jgroups_py.model.text import escaped
from jgroups_py.protocols.relay.announcements import RelayAnnouncement
from jgroups_py.protocols.relay.config import RelayConfig
from jgroups_py.protocols.relay.counters import RELAY_COUNTERS
from jgroups_py.protocols.relay.group import LocalGroup
from jgroups_py.protocols.relay.headers.claims import CLAIMS
from jgroups_py.protocols.relay.inbound.acknowledger import Acknowledger
from jgroups_py.protocols.relay.inbound.delivery import RemoteDelivery
from jgroups_py.protocols.relay.inbound.disseminator import Disseminator
from jgroups_py.protocols.relay.inbound.site_guard import SiteGuard
from jgroups_py.protocols.relay.inbound.synchronizer import Synchronizer
from jgroups_py.protocols.relay.journal.clock import HoldClock
from jgroups_py.protocols.relay.journal.journal import HoldJournal
from jgroups_py.protocols.relay.journal.restore import HoldRestore
from jgroups_py.protocols.relay.journal.seals import HoldSeals
from jgroups_py.protocols.relay.origin.copies import Copies
from jgroups_py.protocols.relay.origin.divergence import Divergence
from jgroups_py.protocols.relay.origin.numbering import Numbering
from jgroups_py.protocols.relay.origin.origin_gc import OriginCollector
from jgroups_py.protocols.relay.origin.retention import Retention
from jgroups_py.protocols.relay.origin.send_gate import SendGate
from jgroups_py.protocols.relay.outbound.bridge_link import BridgeLink
from jgroups_py.protocols.relay.outbound.duplicate_sites import DuplicateSites
from jgroups_py.protocols.relay.outbound.forwarder import Forwarder
from jgroups_py.protocols.relay.outbound.introducer import Introducer
from jgroups_py.protocols.relay.outbound.peer_cursors import PeerCursors
from jgroups_py.protocols.relay.outbound.take_over import RelayTakeOver
from jgroups_py.protocols.relay.outbound.topic_filter import TopicFilter
from jgroups_py.protocols.relay.part import RelayPart, announcement_handlers_of, bridge_receivers_of
from jgroups_py.protocols.relay.receipts.delivery_check import DeliveryCheck
from jgroups_py.protocols.relay.receipts.receipts import ReceiptTracker
from jgroups_py.protocols.relay.sites.admin import Admin
from jgroups_py.protocols.relay.sites.known_sites import KnownSites
from jgroups_py.protocols.relay.sites.leaving import PlannedLeave
from jgroups_py.protocols.relay.sites.news import SiteNews
from jgroups_py.protocols.relay.sites.report import SiteReport
from jgroups_py.protocols.relay.sites.status import SiteDecisions
from jgroups_py.protocols.relay.sites.trimmer import Trimmer
from jgroups_py.protocols.relay.sites.trust import TRUST_FILE
from jgroups_py.protocols.relay.state.forwarder import StateForwarder
from jgroups_py.protocols.relay.state.provider import StateProvider
from jgroups_py.protocols.relay.state.transfer import SiteStateTransfer
from jgroups_py.protocols.relay.unicast.router import UnicastRouter
from jgroups_py.sealing.identities import operator_refusal
from jgroups_py.stack.component import Component, Receiver
from jgroups_py.stack.protocol import Protocol

P = TypeVar("P", bound=Component)


@cache
def places_of_parts(components: tuple[type[Component], ...]) -> dict[type[Component], int]:
    """Class of a part -> its place; the same for all layers, so cached: each layer asks for thirty when it starts."""
    return {kind: place for place, kind in enumerate(components)}


class Relay(Protocol, SiteReporter, MulticastNumbers):
    """The layer: makes its parts, and routes what the application sends to the part that takes it."""

    Config = RelayConfig
    COUNTERS = RELAY_COUNTERS
    config: RelayConfig

    # The order in which they handle view changes and announcements. It matters in five places: the group is first, so
    # all others find the new view there; interests are reset before a HELLO carries them; SYNC is the relay's first
    # multicast in a view (relay rule 17); the bridge opens before statuses are checked; SiteNews is last, so that the
    # application is shown what all others made of the change.
    components: ClassVar[tuple[type[RelayPart], ...]] = (
        LocalGroup, SiteGuard, TopicFilter, Copies, Divergence, RemoteDelivery, Acknowledger, Disseminator,
        Synchronizer, BridgeLink, SiteDecisions, Trimmer, Admin, Introducer, Forwarder, DuplicateSites, PeerCursors,
        Numbering, Retention, KnownSites, UnicastRouter, SendGate, OriginCollector,
        ReceiptTracker, DeliveryCheck, HoldSeals, HoldJournal, HoldRestore, HoldClock,
        StateForwarder, SiteStateTransfer, StateProvider, PlannedLeave, RelayTakeOver, SiteReport,
        SiteNews,
    )

    def assemble(self) -> Iterable[Component]:
        made = [part(self) for part in self.components]
        self.announcement_handlers = announcement_handlers_of(made)
        bridge_link = next(part for part in made if isinstance(part, BridgeLink))
        receivers = bridge_receivers_of(made)
        unjudged = [header.__name__ for header in receivers if header not in CLAIMS]
        assert not unjudged, f"headers/claims.py must say what these claim on the bridge: {', '.join(unjudged)}"
        bridge_link.route_to(receivers)
        return made

    def start(self) -> None:
        # Parts by name, for this class and for what looks in from outside: checkers, tests, the operator's commands.
        self.group = self.part(LocalGroup)
        self.numbering = self.part(Numbering)
        self.hold = self.part(Retention)
        self.send_gate = self.part(SendGate)
        self.divergence = self.part(Divergence)
        self.origin_gc = self.part(OriginCollector)
        self.bridge_link = self.part(BridgeLink)
        self.site_guard = self.part(SiteGuard)
        self.peers = self.part(PeerCursors)
        self.introducer = self.part(Introducer)
        self.forwarder = self.part(Forwarder)
        self.duplicate_sites = self.part(DuplicateSites)
        self.synchronizer = self.part(Synchronizer)
        self.disseminator = self.part(Disseminator)
        self.delivery = self.part(RemoteDelivery)
        self.acknowledger = self.part(Acknowledger)
        self.table = self.part(KnownSites)
        self.site_status = self.part(SiteDecisions)
        self.trimmer = self.part(Trimmer)
        self.admin = self.part(Admin)
        self.site_news = self.part(SiteNews)
        self.reports = self.part(SiteReport)
        self.unicast_router = self.part(UnicastRouter)
        self.receipts = self.part(ReceiptTracker)
        self.delivery_check = self.part(DeliveryCheck)
        self.state_transfer = self.part(SiteStateTransfer)
        self.state_provider = self.part(StateProvider)
        self.state_forwarder = self.part(StateForwarder)
        self.journal = self.part(HoldJournal)
        self.restore = self.part(HoldRestore)
        self.clock = self.part(HoldClock)

    def part(self, kind: type[P]) -> P:
        """The part of this class."""
        found = self.parts[places_of_parts(self.components)[kind]]
        assert isinstance(found, kind)
        return found

    def announce(self, announcement: RelayAnnouncement) -> None:
        """Call all handlers of an announcement, in the order of `components`, before this returns."""
        for handler in self.announcement_handlers.get(announcement.__class__, ()):
            handler(announcement)

    @property
    def secrets(self) -> Secrets:
        """Random bytes and keyrings, from the environment."""
        return self.stack.secrets

    def read_trusted_file(self, path: str) -> bytes:
        """The contents of a file that no other user may change.

        Raises:
            ConfigError: there is none, or others may change it.
        """
        return self.stack.secrets.file(path, TRUST_FILE, private=False)

    def operator_refusal(self, member: Address) -> str:
        """Why the orders of a member of this group are not obeyed; "": they are. Without AUTH all members are alike."""
        return operator_refusal(self.stack.find(Identities), member)

    def shown_identity(self, member: Address) -> str:
        """A member of this group as logs name it: by its verified identity, if there is AUTH."""
        identities: Identities | None = self.stack.find(Identities)
        identity = None if identities is None else identities.identity_of(member)
        return escaped(str(member if identity is None else identity))

    # --- batches ----------------------------------------------------------------------------------------------------

    def down(self, batch: Batch) -> None:
        if batch.dest is not None:
            self.unicast_router.route(batch.dest, batch)
        elif batch.flags & NO_RELIABILITY:
            # Not numbered: a number that may get lost would be a hole that blocks what follows it (relay rule 1).
            self.pass_down(batch)
        else:
            self.send_gate.multicast(batch)

    def receiver(self, handler: Receiver) -> Receiver:
        """Wrap a handler of RELAY's headers in the local group: only members of the view are accepted as their source.

        One check for all headers, so that none can be without it. RELAY sends everything reliably: what arrives
        without reliability, or before the first view, was not sent by a RELAY of this group. The source of a multicast
        needs no look-up, since NAKACK passes up those of view members only.
        """
        group = self.part(LocalGroup)

        def from_members(header: Header, batch: Batch) -> object:
            if batch.flags & NO_RELIABILITY or not group.has_view or (
                    batch.dest is not None and batch.src not in group.view):
                self.drop("non_member_dropped", batch, "its source is not in the view, or it is not reliable", header)
                return None
            return handler(header, batch)
        return from_members

    def pending_bytes(self) -> int:
        return self.send_gate.nbytes + self.state_provider.nbytes

    # --- figures ----------------------------------------------------------------------------------------------------

    def stats(self) -> dict[str, float]:
        """The counters, what is held, the journal's size, and the sums of the ledger for each other site (relay rule
        15)."""
        figures = self.reports.figures()
        return {**super().stats(), **self.journal.stats(), **figures}

    def own_site(self) -> str:
        return self.config.site

    def site_report(self) -> dict[str, Any]:
        return self.reports.site_report()

    def numbers(self, flags: int) -> bool:
        return not flags & NO_RELAY
