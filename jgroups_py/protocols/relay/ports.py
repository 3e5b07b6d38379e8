"""The ports between RELAY's parts: one for each part, with no more than other parts use.

A part names the ports that it needs (`needs(ForwarderPort)`) and is bound to the part that provides them. So no part
imports another one, and none writes another's tables. A fact on which several parts act is announced instead
(announcements.py). "As relay" marks what has an effect only at the relay.
"""
from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping

from jgroups_py.model.address import Address
from jgroups_py.model.batch import Batch, Header
from jgroups_py.model.events import OutputInOrder
from jgroups_py.model.view import View, ViewId
from jgroups_py.protocols.relay.headers import Disseminate, Have, Numbers, SiteRow, Vector
from jgroups_py.protocols.relay.headers.state import Key, Keyed, StateFailed, StateMore
from jgroups_py.protocols.relay.journal.segments import JournalSegment
from jgroups_py.protocols.relay.origin.hold import HeldBatch
from jgroups_py.protocols.relay.outbound.peers import RelayPeer
from jgroups_py.protocols.relay.sites.table import Site
from jgroups_py.protocols.relay.sites.trust import SiteRights
from jgroups_py.sealing.files import FileCipher
from jgroups_py.sealing.keyring import GroupKeyring

# --- the own site's messages ----------------------------------------------------------------------------------------


class NumberingPort(ABC):
    """The numbers of this site's multicasts. Other parts read the tables and never write them."""

    next_number: int
    numbers: Numbers
    ends: Numbers

    @property
    @abstractmethod
    def coming_number(self) -> int:
        """The number that the next multicast of this member's application gets, behind those that the send gate
        keeps."""

    @abstractmethod
    def multicast(self, batch: Batch) -> None:
        """Number a multicast of this member, unless it stays in this site, and send it."""

    @abstractmethod
    def current_numbers(self) -> Numbers:
        """Origin of this site -> its next number: the highest that was delivered, is held, or was reported in HAVE."""

    @abstractmethod
    def expect(self, origin: Address, number: int) -> None:
        """Nothing below `number` of this origin will be delivered here any more."""

    @abstractmethod
    def expect_newcomers(self, numbers: Numbers) -> None:
        """As a joiner: of each origin without an entry, begin at the number at which the group is."""

    @abstractmethod
    def raise_ends(self, numbers: Numbers) -> None:
        """As relay: how far a member had this site's origins when the view began; the highest counts (relay rule
        17)."""


class GatePort(ABC):
    """Keeps this member's multicasts back."""

    unnumbered: int

    @abstractmethod
    def multicast(self, batch: Batch) -> None:
        """A reliable multicast of the application: numbered and sent now, or kept back in order."""

    @abstractmethod
    def shut(self, closed: bool, why: str) -> None:
        """Close the gate for a reason, or take that reason away; it opens when none is left."""


class DivergencePort(ABC):
    """This site's messages that a partition kept from this member."""

    settled: bool
    nakack_losses: dict[Address, list[OutputInOrder]]

    @abstractmethod
    def numbered(self, origin: Address, first: int) -> bool:
        """Handle a multicast of this site whose number is not the next of its origin. False: the number is
        implausible."""

    @abstractmethod
    def named(self, origin: Address, number: int) -> None:
        """The journal or SYNC names this number as the next of an origin: what lies between it and the first that comes
        was sent before this member joined."""

    @abstractmethod
    def is_unheard(self, origin: Address) -> bool:
        """Whether the number of an origin was named, and nothing of it has come."""


