"""Profile attacker-site: two sites, and a third one whose relay lies to them on the bridge.

The third site, LON, has the keys of the bridge, runs the production core and is known to the others; beside that its
relay forges headers (attack/site_attacker.py). For NYC and SFO all guarantees hold as if it were not there, and K8: it
speaks for itself alone. Of what is about LON nothing is judged. In odd seeds each site has a trust file, and in some of
these LON is revoked: what its members send two seconds later reaches nobody.

In every fourth seed (3, 7, ...) all members have ENCRYPT and certificates, which name their site. Then LON's relay may
call itself NYC from its first header on, with a stack to match: nothing of it counts but for LON, for which its
certificate is, and for which it says nothing.
"""
from __future__ import annotations

import json
from random import Random

import attrs

from jgroups_py.model.outputs import BRIDGE
from jgroups_py.model.units import NS_PER_S, millis, seconds
from jgroups_py.protocols.relay.sites.trust import FORMAT
from jgroups_py.sealing.identities import MEMBER, RELAY, Identity
from jgroups_py.simulator import history as h
from jgroups_py.simulator.attack.intruder import UncheckedAuth
from jgroups_py.simulator.attack.site_attacker import SiteAttacker
from jgroups_py.simulator.authority import VirtualAuthority
from jgroups_py.simulator.checkers import Violation, check
from jgroups_py.simulator.checkers.sites import site_authority, without_site
from jgroups_py.simulator.clocks import EPOCH_NS
from jgroups_py.simulator.faults.actions import Action, Begin, CrashOf, CrashOfCoordinator, Split, Starter
from jgroups_py.simulator.process import Process
from jgroups_py.simulator.profiles.base import Plan, in_order, span
from jgroups_py.simulator.profiles.sites import Replier, SitesProfile
from jgroups_py.simulator.secrets import with_auth, with_encrypt
from jgroups_py.simulator.world import World

LIAR, CLAIMED = "LON", "NYC"
KINDS = ("forward", "base", "hello", "view", "seen", "need", "probe", "goodbye", "refused", "standing", "interest",
         "unicast", "unicast seen", "receipts", "states")
STRIKE_NS = millis(20)
TRUST = "sites.trust"
REVOKED_WITHIN_NS = seconds(2)


def trust_file(sites: tuple[str, ...], revoked: tuple[str, ...] = ()) -> bytes:
    """A trust file that lets these sites do everything."""
    return json.dumps({"format": FORMAT, "sites": {site: {} for site in sites}, "revoked": list(revoked)}).encode()


@attrs.frozen
class SiteAttack(Action):
    """The relay of LON forges headers of these kinds for a while."""

    kind = "attack of a site"
    name: str
    kinds: tuple[str, ...]
    count: int
    for_ns: int

    def do(self, world: World, start: Starter) -> bool:
        rng = Random(f"{world.seed}/{self}")
        stop_ns = world.now_ns + self.for_ns

        def strike() -> None:
            process = world.processes.get(self.name)
            if process is not None and process.running:
                SiteAttacker(world, process, rng).strike(rng.choice(self.kinds), rng.randint(1, self.count))
            if world.now_ns < stop_ns:
                world.after(STRIKE_NS, strike)
        strike()
        return True

    def describe(self) -> str:
        return f"the relay of {LIAR} forges {', '.join(self.kinds)} for {self.for_ns / NS_PER_S:.3f} s"


@attrs.frozen
class Revoke(Action):
    """NYC and SFO revoke LON in their trust files."""

    kind = "revocation of a site"

    def do(self, world: World, start: Starter) -> bool:
        world.files[TRUST] = trust_file(("NYC", "SFO", LIAR), (LIAR,))
        return True

    def describe(self) -> str:
        return f"{LIAR} is revoked"


class ClaimingAuth(UncheckedAuth):
    """AUTH of a relay whose stack names another site than its certificate."""

    def unsuited(self, identity: Identity) -> str:
        return ""


