"""AUTH: which members may join, and under which name.

Problem: with a keyring alone every process that has it is a member, under any name. Idea: the exchange of challenges by
which ENCRYPT, below, verifies that a sender is alive also proves its identity: each side proves that it holds the
secret behind a credential (authorities.py), and frames of a sender are dropped before. So joins, merges, discovery and
SWIM are covered alike. GMS asks this layer (port Identities) whether an address may be in a view under its name: it
must be the certified one.

Files of identities are read again when they change. A member whose key is revoked is suspected at once, its frames are
dropped, and ENCRYPT forgets it.

Place: directly above ENCRYPT. Source: JGroups AUTH.java. Deviations: both sides prove themselves, to all members and
not to the coordinator alone; a proof holds for one exchange; a credential is bound to a name.
"""
from __future__ import annotations

from typing import Final

from jgroups_py.model.address import ADDRESS_BYTES, Address, PhysicalAddress
from jgroups_py.model.counters import counter, declare, drop, figure
from jgroups_py.model.errors import ConfigError
from jgroups_py.model.events import (
    ChallengeMember,
    Connect,
    IdentityDecided,
    IdentityRevoked,
    Suspect,
    TokenChecked,
    TrustRead,
    ViewChange,
)
from jgroups_py.model.outputs import BRIDGE, CheckToken, LogEntry, NodeFailed, ReadTrust
from jgroups_py.model.ports import WAITING, AddressBook, Authenticator, Identities, SiteReporter
from jgroups_py.model.text import escaped
from jgroups_py.model.units import seconds
from jgroups_py.protocols.auth.authorities import AUTHORITIES as BY_FILES
from jgroups_py.protocols.auth.authorities import Authority
from jgroups_py.protocols.auth.config import AuthConfig
from jgroups_py.protocols.auth.tokens import TokenAuthority
from jgroups_py.sealing.identities import MEMBER, RELAY, Identity
from jgroups_py.sealing.primitives import require_library
from jgroups_py.stack.protocol import Protocol, on, timer

AUTHORITIES: Final[dict[str, type[TokenAuthority] | type[Authority]]] = {**BY_FILES, "token": TokenAuthority}
MAX_WAITING_SENDERS: Final = 128         # senders that are challenged again when a token was checked
SHOWN_BEFORE_NS: Final = seconds(600)    # so long before an identity ends it is to be shown again, or in half its time
MAX_NON_MEMBERS: Final = 2000            # identities of processes that are not in the view; the oldest are forgotten