class JournalPort(ABC):
    """The hold on disk. Without `hold_dir` its methods do nothing."""

    writing: bool

    @abstractmethod
    def begin(self, segments: list[JournalSegment], holders: tuple[str, ...] | None) -> None:
        """Begin to write, after the journal was read. segments: those on disk, oldest first; holders: see
        HoldJournal."""

    @abstractmethod
    def added(self, origin: Address, first: int, batch: Batch, since_ns: int) -> None:
        """A batch entered the hold."""

    @abstractmethod
    def trimmed(self) -> None:
        """The site table or the view changed, or something was dropped from the hold."""

    @abstractmethod
    def unsynced(self, origin: Address) -> int | None:
        """The first number of an origin that is not on disk yet and must be before it is sent; None: none waits."""

    @abstractmethod
    def may_fill(self, origin: Address, number: int) -> bool:
        """Whether a holder that has not restarted yet may have what is missing below `number` (relay rule 18)."""

    @abstractmethod
    def holders(self) -> tuple[str, ...]:
        """Logical names of the members that held before the last crash, as the journal has them; empty without one."""

    @abstractmethod
    def add_holders(self, names: tuple[str, ...]) -> None:
        """As relay: add the holders that another member's journal names."""

    @abstractmethod
    def leaving(self) -> None:
        """The member stops as planned, and keeps what it holds."""


class SealsPort(ABC):
    """The keys of the hold on disk."""

    keyring: GroupKeyring | None

    @abstractmethod
    def fits(self, segment: JournalSegment) -> bool:
        """Whether records may be appended to the newest segment: it has the active key, and is of this process."""

    @abstractmethod
    def begin(self, segment: JournalSegment) -> bytes:
        """Seal a new segment; returns what it begins with, b"" if it is not sealed."""

    @abstractmethod
    def former_keys(self, segments: list[JournalSegment]) -> int:
        """How many segments are sealed with another key than the active one."""

    @abstractmethod
    def opener(self, segment: JournalSegment, data: bytes) -> FileCipher | None:
        """What opens a segment that was read; None: it is not sealed, or has nothing that can be read.

        Raises:
            ConfigError: it is sealed and there is no keyring, or not the key; or it is not, and there is a keyring.
        """


class RestorePort(ABC):
    """What the journal had at the start. cluster: its name; over_ns: when all was read, by this member's clock."""

    cluster: str
    over_ns: int

    @abstractmethod
    def older(self, by_ns: int) -> None:
        """Make the restored batches older: by the time for which the site ran on without this member (relay rule 2)."""

    @abstractmethod
    def aged(self) -> None:
        """The restored batches have their true ages now: drop those above `hold_age`."""


class ClockPort(ABC):
    """The hold's clock. offset_ns: what it shows minus what this member's clock shows."""

    offset_ns: int

    @abstractmethod
    def resume(self, shown_ns: int) -> None:
        """At the start: go on from what it showed before the stop or crash."""

    @property
    @abstractmethod
    def shown_ns(self) -> int:
        """What it shows."""

    @abstractmethod
    def follow(self, other_ns: int) -> None:
        """Set it forward to another member's, if that is ahead (relay rule 17)."""


# --- outbound -------------------------------------------------------------------------------------------------------

class BridgePort(ABC):
    """The bridge. wanted: this member is to be on it as relay; waits: it is on it as standby; view, own_address: None
    while it is not there as relay."""

    wanted: bool
    waits: bool
    view: View | None
    own_address: Address | None

    @abstractmethod
    def send_to(
        self, to: Address, header: Header, payloads: tuple[bytes, ...] = (), headers: tuple[Header, ...] = (),
    ) -> None:
        """Send to one relay on the bridge, reliably and in order. headers: the application's."""

    @abstractmethod
    def send_to_relays_of(self, site: str, header: Header) -> None:
        """Send to all relays of a site that are on the bridge: one for each half of a split site."""


class SiteGuardPort(ABC):
    """Judges what arrives from the bridge by who sent it (K8), and knows what each site may send and receive."""

    @abstractmethod
    def refused(self, header: Header, batch: Batch) -> bool:
        """Whether a header from the bridge is dropped, since its sender may not say that; counts it."""

    @abstractmethod
    def bridge_view_changed(self, view: View, certified: dict[Address, str]) -> None:
        """Relays joined or left the bridge. certified: member of the bridge -> its site, as AUTH has verified it."""

    @abstractmethod
    def site_of(self, relay: Address) -> str | None:
        """The site for which a relay on the bridge speaks; None: it has not introduced itself."""

    @abstractmethod
    def shut_out(self, relay: Address) -> bool:
        """Whether a relay that has introduced itself is of a site that does not count."""

    @abstractmethod
    def rights(self, site: str) -> SiteRights:
        """What a site may send and receive."""

    @abstractmethod
    def may_receive_all(self, site: str) -> bool:
        """Whether everything may be sent to a site, unicasts and states too."""


