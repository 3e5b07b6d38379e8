"""Profile tokens: the worlds of profile auth with tokens (AUTH authority="token"), and an issuer that may fail.

Checks of tokens fail, are slow, or take longer than they may, for some seconds at a time. The tokens of members end
while they run: most are renewed in time, some late, so that their members are excluded and come back. Intruders show a
token that is forged, of another member (copied, or under its name), or over, or a key that is revoked.
"""
from __future__ import annotations

from collections.abc import Iterator
from random import Random

import attrs

from jgroups_py.model.units import NS_PER_S, millis, seconds
from jgroups_py.sealing.identities import OwnIdentity
from jgroups_py.simulator.attack.intruder import COPY, EXPIRED, INTRUDERS, NAME, REVOKED, UNKNOWN, intruding
from jgroups_py.simulator.clocks import EPOCH_NS
from jgroups_py.simulator.faults.actions import Action, Starter
from jgroups_py.simulator.process import App, Process
from jgroups_py.simulator.profiles.auth import AuthProfile, Intrude
from jgroups_py.simulator.profiles.base import Plan, in_order, span, stack
from jgroups_py.simulator.secrets import token_of, virtual_identity, with_auth, with_encrypt
from jgroups_py.simulator.tokens import TokenService
from jgroups_py.simulator.world import World

LONG_NS = seconds(900)


@attrs.frozen
class Outage(Action):
    """Checks of tokens fail, or are slow, for a while. failing_ratio: how many fail; slow_ns: the others take up to so
    long."""

    kind = "outage of the token service"
    failing_ratio: float
    slow_ns: int
    for_ns: int

    def do(self, world: World, start: Starter) -> bool:
        world.token_service = TokenService(Random(f"{world.seed}/{self}"), world.now_ns + self.for_ns,
                                           self.failing_ratio, self.slow_ns)
        return True

    def describe(self) -> str:
        return (f"{self.failing_ratio:.0%} of the checks of tokens fail for {self.for_ns / NS_PER_S:.3f} s, others "
                f"take up to {self.slow_ns / NS_PER_S:.3f} s")


@attrs.frozen
class RenewToken(Action):
    """A member gets a new token."""

    kind = "new token"
    name: str

    def do(self, world: World, start: Starter) -> bool:
        own = world.identities.get(self.name)
        if own is None:
            return False                                     # no member has started yet
        assert isinstance(own, OwnIdentity), "tokens are for keys"
        world.give_token(own, EPOCH_NS + world.now_ns + LONG_NS)
        return True

    def describe(self) -> str:
        return f"{self.name} gets a new token"


class TokensProfile(AuthProfile):
    """By seed % 3 a group on UDP, on TCP, or two sites, with tokens."""

    name = "tokens"
    kinds = (*INTRUDERS, EXPIRED)

    def make_plan(self) -> Plan:
        plan = super().make_plan()
        rng = Random(f"{self.seed}/tokens")
        self.ends_ns: dict[str, int] = {}
        added: list[Action] = [Outage(rng.randrange(plan.stop_ns), rng.choice((0.0, 0.3, 1.0)),
                                      rng.choice((millis(20), seconds(1), seconds(4))), span(rng, 0.5, 6))
                               for _ in range(rng.randint(0, 3))]
        for name in self.members:
            self.ends_ns[name] = LONG_NS
            if rng.random() < 0.4:
                end_ns = rng.randrange(seconds(4), plan.stop_ns)
                self.ends_ns[name] = end_ns
                late = rng.random() < 0.2
                renewed_ns = end_ns + span(rng, 0, 2) if late else rng.randrange(max(1, end_ns - seconds(4)), end_ns)
                added.append(RenewToken(min(renewed_ns, plan.stop_ns), name))
        return attrs.evolve(plan, faults=in_order([*plan.faults, *added]))

    def failures(self, sites: dict[str, tuple[str, ...]], stop_ns: int) -> Iterator[Action]:
        # Those of AuthProfile but for its own intruders.
        yield from super(AuthProfile, self).failures(sites, stop_ns)
        rng = Random(f"{self.seed}/intruders with tokens")
        if self.world_kind == "sites":
            return
        for number, what in enumerate(rng.sample(self.kinds, rng.randint(1, 3))):
            name = f"Eve{number}"
            at_ns = rng.randrange(millis(500), stop_ns)
            yield from self.intrusion(
                Intrude(at_ns, name, what, rng.choice(self.members) if what == NAME else name), rng, stop_ns)

    def enroll(self, world: World) -> None:
        """Give members and intruders their keys and tokens."""
        world.authority = "token"
        for member in self.members:
            world.enroll(virtual_identity(world.seed, member, self.site_of[member]))
            world.give_token(virtual_identity(world.seed, member, self.site_of[member]),
                             EPOCH_NS + self.ends_ns[member])
        for action in self.intruders:
            own, what = virtual_identity(world.seed, action.name), action.what
            world.files[f"{action.name}.pem"] = own.as_text().encode()
            world.give_token(own, EPOCH_NS - seconds(2) if what == EXPIRED else EPOCH_NS + LONG_NS)
            path = token_of(f"{action.name}.pem")
            if what == UNKNOWN:
                tag = world.files[path][-2:]                 # the end of the issuer's
                world.files[path] = world.files[path][:-2] + (b"00" if tag != b"00" else b"ff")
            elif what == COPY:
                world.files[path] = world.files[token_of(f"{self.members[0]}.pem")]
            if what in (NAME, REVOKED):
                world.identities[action.name] = own

    def start_intruder(self, world: World, action: Intrude) -> Process:
        properties = {} if self.world_kind == "udp" else {
            "initial_hosts": ",".join(f"{world.ip(other)}[7800]" for other in self.members[:3]), "port_range": "0"}
        spec = stack(self.world_kind, tuple(properties.items()))
        spec = with_auth(with_encrypt(spec, "group.keys", *world.encrypt_options), f"{action.name}.pem",
                         authority="token")
        return world.start(action.name, intruding(spec, UNKNOWN if action.what == COPY else action.what), app=App(),
                           shown=action.as_name)