class Auth(Protocol, Authenticator, Identities):
    """See the module. identities: address -> identity, for senders that have proven it."""

    control_only = True
    Config = AuthConfig
    config: AuthConfig
    COUNTERS = declare(
        counter("identities_verified", "Senders that have proven their identity."),
        drop("identities_refused", "Senders that have not proven a known member's identity: the log has the reason."),
        counter("tokens_checked", "Tokens about which the application was asked (authority=\"token\")."),
        counter("identities_revoked", "Members, and others, that are not believed any more."),
        drop("trust_refused_dropped", "Changes of AUTH's files that cannot be used; what was read before stays."),
        figure("identities", "Identities that are remembered."),
    )

    def start(self) -> None:
        require_library("AUTH")
        config = self.config
        self.authority: Authority = AUTHORITIES[config.authority](config, self.stack.secrets, self.me.name)
        relay: SiteReporter | None = self.stack.find(SiteReporter)
        self.site = relay.own_site() if relay is not None else ""        # "": this stack has no RELAY
        own = self.authority.own
        if own.name != self.me.name:
            raise ConfigError(f"AUTH: this member is called {self.me.name!r}, and its identity is that of "
                              f"{own.name!r}: they must be equal")
        reason = self.unsuited(own)
        if reason:
            raise ConfigError(f"AUTH: this member's own identity does not do here: {reason}")
        self.identities: dict[Address, Identity] = {}
        self.impostors: dict[Address, str] = {}                  # address -> how it contradicted itself
        self.members: tuple[Address, ...] = ()
        self.view_names: dict[Address, str] = {}             # member of the view -> its name there
        self.tokens: dict[int, tuple[bytes, str]] = {}       # number of a CheckToken -> digest of the token, its key
        self.token_number = 0
        self.waiting_senders: dict[bytes, None] = {}
        self.book: AddressBook | None = self.stack.find(AddressBook)
        self.wall_ns = 0                                     # of the wall clock, when it was told last
        self.again_ns: dict[Address, int] = {}               # when an identity that ends is to be shown again, by it
        self.own_problem = ""                                # of its own identity, as it was logged last

    def stats(self) -> dict[str, float]:
        return {**super().stats(), "identities": len(self.identities)}

    @on(Connect)
    def connecting(self, event: Connect) -> None:
        reason = self.authority.connected(event.cluster)
        if reason:
            self.emit(NodeFailed(f"AUTH: this member's own identity does not do here: {reason}"))
        self.look()

    @timer("look")
    def look(self) -> None:
        """Have the files read again if they have changed."""
        self.emit(ReadTrust(self.stack.net, self.authority.files))
        self.set_timer("look", self.config.reread_ns)

    @on(ViewChange)
    def view_changed(self, event: ViewChange) -> None:
        left = any(member not in event.view for member in self.members)
        self.members = event.view.members
        self.view_names = {member: member.name for member in self.members}
        self.bound()
        if left:
            self.recheck()

    def bound(self) -> None:
        """Forget the oldest identities of processes that are not in the view."""
        if len(self.identities) > len(self.members) + MAX_NON_MEMBERS:
            view = frozenset(self.members)
            for address in [address for address in self.identities if address not in view][:-MAX_NON_MEMBERS]:
                del self.identities[address]
                self.again_ns.pop(address, None)

    # --- asked by ENCRYPT -------------------------------------------------------------------------------------------

    def credential(self) -> bytes:
        return self.authority.credential()

    def prove(self, transcript: bytes) -> bytes:
        return self.authority.prove(transcript)

    def refusal(self, source: bytes, credential: bytes, proof: bytes, transcript: bytes) -> str:
        found = self.authority.verify(credential, proof, transcript)
        if found == WAITING:
            self.ask(source)
            return WAITING
        address = Address(source[:ADDRESS_BYTES])
        reason = found if isinstance(found, str) else \
            self.impostors.get(address) or self.unsuited(found) or self.owned_by_another(address, found)
        if reason or isinstance(found, str):
            self.drop("identities_refused", None, reason)
            self.warn(f"AUTH refused the process {source[:ADDRESS_BYTES].hex()}: {escaped(reason)}")
            return reason
        self.count("identities_verified")
        address = Address(address.raw, found.name)
        self.identities.pop(address, None)
        self.identities[address] = found
        ends_ns = self.authority.ends_ns(found)
        if ends_ns is not None:
            self.again_ns[address] = max(ends_ns - SHOWN_BEFORE_NS, (self.wall_ns + ends_ns) // 2)
        self.bound()
        return ""

    def owned_by_another(self, address: Address, identity: Identity) -> str:
        """Why an address is that of another identity; "": it is not. A member that proves its own identity under the
        address of another one would be believed as that one, and get its unicasts (K7). Names, not keys: a certificate
        may be renewed with another key."""
        known = self.identities.get(address)
        names = self.view_names.get(address, identity.name), identity.name if known is None else known.name
        other = next((name for name in names if name != identity.name), None)
        return "" if other is None else f"{identity} shows itself under the address of {escaped(other)!r}"

    # --- tokens -----------------------------------------------------------------------------------------------------

    def ask(self, source: bytes) -> None:
        """Have the application check the token of a sender, which waits."""
        authority = self.authority
        assert isinstance(authority, TokenAuthority), "no other one lets wait"
        for which, token, key in authority.to_ask:
            self.token_number += 1
            self.tokens[self.token_number] = which, key
            self.count("tokens_checked")
            self.emit(CheckToken(self.stack.net, self.token_number, self.config.check, token, key,
                                 self.config.check_timeout_ns))
        authority.to_ask.clear()
        if len(self.waiting_senders) < MAX_WAITING_SENDERS:
            self.waiting_senders[source] = None

    @on(TokenChecked)
    def token_checked(self, event: TokenChecked) -> None:
        """The application has checked a token: the senders that wait are challenged again."""
        asked = self.tokens.pop(event.number, None)
        if asked is None or not isinstance(self.authority, TokenAuthority):
            return
        self.authority.decided(*asked, event.answer, event.problem)
        senders, self.waiting_senders = tuple(self.waiting_senders), {}
        self.pass_down(IdentityDecided(senders))

    def unsuited(self, identity: Identity) -> str:
        """Why a verified identity is not allowed on this network; "": it is."""
        wanted = RELAY if self.stack.net == BRIDGE else MEMBER
        if wanted not in identity.roles:
            return f"{identity} has not the role {wanted!r}"
        own = self.authority.own
        if wanted == MEMBER and own.site and identity.site and own.site != identity.site:
            return f"{identity} is of another site than {own}"
        if self.site and RELAY not in identity.roles:
            return f"{identity} has not the role {RELAY!r}: each member of a site may become its relay"
        if self.site and identity.site and identity.site != self.site:
            return f"{identity} is of another site than this one, {self.site} (RELAY's property site)"
        return ""

    # --- asked by GMS -----------------------------------------------------------------------------------------------

    def objection(self, member: Address) -> str:
        if member != self.me and member not in self.identities:
            return "it has not proven its identity"
        return self.contradiction(member)

    def contradiction(self, member: Address) -> str:
        found = self.identity_of(member)
        if found is not None and found.name != member.name:
            return f"it calls itself {escaped(member.name)!r}, and its identity is that of {found}"
        return ""

    def disbelieve(self, member: Address, why: str) -> None:
        if len(self.impostors) >= MAX_NON_MEMBERS:
            del self.impostors[next(iter(self.impostors))]
        self.impostors[member] = why
        self.later(self.recheck)

    def identity_of(self, member: Address) -> Identity | None:
        return self.authority.own if member == self.me else self.identities.get(member)

    def challenge_member(self, member: Address, physical: PhysicalAddress) -> None:
        self.pass_down(ChallengeMember(member, physical))

    # --- files ------------------------------------------------------------------------------------------------------

    @on(TrustRead)
    def trust_read(self, event: TrustRead) -> None:
        """Files have changed: their contents count from now on, for members of the view too."""
        for path, data, problem in event.files:
            if not any(path == spec[0] for spec in self.authority.files):
                continue
            try:
                if data is None:
                    raise ConfigError(problem)
                self.authority.changed(path, data)
            except ConfigError as error:
                self.drop("trust_refused_dropped", None, str(error))
                self.emit(LogEntry("error", f"AUTH goes on with what it read before: {error}"))
        self.tell_time(event.wall_ns)
        self.recheck()
        self.challenge_those_that_end()

    def tell_time(self, wall_ns: int) -> None:
        """The time of the wall clock, for what is valid for a time only."""
        self.wall_ns = wall_ns
        try:
            problem = self.authority.clock(wall_ns)
        except ConfigError as error:
            return self.emit(NodeFailed(f"AUTH: {error}"))
        if problem and problem != self.own_problem:
            self.emit(LogEntry("warning", f"AUTH: {problem}"))
        self.own_problem = problem
        return None

    def challenge_those_that_end(self) -> None:
        """Members whose identity soon ends are challenged again, as they may have a new certificate or token by now. If
        they were not, all members would be excluded when the ones end that they showed first."""
        for member in self.members:
            at_ns, identity = self.again_ns.get(member), self.identities.get(member)
            physical = self.book.physical_of(member) if self.book is not None else None
            if at_ns is None or identity is None or physical is None or self.wall_ns < at_ns:
                continue
            left_ns = (self.authority.ends_ns(identity) or 0) - self.wall_ns
            self.again_ns[member] = self.wall_ns + max(left_ns // 10, self.config.reread_ns)
            self.pass_down(ChallengeMember(member, physical))

    def recheck(self) -> None:
        """Revoke the verified identities that the files do not allow any more."""
        gone: list[Address] = []
        for address, identity in self.identities.items():
            reason = self.impostors.get(address) or self.authority.revoked(identity) or self.unsuited(identity) or (
                self.authority.outdated(identity) if address not in self.view_names else "")
            if reason:
                gone.append(address)
                self.emit(LogEntry("warning", f"AUTH does not believe {escaped(address.name)} any more: {reason}"))
        if not gone:
            return
        for address in gone:
            del self.identities[address]
            self.again_ns.pop(address, None)
        self.count("identities_revoked", len(gone))
        self.pass_down(IdentityRevoked(tuple(gone)))
        members = tuple(address for address in gone if address in self.members)
        if members:
            # Certain: its frames are dropped from now on, so it could not show that it runs.
            self.pass_up(Suspect(members, certain=True))