class ForwarderPort(ABC):
    """Sends held messages to the relays of other sites."""

    @abstractmethod
    def pump(self) -> None:
        """Send every peer what its window allows."""

    @abstractmethod
    def pump_to(self, peer: RelayPeer) -> None:
        """Send one peer what its window allows, in order per origin."""

    @abstractmethod
    def send_base(self, peer: RelayPeer, numbers: Numbers | None = None, *, always: bool = False) -> None:
        """If the peer's watermark is below the lowest number that is still sent to its site, send BASE."""

    @abstractmethod
    def everything_acknowledged(self) -> bool:
        """Whether every peer has acknowledged all that is held, except peers of paused and OFFLINE sites."""


class IntroducerPort(ABC):
    """HELLO, VIEW, GOODBYE and fencing."""

    @abstractmethod
    def bridge_view_changed(self, view: View) -> None:
        """Relays joined or left the bridge."""

    @abstractmethod
    def hello(self, to: Address, *, answer: bool) -> None:
        """Send VIEW and HELLO of this site."""

    @abstractmethod
    def accepted_sender(self, site_name: str, epoch: ViewId, header: Header, batch: Batch) -> RelayPeer | None:
        """The sender, if it is a relay of the site and the epoch is the highest known (relay rule 11).

        Else None: a lower epoch was answered with REFUSED, anything else was dropped.
        """

    @abstractmethod
    def goodbye(self, *, last: bool, forget: bool) -> None:
        """Send GOODBYE to all peers. last: no member of this site stays; forget: they need not hold for it."""

    @abstractmethod
    def knows_all_peers(self) -> bool:
        """Whether each site that is UP has a relay among the peers."""


class TopicFilterPort(ABC):
    """Which topics the sites are interested in."""

    @abstractmethod
    def send_interest(self, to: Address) -> None:
        """Send this site's interest to another relay."""

    @abstractmethod
    def refuses(self, batch: Batch) -> bool:
        """Whether a batch has numbers only, of topics in which a member of this site is interested by now."""

    @abstractmethod
    def refuse(self, peer: RelayPeer, batch: Batch) -> None:
        """Send this site's interest again; the caller then requests the messages themselves (NEED)."""

    @abstractmethod
    def outdated(self, batches: Iterable[tuple[Disseminate, Batch]]) -> bool:
        """Whether `refuses` holds for one of these batches, which a view change kept from delivery."""

    @abstractmethod
    def numbers_of(self, first: int, batch: Batch) -> Batch:
        """The numbers of a batch alone, from `first` on, as of one that is withheld."""

    @abstractmethod
    def filtered(self, peer: RelayPeer, origin: Address, held: HeldBatch) -> Iterator[HeldBatch]:
        """What to send of a batch now: all of it, its numbers only, or nothing yet."""

    @abstractmethod
    def deferred(self, peer: RelayPeer) -> Iterator[tuple[Address, HeldBatch]]:
        """Take the numbers that wait to be sent together with others."""


# --- inbound --------------------------------------------------------------------------------------------------------

class DeliveryPort(ABC):
    """What this member has delivered of other sites' messages.

    seen: site -> origin -> next number. sites_with_base: sites of which messages are meant for this member, since their
    first BASE arrived or this member has adopted a vector with them; sites_before_view: those before this view.
    """

    seen: Vector
    sites_with_base: dict[str, None]
    sites_before_view: dict[str, None]

    @abstractmethod
    def begin_at(self, vector: Vector) -> None:
        """As a joiner: take over the group's vector."""

    @abstractmethod
    def adopt(self, vector: Vector) -> None:
        """Take over the entries of sites of which nothing was meant for this member before this view."""

    @abstractmethod
    def begin_at_first(self, site: str, origin: Address) -> None:
        """This member was in another view until now and has nothing of an origin: it will be sent again, from 1 on."""

    @abstractmethod
    def add_sites_with_base(self, sites: Iterable[str]) -> None:
        """From now on messages of these sites are meant for this member (relay rule 5)."""

    @abstractmethod
    def skip_to(self, vector: Vector) -> tuple[tuple[str, Address, int, int], ...]:
        """Continue above the vector of an installed state; returns the skipped ranges: (site, origin, first, stop)."""


