"""Profile certificates: the worlds of profile auth with certificates (AUTH authority="x509"), and roles.

Intruders hold the keyring, and a certificate of another authority, one for another cluster, one that has expired, one
under another name, a copy without its key, or one that is revoked, or expires, while they run. Members of sites that
have not the role operator, and such that have it, give orders; the former must change nothing (K2).

In two of five seeds (1, 3, 6, 8, ...) of a group the wall clocks of its hosts are some seconds off and run fast
or slow, and that of one host is off by 40 days for a while, which is longer than certificates are valid: that member
believes nobody, and comes back. K4 then has as much more time as clocks are behind.
"""
from __future__ import annotations

import re
from collections.abc import Iterator
from random import Random

import attrs

from jgroups_py.model.units import millis, seconds
from jgroups_py.sealing.identities import MEMBER, OPERATOR, RELAY
from jgroups_py.simulator import history as h
from jgroups_py.simulator.attack.intruder import (
    COPIED,
    COPY,
    EXPIRED,
    EXPIRING,
    FOREIGN,
    NAME,
    REVOKED,
    UNKNOWN,
    intruding,
)
from jgroups_py.simulator.authority import VirtualAuthority
from jgroups_py.simulator.checkers import Violation
from jgroups_py.simulator.clocks import EPOCH_NS
from jgroups_py.simulator.faults.actions import Action, Starter
from jgroups_py.simulator.faults.clock_faults import ClockSet
from jgroups_py.simulator.process import App, Process
from jgroups_py.simulator.profiles.auth import AuthProfile, Intrude
from jgroups_py.simulator.profiles.base import span, stack
from jgroups_py.simulator.secrets import TRUST, with_auth, with_encrypt
from jgroups_py.simulator.world import World

DRIFTS = (1, 3)                          # seed % 5: wall clocks differ
OFF_NS, RATE = seconds(2), 0.1           # the most that a clock is off at first, and by which it is fast or slow
BEHIND_NS = seconds(6)                   # so a clock is at most so far behind within 40 s
ASTRAY_NS = 40 * 86400 * seconds(1)
KINDS = (UNKNOWN, NAME, COPY, REVOKED, EXPIRED, EXPIRING, FOREIGN)
OBEYED = re.compile(r"order obeyed: (?P<verb>\S+) \S+, of (?P<name>\S+?)(@\S*)?$")
DONE = re.compile(r"answers the operator: refused: (?P<name>\S+?)(@\S*)? has not the role")


@attrs.frozen
class GiveOrder(Action):
    """An order about another site is given at a member."""

    kind = "order"
    name: str
    verb: str
    site: str

    def do(self, world: World, start: Starter) -> bool:
        if self.name not in world.processes or not world.processes[self.name].running:
            return False
        world.order(self.name, self.verb, self.site)
        return True

    def describe(self) -> str:
        return f"{self.verb} {self.site} is ordered at {self.name}"


