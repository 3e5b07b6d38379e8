"""A site speaks for itself alone (K8): one check of every header that arrives from the bridge.

A relay on the bridge introduces itself by VIEW and HELLO; from then on it speaks for that site until it leaves the
bridge. What it sends may name its own site, members and origins, and those of this site as such (headers/claims.py). An
address ends with the digest of its member's site, and belongs to that one if the site is known here; any other (of an
earlier version, or made up) to the site that showed it first, as long as anything about it is known. So a relay can
neither forge messages of a third site, nor acknowledge for it, nor draw its unicasts away, nor take the address of a
member before its own site has shown it, whatever numbers, epochs and names it makes up. It can lie about its own site:
its relay vouches for that.

Where the bridge has AUTH, and a relay's identity names its site, it speaks for that one only, whatever it says.

Which sites count says the trust file (sites/trust.py), if there is one; it is read again when it changes. Without one
each name counts, up to `max_sites`. Without AUTH, or with identities that name no site, all that hold the bridge's keys
can name any site that has not a relay of a higher epoch there.
"""
from __future__ import annotations

import typing
from collections.abc import Iterable
from typing import Final

from jgroups_py.model.address import SITE_DIGEST_BYTES, Address, site_digest
from jgroups_py.model.batch import Batch, Header
from jgroups_py.model.errors import ConfigError
from jgroups_py.model.events import TrustRead, ViewChange
from jgroups_py.model.outputs import LOCAL, LogEntry, ReadTrust
from jgroups_py.model.topics import EVERYTHING
from jgroups_py.model.units import millis
from jgroups_py.model.view import View
from jgroups_py.protocols.relay.announcements import BridgeGone, OriginForgotten, SyncCompleted, TrustChanged
from jgroups_py.protocols.relay.group import LocalGroup
from jgroups_py.protocols.relay.headers import HelloHeader, RefusedHeader, ViewHeader
from jgroups_py.protocols.relay.headers.claims import CLAIMS, Claims
from jgroups_py.protocols.relay.part import RelayPart, RelayPort, on_announcement
from jgroups_py.protocols.relay.ports import (
    DeliveryPort,
    NumberingPort,
    SiteGuardPort,
    SiteStatusPort,
    StateForwarderPort,
)
from jgroups_py.protocols.relay.sites.table import OFFLINE, SiteTable
from jgroups_py.protocols.relay.sites.trust import TRUST_FILE, SiteRights, SiteTrust, parse_trust
from jgroups_py.stack.component import needs
from jgroups_py.stack.protocol import on, timer

INTRODUCING: Final = (HelloHeader, ViewHeader)
MAX_ADDRESSES: Final = 1 << 16           # of one site, that are known by what it said
MAX_STRAYS: Final = 1 << 14              # addresses that one site named as this site's, and this member does not know
REREAD_NS: Final = millis(500)
ALL_RIGHTS: Final = SiteRights()