class SyncPort(ABC):
    """The SYNC of this view (relay rule 17).

    synced: it arrived; behind: this member had less than the relay; known_ends: origin of this site -> next number when
    the view began. As relay: complete: all members have answered; haves: their answers.
    """

    complete: bool
    synced: bool
    behind: bool
    known_ends: Numbers
    haves: dict[Address, Have]


class DisseminatorPort(ABC):
    """As relay: other sites' messages on their way into the group. next_out: the next number to multicast."""

    next_out: Vector

    @abstractmethod
    def wanted(self, site: str, origin: Address, base: int) -> int:
        """The number to disseminate next of an origin; `base` if there is no entry for it."""

    @abstractmethod
    def repeat_swallowed(self) -> None:
        """Multicast again what was multicast in the last view and did not come back before it ended."""

    @abstractmethod
    def rewind(self, behind: Vector) -> None:
        """Members are behind: request everything from these numbers on once more."""

    @abstractmethod
    def skip_to(self, vector: Vector) -> None:
        """The members continue above the vector of an installed state."""


class AcknowledgerPort(ABC):
    """What this site acknowledges to others. acked_out: what SEEN has reported, or may report."""

    acked_out: Vector

    @abstractmethod
    def begin(self, lowest: Vector, confirmed: Mapping[Address, Vector]) -> None:
        """As relay: all have answered SYNC. lowest: the site's vector; confirmed: each member that must confirm
        (relay rule 6), and the vector that it had."""

    @abstractmethod
    def ack_again(self, site: str, numbers: Numbers) -> None:
        """As relay: send SEEN for these origins within `ack_interval`."""


# --- sites ----------------------------------------------------------------------------------------------------------

class SiteStatusPort(ABC):
    """The relay's decisions about other sites. status_elsewhere: site -> this site's status there, as it reported."""

    status_elsewhere: dict[str, int]

    @abstractmethod
    def bridge_lost(self) -> None:
        """The bridge failed: no other relay can be reached."""

    @abstractmethod
    def watch_absent(self) -> None:
        """Start the timer after which a site without an accepted relay is DOWN (relay rule 14)."""

    @abstractmethod
    def start_grace(self, site: Site, kept: Numbers | None = None) -> None:
        """Trim nothing for the site for `split_grace` (relay rule 7)."""

    @abstractmethod
    def relay_appeared(self, site: Site) -> None:
        """A HELLO of a site's accepted relay arrived."""

    @abstractmethod
    def site_left(self, site: Site, forget: bool) -> None:
        """The last member of a site left as planned. forget: nothing is to be held for the site (relay rule 10)."""

    @abstractmethod
    def take_offline(self, site: Site, why: str, level: str = "error") -> None:
        """Declare the site OFFLINE: nothing is held for it any more. why, level: for the log."""

    @abstractmethod
    def bring_back(self, site: Site) -> None:
        """Declare an OFFLINE site UP, from the current numbers on."""

    @abstractmethod
    def lose(self, site: Site) -> int:
        """Declare lost for the site all that is numbered and not acknowledged; returns how many messages."""

    @abstractmethod
    def send_bases(self, site: Site) -> None:
        """Send BASE to the relays of a site: what will not come any more."""


class TrimmerPort(ABC):
    """TRIM and the limits of the hold."""

    @abstractmethod
    def publish_table(self) -> None:
        """As relay: multicast TRIM at once, since a status or view of another site changed."""

    @abstractmethod
    def trim_soon(self) -> None:
        """As relay: multicast TRIM within `trim_interval`."""

    @abstractmethod
    def trim(self) -> None:
        """As relay: multicast TRIM now: the site table, and what holders may drop."""