class AttackerSiteProfile(SitesProfile):
    """See the module."""

    name = "attacker-site"
    settings: tuple[tuple[str, object], ...] = (("lost_after_ns", seconds(20)),)

    def make_plan(self) -> Plan:
        rng = self.rng
        sites = self.draw_sites(2, 2, 3)
        self.liar = "Z"
        sites[LIAR] = (self.liar,)
        self.sites, self.site_of[self.liar] = sites, LIAR
        self.members = list(self.site_of)
        self.trusted = self.seed % 2 == 1
        self.certified = self.seed % 4 == 3
        self.claims = self.certified and Random(f"{self.seed}/certified").random() < 0.7
        stop_ns = span(rng, 12, 20)
        faults: list[Action] = []
        for _ in range(rng.randint(2, 6)):
            kinds = tuple(rng.sample(KINDS, rng.choice((1, 1, 2, 3))))
            faults.append(SiteAttack(rng.randrange(seconds(1), stop_ns), self.liar, kinds, rng.choice((1, 3, 8)),
                                     span(rng, 0.2, 3)))
        if rng.random() < 0.5:
            at_ns, name = span(rng, 2, 8), rng.choice([name for name in self.members if name != self.liar])
            crash = CrashOfCoordinator(at_ns, name) if rng.random() < 0.6 else CrashOf(at_ns, name)
            # Whoever was the coordinator starts again; the others run, and Begin does nothing for them.
            faults += [crash, *(Begin(at_ns + seconds(3), other) for other in sites[self.site_of[name]])]
        self.revoked_ns = span(rng, 4, 9) if self.trusted and rng.random() < 0.5 else None
        if self.revoked_ns is not None:
            faults.append(Revoke(self.revoked_ns))
        faults += self.draw_cuts(stop_ns)
        # L is about the time after the last attack, so none goes on when all has healed.
        faults = [attrs.evolve(fault, for_ns=min(fault.for_ns, stop_ns - fault.at_ns))
                  if isinstance(fault, SiteAttack) else fault for fault in faults]
        begins = [Begin(rng.randrange(millis(500)), name) for name in self.members]
        messages = self.draw_messages(faults, stop_ns, rng.randint(20, 50), 0.3)
        return Plan(sites, in_order(faults), in_order([*begins, *messages]), stop_ns)

    def draw_cuts(self, stop_ns: int) -> list[Action]:
        """In every third seed the bridge is cut between the two sites for a while, and a member starts again meanwhile:
        LON has its address before the other site does."""
        rng = Random(f"{self.seed}/cuts")
        if self.seed % 3:
            return []
        at_ns, for_ns = rng.randrange(seconds(3), stop_ns - seconds(4)), span(rng, 1, 4)
        here, there = (names for site, names in self.sites.items() if site != LIAR)
        name = rng.choice((*here, *there))
        restart_ns = at_ns + for_ns // 4
        return [Split(at_ns, (here, there), for_ns, (BRIDGE,)), CrashOf(restart_ns, name),
                Begin(restart_ns + for_ns // 4, name),
                SiteAttack(restart_ns + for_ns // 4, self.liar, ("forward", "view", "unicast seen"), 8, for_ns)]

    def start(self, world: World, name: str) -> Process:
        world.untrusted[LIAR] = None
        world.files.setdefault(TRUST, trust_file(("NYC", "SFO", LIAR)))
        self.settings = AttackerSiteProfile.settings
        if self.trusted and self.site_of[name] != LIAR:
            self.settings = (*self.settings, ("trust", TRUST))
        if self.certified and not world.sealed:
            self.certify(world)
        if self.site_of[name] == LIAR and self.claims:
            made = self.start_as_claimed(world, name)
        else:
            made = super().start(world, name)
        if self.site_of[name] == LIAR:
            world.stop_audit(name)
        return made

    def certify(self, world: World) -> None:
        """All members have ENCRYPT, and certificates for their sites."""
        world.seal()
        world.authority = "x509"
        authority = VirtualAuthority(world.seed, "CA", EPOCH_NS)
        world.certify(authority.certificate, *(authority.member(name, site, (MEMBER, RELAY))
                                               for name, site in self.site_of.items()))

    def start_as_claimed(self, world: World, name: str) -> Process:
        """The relay of LON with a stack that calls its site NYC, and an AUTH that does not mind its certificate."""
        port = 45601 + list(self.plan.sites).index(LIAR)     # its group has NYC's name, and other keys
        hosts = ",".join(f"{world.ip(other)}[7900]" for other in self.members)
        local = with_encrypt(self.local_stack(CLAIMED, port), f"{LIAR}.keys")
        local = with_auth(local, f"{name}.pem", ClaimingAuth, authority="x509")
        world.keyring(f"{LIAR}.keys")
        return world.start(name, local, f"group of {LIAR}", bridge=self.bridge_stack(hosts), app=Replier(), site=LIAR)

    def rested(self, world: World) -> bool:
        honest = {site: names for site, names in self.plan.sites.items() if site != LIAR}
        live = [name for name in self.live(world) if name != self.liar]
        wanted = {site: sorted(world.address(name) for name in names if name in live)
                  for site, names in honest.items()}
        if any(here and not world.agreed(here) for here in
               ([name for name in names if name in live] for names in honest.values())):
            return False
        views = [world.process(name).global_view for name in live]
        return all(view is not None and {site: sorted(view.sites.get(site, ())) for site in wanted} == wanted
                   for view in views)

    def judged(self, world: World, found: list[Violation]) -> list[Violation]:
        core = [violation for violation in found if violation.guarantee == "core"]
        ended = [Violation("H1", f"{process.incarnation} ended: {process.closed_reason}", world.now_ns)
                 for process in world.all_processes if process.alive and process.node.closed and not process.leaving
                 and process.site != LIAR]
        return [*core, *ended, *site_authority(world.history, LIAR), *self.after_revocation(world),
                *check(without_site(world.history, LIAR))]

    def after_revocation(self, world: World) -> list[Violation]:
        """What was sent two seconds after the revocation, and delivered all the same."""
        if self.revoked_ns is None:
            return []
        history, late = world.history, dict[bytes, None]()
        found: list[Violation] = []
        for entry in history.entries:
            if isinstance(entry, h.MessageSent) and history.sites.get(entry.member) == LIAR and \
                    entry.at_ns > self.revoked_ns + REVOKED_WITHIN_NS:
                late.update(dict.fromkeys(entry.payloads))
            elif isinstance(entry, h.MessageDelivered) and history.sites.get(entry.member) != LIAR:
                found += [Violation("K8", f"{history.name(entry.member)} delivers {payload!r} of a revoked site",
                                    entry.at_ns) for payload in entry.payloads if payload in late]
        return found[:1]