class CertificatesProfile(AuthProfile):
    """By seed % 3 a group on UDP, on TCP, or two sites, with certificates, intruders, and orders between sites."""

    name = "certificates"

    def failures(self, sites: dict[str, tuple[str, ...]], stop_ns: int) -> Iterator[Action]:
        # Those of AuthProfile but for its own intruders.
        yield from super(AuthProfile, self).failures(sites, stop_ns)
        rng = Random(f"{self.seed}/certificates")
        self.operators = {name: rng.random() < 0.5 for name in self.members}
        self.astray: tuple[str, int, int] = ("", 0, 0)       # the member with a clock astray, from when, until when
        if self.world_kind == "sites":
            names = list(sites)
            for _ in range(rng.randint(1, 6)):
                name = rng.choice(self.members)
                other = names[1] if self.site_of[name] == names[0] else names[0]
                # What an operator may order has no effect on a site that is UP, so that all guarantees can be judged.
                verb = "online" if self.operators[name] else rng.choice(("offline", "drain", "hold"))
                yield GiveOrder(rng.randrange(seconds(1), stop_ns), name, verb, other)
            return
        for number, what in enumerate(rng.sample(KINDS, rng.randint(1, 3))):
            name = f"Eve{number}"
            as_name = COPIED if what == COPY else rng.choice(self.members) if what == NAME else name
            yield from self.intrusion(Intrude(rng.randrange(millis(500), stop_ns), name, what, as_name), rng, stop_ns,
                                      REVOKED if what == EXPIRING else what)
        yield from self.clock_faults(stop_ns)

    def clock_faults(self, stop_ns: int) -> Iterator[Action]:
        """Wall clocks that drift, and one that is astray for a while."""
        if self.seed % 5 not in DRIFTS:
            return
        rng = Random(f"{self.seed}/clocks")
        self.watch.behind_ns = BEHIND_NS
        for name in self.members:
            if rng.random() < 0.7:
                yield ClockSet(rng.randrange(millis(1500), stop_ns), name, rng.randint(-OFF_NS, OFF_NS),
                               1 + rng.uniform(-RATE, RATE))
        name, at_ns = rng.choice(self.members), span(rng, 2, 6)
        self.astray = name, at_ns, at_ns + span(rng, 1, 6)
        yield ClockSet(at_ns, name, rng.choice((-1, 1)) * ASTRAY_NS)
        yield ClockSet(self.astray[2], name, 0)

    def start(self, world: World, name: str) -> Process:
        astray, from_ns, until_ns = self.astray
        if name == astray and from_ns <= world.now_ns < until_ns:
            # A member that starts with such a clock ends with an error (tests/unit/protocols/test_auth_x509.py).
            ClockSet(world.now_ns, name, 0).do(world, lambda other: None)
        return super().start(world, name)

    def enroll(self, world: World) -> None:
        """Give members and intruders their certificates."""
        authority = VirtualAuthority(world.seed, "CA", EPOCH_NS)
        other = VirtualAuthority(world.seed, "other CA", EPOCH_NS)
        world.authority = "x509"
        world.certify(authority.certificate, *(authority.member(
            member, self.site_of[member], (MEMBER, RELAY, OPERATOR) if self.operators[member] else (MEMBER, RELAY))
            for member in self.members))
        rng = Random(f"{self.seed}/expiry")
        for action in self.intruders:
            roles, what = (MEMBER, RELAY), action.what
            if what == UNKNOWN:
                made = other.member(action.name, "", roles)
            elif what == FOREIGN:
                made = authority.member(action.name, "", roles, cluster="another")
            elif what == EXPIRED:
                made = authority.member(action.name, "", roles, until_ns=EPOCH_NS - seconds(2))
            elif what == EXPIRING:
                until_ns = EPOCH_NS + (action.at_ns + rng.randrange(seconds(8))) // seconds(1) * seconds(1)
                made = authority.member(action.name, "", roles, until_ns=until_ns)
                self.watch.revoked_ns[action.name] = until_ns - EPOCH_NS
            else:
                made = authority.member(action.name, "", roles)
            world.files[f"{action.name}.pem"] = made.file
            if what in (NAME, REVOKED, EXPIRING, COPY):
                world.identities[action.name] = made
            if what == UNKNOWN:
                world.files[f"{action.name}.{TRUST}"] = other.certificate.encode()

    def start_intruder(self, world: World, action: Intrude) -> Process:
        properties = {} if self.world_kind == "udp" else {
            "initial_hosts": ",".join(f"{world.ip(other)}[7800]" for other in self.members[:3]), "port_range": "0"}
        spec = stack(self.world_kind, tuple(properties.items()))
        spec = with_auth(with_encrypt(spec, "group.keys", *world.encrypt_options), f"{action.name}.pem",
                         authority="x509")
        return world.start(action.name, intruding(spec, action.what), app=App(), shown=action.as_name)

    def judged(self, world: World, found: list[Violation]) -> list[Violation]:
        return [*super().judged(world, found), *self.orders(world)]

    def orders(self, world: World) -> list[Violation]:
        """K2 for orders: none is obeyed of a member that is no operator, and none refused of one that is."""
        wrong = []
        for entry in world.history.entries:
            if isinstance(entry, h.Remark):
                obeyed, refused = OBEYED.search(entry.text), DONE.search(entry.text)
                if obeyed and not self.operators.get(obeyed["name"]):
                    text = f"the order of {obeyed['name']}, no operator, is obeyed"
                    wrong.append(Violation("K2", text, entry.at_ns))
                if refused and self.operators.get(refused["name"]):
                    text = f"the order of {refused['name']}, an operator, is refused"
                    wrong.append(Violation("K2", text, entry.at_ns))
        return wrong[:1]
