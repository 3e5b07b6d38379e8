"""The base of profiles with several sites: members with the shipped stacks, which answer messages of other sites."""
from __future__ import annotations

from functools import lru_cache
from string import ascii_lowercase, ascii_uppercase

import attrs

from jgroups_py.config.spec import StackSpec
from jgroups_py.model.batch import NO_RELAY, Batch
from jgroups_py.model.units import millis
from jgroups_py.protocols.relay.receipts.receipts import ALL_SITES
from jgroups_py.simulator.faults.actions import SendMessages, is_up
from jgroups_py.simulator.process import App, Process
from jgroups_py.simulator.profiles.base import Profile, stack
from jgroups_py.simulator.world import World

LETTERS = ascii_uppercase + ascii_lowercase
SITES = ("NYC", "SFO", "LON", "TYO", "SYD")
RECEIPT_EVERY = 3                        # about every third send to all has `until`, depending on its time
REPLY_EVERY = 7                          # every seventh message of another site is answered


class Replier(App):
    """Answers some messages of other sites by unicast."""

    world: World

    def delivered(self, batch: Batch) -> None:
        super().delivered(batch)
        if batch.dest is None and self.world.history.sites.get(batch.src) != self.process.site:
            for payload in batch.payloads:
                number = payload.rpartition(b"/")[2].rstrip(b".")
                if number.isdigit() and int(number) % REPLY_EVERY == 0:
                    self.world.after(millis(1), self._reply, batch)

    def _reply(self, batch: Batch) -> None:
        world, process = self.world, self.process
        if world.processes[process.name] is process and is_up(world, process.name) and process.view is not None:
            world.post(process.name, batch.src)


@lru_cache(maxsize=64)
def site_stack(site: str, port: int, settings: tuple[tuple[str, object], ...]) -> StackSpec:
    """The shipped stack of a site, with these settings of RELAY."""
    return with_relay(stack("nyc", (("site", site), ("mcast_port", str(port)))), settings)


def with_relay(spec: StackSpec, settings: tuple[tuple[str, object], ...]) -> StackSpec:
    """The stack with these settings of RELAY."""
    return StackSpec(tuple(
        attrs.evolve(layer, config=attrs.evolve(layer.config, **dict(settings))) if layer.name == "RELAY" else layer
        for layer in spec.layers), spec.source)


class SitesProfile(Profile):
    """Sites of named members. settings: fields of RELAY's configuration that differ from the shipped stack's."""

    settings: tuple[tuple[str, object], ...] = ()
    sites: dict[str, tuple[str, ...]]
    site_of: dict[str, str]

    def draw_sites(self, count: int, least: int, most: int) -> dict[str, tuple[str, ...]]:
        """Draw `count` sites of `least` to `most` members, named A, B, C, ... across all sites."""
        letters = iter(LETTERS)
        self.sites = {site: tuple(next(letters) for _ in range(self.rng.randint(least, most)))
                      for site in SITES[:count]}
        self.site_of = {name: site for site, names in self.sites.items() for name in names}
        self.members = list(self.site_of)
        return self.sites

    def elsewhere(self, site: str) -> tuple[str, ...]:
        """The members of all other sites."""
        return tuple(name for name in self.members if self.site_of[name] != site)

    def draw_message(self, at_ns: int, far_ratio: float) -> SendMessages:
        sent = super().draw_message(at_ns, far_ratio)
        stays = not sent.dest and self.rng.random() < 0.1
        sent = attrs.evolve(sent, flags=sent.flags | NO_RELAY) if stays else sent
        if sent.dest or sent.flags or at_ns % RECEIPT_EVERY:
            return sent
        wanted = (ALL_SITES, *self.sites)
        return attrs.evolve(sent, until=(wanted[at_ns // RECEIPT_EVERY % len(wanted)],))

    def start(self, world: World, name: str) -> Process:
        return self.start_with(world, name, Replier())

    def start_with(self, world: World, name: str, app: App) -> Process:
        """Start a member that runs an application."""
        site = self.site_of[name]
        port = 45601 + list(self.plan.sites).index(site)
        hosts = ",".join(f"{world.ip(other)}[7900]" for other in self.members)
        local = self.local_stack(site, port)
        bridge = self.bridge_stack(hosts)
        return world.start(name, local, f"group of {site}", bridge=bridge, app=app)

    def bridge_stack(self, hosts: str) -> StackSpec:
        """The stack of the bridge; hosts: where its members may be."""
        return stack("bridge", (("bridge_hosts", hosts), ("bridge_port_range", "0")))

    def local_stack(self, site: str, port: int) -> StackSpec:
        """The stack of a site's members."""
        return site_stack(site, port, self.settings)

    def rested(self, world: World) -> bool:
        live = self.live(world)
        wanted = {site: sorted(world.address(name) for name in names if name in live)
                  for site, names in self.plan.sites.items()}
        for names in self.plan.sites.values():
            here = [name for name in names if name in live]
            if here != [name for name in names if name in world.running()] or (here and not world.agreed(here)):
                return False
        for name in live:
            seen = world.process(name).global_view
            if seen is None or {site: sorted(seen.sites.get(site, ())) for site in wanted} != wanted:
                return False
        return True