class AdminPort(ABC):
    """Operators' orders."""

    @abstractmethod
    def check_drained(self, site: Site) -> None:
        """End the site's drain if it has acknowledged everything up to the drain's mark."""

    @abstractmethod
    def superseded(self) -> None:
        """As relay: a member's table shows orders that another relay has carried out; drains that they end are ended
        here."""


class SiteNewsPort(ABC):
    """What is reported to the application about other sites: statuses, and the site of each remote member."""

    statuses: dict[str, int]
    site_of_member: dict[Address, str]

    @abstractmethod
    def follow_table(self, rows: tuple[SiteRow, ...], below: Numbers, *, joined: bool = False) -> None:
        """Take the relay's table, and drop from the hold below these numbers. joined: losses before now are not
        reported."""

    @abstractmethod
    def report_losses(self, site: Site) -> None:
        """Report to the application what is newly lost for a site."""


class LeaverPort(ABC):
    """A planned stop."""

    leaving: bool

    @abstractmethod
    def left_bridge(self) -> None:
        """The bridge stack is closed: the leave can go on."""


# --- unicasts, receipts, states -------------------------------------------------------------------------------------

class UnicastPort(ABC):
    """Unicasts between sites."""

    @property
    @abstractmethod
    def unicasts_waiting(self) -> int:
        """How many unicasts of this member are not acknowledged."""

    @property
    @abstractmethod
    def remote_members(self) -> Iterable[Address]:
        """The members of other sites for which this member keeps numbers."""

    @abstractmethod
    def traffic_from(self, site: str) -> None:
        """A message came from another site, so its relay can be reached: retransmit without backoff."""


class DeliveryCheckPort(ABC):
    """Whether all members of this site have delivered something."""

    @abstractmethod
    def require(self, site: str, origin: Address, number: int) -> None:
        """Report by `ReceiptsPort.settled_here` once all members have everything below `number`."""

    @abstractmethod
    def start_check(self, key: tuple[str, Address]) -> None:
        """Start a check of (site, origin) if one is required, for what was multicast in the group so far."""


class ReceiptsPort(ABC):
    """Receipts for which the application waits, here or at other sites."""

    @abstractmethod
    def settled_here(self, site: str, origin: Address, number: int, lost: tuple[tuple[int, int], ...]) -> None:
        """All members of the view have delivered an origin's messages below a number, except the lost ranges."""


class StateTransferPort(ABC):
    """A state on its way to this member's application.

    open: StateBegin was passed up and StateEnd not yet; local: the state is one of this site (STATE_TRANSFER).
    """

    open: bool
    local: bool

    @property
    @abstractmethod
    def busy(self) -> bool:
        """Whether a state is on its way to this member's application."""

    @property
    @abstractmethod
    def installing(self) -> bool:
        """Whether this member takes part in an attempt."""


class StateProviderPort(ABC):
    """This member's application state, provided to other sites."""

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """Bytes of the state that the application wrote and that wait here."""

    @abstractmethod
    def more(self, header: StateMore) -> None:
        """The requesting site has room for more."""

    @abstractmethod
    def fix_covered_states(self) -> None:
        """Fix each requested state whose vector this member has reached, unless it installs a state itself."""

    @abstractmethod
    def end_attempt(self, key: tuple[Address, int]) -> None:
        """An attempt is over."""


class StateForwarderPort(ABC):
    """As relay: passes states on between two sites."""

    @property
    @abstractmethod
    def is_fetching(self) -> bool:
        """Whether a state is on its way to this site."""

    @abstractmethod
    def defers(self, site: str, origin: Address) -> bool:
        """Whether messages of an origin are not to be disseminated now, since the state on its way may hold them."""

    @abstractmethod
    def to_requesting_site(self, header: Keyed, payloads: tuple[bytes, ...] = ()) -> None:
        """Forward a provider's header to the site that requested the state."""

    @abstractmethod
    def failed_received(self, header: StateFailed, src: Address) -> None:
        """An attempt failed, as the requesting member or the provider reports to its relay."""

    @abstractmethod
    def installed(self, vector: Vector) -> None:
        """This relay's StateInstall was delivered here."""

    @abstractmethod
    def partner(self, key: Key) -> Address | None:
        """The relay at the other end of an attempt; None: no such attempt goes through this relay."""