class SiteGuard(RelayPart, SiteGuardPort):
    """See the module. speaks_for: bridge address -> its site; certified: the same, as AUTH has verified it. digests:
    end of addresses -> the site that is known here. owners: member or origin -> its site."""

    group: LocalGroup = needs(LocalGroup)
    table: SiteTable = needs(SiteTable)
    delivery: DeliveryPort = needs(DeliveryPort)
    numbering: NumberingPort = needs(NumberingPort)
    status: SiteStatusPort = needs(SiteStatusPort)
    state_forwarder: StateForwarderPort = needs(StateForwarderPort)

    def __init__(self, layer: RelayPort) -> None:
        super().__init__(layer)
        self.own = self.config.site
        self.trust: SiteTrust | None = None
        self.speaks_for: dict[Address, str] = {}
        self.certified: dict[Address, str] = {}
        self.digests: dict[bytes, str] = {site_digest(self.own): self.own}
        self.owners: dict[Address, str] = {}
        self.addresses: dict[str, int] = {}              # site -> how many of `owners` are its
        self.strays: dict[str, dict[Address, None]] = {}

    def start(self) -> None:
        if self.config.trust:
            self.trust = self.parsed(self.read_trusted_file(self.config.trust))
            self.set_timer("trust", REREAD_NS)

    def parsed(self, text: bytes) -> SiteTrust:
        """The trust in the file.

        Raises:
            ConfigError: the file, and what is wrong with it.
        """
        try:
            trust = parse_trust(text)
        except ConfigError as error:
            raise ConfigError(f"trust file {self.config.trust}: {error}") from None
        if self.own in trust.revoked:
            raise ConfigError(f"trust file {self.config.trust}: it revokes this member's own site {self.own}")
        return trust

    # --- the check --------------------------------------------------------------------------------------------------

    def refused(self, header: Header, batch: Batch) -> bool:
        """Whether a header from the bridge is dropped, since its sender may not say that; counts it."""
        claims = CLAIMS[header.__class__](header, self.own)
        bound = self.speaks_for.get(batch.src)
        if bound is None and not isinstance(header, INTRODUCING):
            if isinstance(header, RefusedHeader):
                return False                              # it waits for the HELLO that follows
            self.drop("non_peer_dropped", batch, "its relay has not introduced itself", header)
            return True
        site = bound if bound is not None else typing.cast(str, claims.site)
        certified = self.certified.get(batch.src, site)
        if certified != site:
            self.drop("uncertified_site_dropped", batch, f"it names site {site}, and its identity {certified}", header)
            return True
        why = self.site_refusal(site, known=bound is not None)
        if why:
            self.drop("unknown_site_dropped", batch, f"site {site}: {why}", header)
            return True
        if not self.allows(site, claims, batch.src):
            self.drop("foreign_claims_dropped", batch, f"site {site} speaks of what is not its own", header)
            return True
        if bound is None:
            self.speaks_for[batch.src] = site
            self.learn_digests()
        return False

    def site_refusal(self, site: str, *, known: bool) -> str:
        """Why a site does not count; "": it does. known: one of its relays on the bridge was accepted before."""
        if site == self.own:
            return ""
        if self.trust is not None:
            return self.trust.refusal(site)
        if known or self.table.get(site) is not None or len(self.table.sites) < self.config.max_sites:
            return ""
        return f"{self.config.max_sites} other sites are known already (max_sites)"

    def allows(self, site: str, claims: Claims, src: Address) -> bool:
        """Whether a site may make these claims; what it names first is its own from now on."""
        if claims.site not in (None, site) or claims.our_site not in (None, self.own):
            return False
        if claims.attempt is not None:
            return self.state_forwarder.partner(claims.attempt) in (None, src)
        new = []
        introduced = site_digest(site) if site_digest(site) not in self.digests else None
        for address in claims.theirs:
            owner = self.owner(address)
            if owner is None:
                new.append(address)
            elif owner != site and address.raw[-SITE_DIGEST_BYTES:] != introduced:
                return False
        return self.may_name(site, claims.ours) and self.add(site, new)

    def may_name(self, site: str, ours: Iterable[Address]) -> bool:
        """Whether a site may name these addresses as members or origins of this one."""
        strays = self.strays.get(site)
        for address in ours:
            owner = self.owner(address)
            if owner is None:
                # An origin of another half of this site, or of an earlier group, perhaps.
                if strays is None:
                    strays = self.strays.setdefault(site, {})
                if len(strays) >= MAX_STRAYS and address not in strays:
                    return False
                strays[address] = None
            elif owner != self.own:
                return False
        return True

    # --- whose an address is ----------------------------------------------------------------------------------------

    def owner(self, address: Address) -> str | None:
        """The site of a member or origin; None: nothing is known about it."""
        found = self.digests.get(address.raw[-SITE_DIGEST_BYTES:]) or self.owners.get(address)
        if found is None:
            found = self.look_up(address)
            if found is not None and not self.add(found, (address,)):
                return found                              # there is no room to remember it
        return found

    def learn_digests(self) -> None:
        """Keep the digests of the sites that are known here; of two with one digest the first known has it."""
        known = dict.fromkeys((self.own, *(row.name for row in self.table), *self.speaks_for.values()))
        self.digests = {site_digest(site): site for site in reversed(known)}

    def look_up(self, address: Address) -> str | None:
        """The site of an address, by the tables that every relay of this site has."""
        if address in self.group.view or address in self.numbering.numbers or address in self.numbering.ends:
            return self.own
        for row in self.table:
            if address in row.members:
                return row.name
        return next((name for name, numbers in self.delivery.seen.items() if address in numbers), None)

    def add(self, site: str, addresses: Iterable[Address]) -> bool:
        """Remember that these are a site's; False: it has too many."""
        for address in addresses:
            if address in self.owners:
                continue
            if self.addresses.get(site, 0) >= MAX_ADDRESSES:
                self.forget_unknown()
                if self.addresses.get(site, 0) >= MAX_ADDRESSES:
                    return False
            self.owners[address] = site
            self.addresses[site] = self.addresses.get(site, 0) + 1
        return True

    def forget_unknown(self) -> None:
        """Forget the addresses about which no table has anything any more."""
        for address in [address for address in self.owners if self.look_up(address) is None]:
            self.forget_address(address)

    def forget_address(self, address: Address) -> None:
        site = self.owners.pop(address, None)
        if site is not None:
            self.addresses[site] -= 1

    @on_announcement(OriginForgotten)
    def forget(self, event: OriginForgotten) -> None:
        self.forget_address(event.origin)

    @on(ViewChange)
    def view_changed(self, event: ViewChange) -> None:
        """Members of this site stay its own when they crash, or a partition takes them out of the view. At every
        member: a relay that takes over must know them. Whatever another site has said of them before counts no more."""
        for member in event.view.members:
            if self.owners.get(member, self.own) != self.own:
                self.forget_address(member)
        self.add(self.own, event.view.members)

    # --- the bridge -------------------------------------------------------------------------------------------------

    def bridge_view_changed(self, view: View, certified: dict[Address, str]) -> None:
        self.certified = certified
        self.speaks_for = {address: site for address, site in self.speaks_for.items() if address in view}

    @on_announcement(BridgeGone)
    def bridge_gone(self, event: BridgeGone) -> None:
        self.speaks_for, self.certified, self.strays = {}, {}, {}
        if event.for_good:
            self.owners = {address: site for address, site in self.owners.items() if site == self.own}
            self.addresses = {self.own: len(self.owners)}

    def site_of(self, relay: Address) -> str | None:
        return self.speaks_for.get(relay)

    def shut_out(self, relay: Address) -> bool:
        site = self.speaks_for.get(relay)
        return site is not None and bool(self.site_refusal(site, known=True))

    def rights(self, site: str) -> SiteRights:
        return ALL_RIGHTS if self.trust is None else self.trust.rights(site)

    def may_receive_all(self, site: str) -> bool:
        return self.rights(site).receives == EVERYTHING

    # --- the trust file ---------------------------------------------------------------------------------------------

    @timer("trust")
    def reread(self) -> None:
        self.emit(ReadTrust(LOCAL, ((self.config.trust, TRUST_FILE, False),)))
        self.set_timer("trust", REREAD_NS)

    @on(TrustRead)
    def files_read(self, event: TrustRead) -> None:
        """Files that are trusted have changed, this one perhaps among them."""
        for path, data, problem in event.files:
            if path == self.config.trust:
                self.file_read(data, problem)

    def file_read(self, data: bytes | None, problem: str) -> None:
        """The file has changed. If it cannot be used (then data may be None), the former one counts."""
        try:
            if data is None:
                raise ConfigError(problem)
            trust = self.parsed(data)
        except ConfigError as error:
            self.count("trust_files_refused")
            self.emit(LogEntry("error", f"RELAY goes on with the former trust in other sites: {error}"))
            return
        if trust == self.trust:
            return
        self.trust = trust
        self.count("trust_files_read")
        self.emit(LogEntry("info", f"RELAY trusts the sites {', '.join(sorted(trust.sites)) or '(none)'}; revoked: "
                           f"{', '.join(trust.revoked) or 'none'}"))
        if self.group.is_relay:
            self.announce(TrustChanged())
            self.give_up_refused()

    @on_announcement(SyncCompleted)
    def synced(self, event: SyncCompleted) -> None:
        """The members' tables may have other sites, and some that the file does not list, or has revoked meanwhile."""
        self.learn_digests()
        self.give_up_refused()

    def give_up_refused(self) -> None:
        """Hold nothing for sites that do not count any more: what they have not acknowledged is lost for them."""
        for row in list(self.table):
            why = self.trust.refusal(row.name) if self.trust is not None else ""
            if why and row.status != OFFLINE:
                self.status.take_offline(row, why, "warning")
