"""Intruders: processes that hold the group's keyring and run the stack of its members, but must not be in its views.

Each but the last lets every other process in, and does not check its own identity; what it shows depends on its kind:

    unknown     a key that is not among the known members
    name        a known key, under the name of another member
    copy        the credential of a member, without its key
    revoked     the key of a member until it is revoked; then it runs on

With certificates (profile certificates) `unknown` has one of another authority, and there are also

    expired     a certificate whose time is over
    expiring    a member whose certificate ends while it runs
    foreign     a certificate of the authority for another cluster
"""
from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import attrs

from jgroups_py.config.spec import StackSpec
from jgroups_py.model.address import ADDRESS_BYTES, Address
from jgroups_py.model.errors import ConfigError
from jgroups_py.model.events import Connect
from jgroups_py.protocols.auth import Auth
from jgroups_py.protocols.auth.authorities import KeysAuthority, X509Authority
from jgroups_py.sealing.certificates import encode_chain, parse_own_certificate
from jgroups_py.sealing.identities import Identity
from jgroups_py.simulator import history as h
from jgroups_py.simulator.checkers import Violation

if TYPE_CHECKING:
    from jgroups_py.simulator.world import World

UNKNOWN, NAME, COPY, REVOKED = "unknown", "name", "copy", "revoked"
INTRUDERS = (UNKNOWN, NAME, COPY, REVOKED)
EXPIRED, EXPIRING, FOREIGN = "expired", "expiring", "foreign"
COPIED = "A"                             # the member whose certificate is copied
READ_WITHIN_NS = 2 * 10**9               # after a revocation members have read the file, and let it in no more
EXCLUDED_WITHIN_NS = 10 * 10**9          # after that it is excluded, in a group that is whole


class UncheckedAuth(Auth):
    """It does not mind that its own certificate is for another cluster, or has expired."""

    def connecting(self, event: Connect) -> None:
        self.authority.connected(event.cluster)
        self.look()

    def tell_time(self, wall_ns: int) -> None:
        with contextlib.suppress(ConfigError):
            self.authority.clock(wall_ns)


class LaxAuth(UncheckedAuth):
    """AUTH of an intruder: it believes everybody, and itself."""

    def start(self) -> None:
        name, self.me = self.me.name, Address(self.me.raw, self.own_name())
        super().start()
        self.me = Address(self.me.raw, name)

    def own_name(self) -> str:
        """The name in its identity's file."""
        data = self.stack.secrets.file(self.config.identity, "identity", private=True)
        if self.config.authority == "x509":
            return parse_own_certificate(data).names[0].name
        return data.decode().split("name: ")[1].splitlines()[0]

    def refusal(self, source: bytes, credential: bytes, proof: bytes, transcript: bytes) -> str:
        self.identities[Address(source[:ADDRESS_BYTES])] = Identity("anybody")
        return ""

    def unsuited(self, identity: Identity) -> str:
        return ""

    def objection(self, member: Address) -> str:
        return ""

    def recheck(self) -> None:
        """It revokes nothing."""


class StayingAuth(UncheckedAuth):
    """It is a member like others, but for its own revocation, and that of others."""

    def recheck(self) -> None:
        """It revokes nothing."""


class CopyingAuth(LaxAuth):
    """It shows the credential of the first known member that it is not itself."""

    def credential(self) -> bytes:
        authority = self.authority
        if isinstance(authority, X509Authority):
            own = parse_own_certificate(self.stack.secrets.file(f"{COPIED}.pem", "identity", private=True))
            return encode_chain(own.chain)
        assert isinstance(authority, KeysAuthority), "intruders have keys"
        other = next(one for one in authority.known.members.values() if one.name != self.own_name())
        return bytes.fromhex(other.key.removeprefix("ed25519:"))


def intruding(spec: StackSpec, kind: str) -> StackSpec:
    """The stack of an intruder, from that of a member."""
    own = {COPY: CopyingAuth, REVOKED: StayingAuth, EXPIRING: StayingAuth}.get(kind, LaxAuth)
    layers = tuple(attrs.evolve(layer, own=own) if layer.name == "AUTH" else layer for layer in spec.layers)
    if layers == spec.layers:
        raise ConfigError("the stack of an intruder has AUTH")
    return attrs.evolve(spec, layers=layers)


@attrs.define
class IntruderWatch:
    """What is known of intruders. kinds: name of a process -> its kind; revoked_ns: name -> when its key was revoked;
    empty until then. behind_ns: how far wall clocks of members may be behind."""

    kinds: dict[str, str] = attrs.Factory(dict)
    revoked_ns: dict[str, int] = attrs.Factory(dict)
    behind_ns: int = 0

    def admission(self, world: World) -> list[Violation]:
        """K4: who is in a view was let in by AUTH, under its certified name, and is not revoked for long."""
        found: list[Violation] = []
        previous: dict[Address, tuple[Address, ...]] = {}
        for entry in world.history.entries:
            if not isinstance(entry, h.InstalledView) or world.by_address[entry.member].name in self.kinds:
                continue
            before = previous.get(entry.member, ())
            previous[entry.member] = entry.view.members
            for member in entry.view.members:
                reason = self.objection(world, member, entry.at_ns, member in before)
                if reason:
                    found.append(Violation("K4", f"{world.history.name(entry.member)} installs a view with {reason}",
                                           entry.at_ns))
        return found[:1]

    def objection(self, world: World, member: Address, at_ns: int, was_in: bool) -> str:
        """Why a member may not be in a view that is installed at this time."""
        process = world.by_address.get(member)
        if process is None:
            return f"{member}, which is no process"
        kind = self.kinds.get(process.name, "")
        revoked_ns = self.revoked_ns.get(process.name)
        allowed_ns = self.behind_ns + (EXCLUDED_WITHIN_NS if was_in else READ_WITHIN_NS)
        if kind == REVOKED and (revoked_ns is None or at_ns < revoked_ns + allowed_ns):
            kind = ""
        if kind:
            return f"{process.incarnation}, an intruder ({kind})"
        own = world.identities.get(process.name)
        if own is None or own.identity.name != member.name:
            return f"{process.incarnation} under the name {member.name!r}"
        return ""

    def without(self, history: h.History, world: World) -> h.History:
        """The history without intruders; one with a revoked key crashes when it is revoked."""
        kept = h.History()
        kept.__dict__.update(history.__dict__)
        gone = {process.me: self.revoked_ns.get(process.name, 0) for process in world.all_processes
                if process.name in self.kinds}
        kept.entries = []
        crashed: dict[Address, None] = {}
        for entry in history.entries:
            member = getattr(entry, "member", None)
            for other, at_ns in gone.items():
                if at_ns and entry.at_ns >= at_ns and other not in crashed:
                    crashed[other] = None
                    kept.entries.append(h.Crash(at_ns, other))
            if member not in gone or entry.at_ns < gone[member]:
                kept.entries.append(entry)
        return kept


__all__ = ["COPIED", "COPY", "EXPIRED", "EXPIRING", "FOREIGN", "INTRUDERS", "NAME", "REVOKED", "UNKNOWN",
           "IntruderWatch", "intruding"]
