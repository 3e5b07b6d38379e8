"""GroupFederation: the federation of a broker whose other nodes are members of one group.

The channel runs in the event loop of the server. The members of the view are the nodes that can be reached; one that
is gone is still listed, as failed or left. The stack defines how members find each other.
"""
from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from time import monotonic_ns
from typing import Any, Self

from jgroups_py.blocks.mqtt.federation.channel_link import ChannelLink
from jgroups_py.blocks.mqtt.federation.core import FederationCore
from jgroups_py.blocks.mqtt.server.dial import LEFT as SERF_LEFT
from jgroups_py.blocks.mqtt.server.dial import dial_all, place_text
from jgroups_py.blocks.mqtt.server.rest import JoinFailed
from jgroups_py.channel.aio import AsyncChannel
from jgroups_py.channel.block import Block
from jgroups_py.config.spec import StackSpec
from jgroups_py.model.address import PhysicalAddress
from jgroups_py.model.counters import Counters
from jgroups_py.model.errors import ChannelError, ConfigError
from jgroups_py.model.events import SearchAt
from jgroups_py.model.outputs import Output, ViewInstalled
from jgroups_py.model.ports import SiteReporter
from jgroups_py.model.units import NS_PER_S
from jgroups_py.node.node import Node
from jgroups_py.node.reports import members_report

MAX_GONE = 1_000
"""Members that are listed after they are gone; the oldest are forgotten."""
REPORT_SECONDS = 2.0
DRAIN_SECONDS = 2.0
"""How long a node that ends waits until its peers have acknowledged what is queued for them."""
SITES_SECONDS = 2.0
"""How long a node that starts waits until another site is known, before it serves clients."""
LOOK_SECONDS = 0.02
JOIN_SECONDS, SEARCH_SECONDS = 10.0, 0.6
"""How long a request to join waits for a member, and searches again."""
HOST_LISTS = ("TCPPING", "DNS_PING", "KUBE_PING")
ALIVE, LEFT, FAILED = "STATUS_ALIVE", "STATUS_LEFT", "STATUS_FAILED"


class GroupFederation(Block):
    """See the module. failed: is called with a reason if the channel ends by itself; settle: carries out the broker's
    outputs after a call of it."""

    def __init__(
        self, core: FederationCore, stack: StackSpec, cluster: str, settle: Callable[[], None],
        failed: Callable[[str], None],
    ) -> None:
        self.core = core
        self.channel = AsyncChannel(stack, core.options.name)
        self._cluster = cluster
        self._settle = settle
        self._failed = failed
        self._link: ChannelLink | None = None
        self._gone: dict[str, dict[str, Any]] = {}       # name -> as `members` shows it
        self._last: dict[str, dict[str, Any]] = {}       # as `members` showed them last
        self._is_leaving = False
        self.channel.attach(self)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Join the group; with RELAY, also wait up to SITES_SECONDS until another site is known.

        Raises:
            ConfigError: an address cannot be used, or the group was neither joined nor founded in time.
        """
        self._link = ChannelLink(self.channel, self.core, self._settle)
        self._link.ended = self._channel_ended
        try:
            await self.channel.connect(self._cluster)
        except ChannelError as error:
            self._link.close()
            raise ConfigError(f"group {self._cluster!r} with stack {self.channel.spec.source}: {error}") from None
        with contextlib.suppress(TimeoutError):          # there may be no other site yet
            async with asyncio.timeout(SITES_SECONDS):
                while not self._link.is_ready:
                    await asyncio.sleep(LOOK_SECONDS)

    async def stop(self) -> None:
        """Leave when the peers have acknowledged what is queued for them, or after DRAIN_SECONDS."""
        if self._is_leaving:
            return
        try:
            async with asyncio.timeout(DRAIN_SECONDS):
                while any(peer.is_up and peer.stream.size for peer in self.core.peers.values()):
                    await asyncio.sleep(LOOK_SECONDS)
        except TimeoutError:
            pass
        await self._leave()

    async def _leave(self) -> None:
        self._is_leaving = True
        await self.channel.close()
        if self._link is not None:
            self._link.close()

    def _channel_ended(self) -> None:
        if not self._is_leaving:
            self._failed(f"the channel of group {self._cluster!r} is closed")

    # --- members ------------------------------------------------------------------------------------------------------

    def early(self, outputs: Sequence[Output]) -> Sequence[Output]:
        for output in outputs:
            if isinstance(output, ViewInstalled):
                present = dict.fromkeys(member.name for member in output.view.members)
                failed = {member.name for member in output.failed}
                for name, facts in self._last.items():
                    if name not in present:
                        self._gone[name] = {**facts, "status": FAILED if name in failed else LEFT}
                for name in present:
                    self._gone.pop(name, None)
                    self._last.setdefault(name, _member(name, "", ALIVE))
                self._last = {name: facts for name, facts in self._last.items() if name in present}
                while len(self._gone) > MAX_GONE:
                    del self._gone[next(iter(self._gone))]
        return outputs

    async def members(self) -> list[dict[str, Any]]:
        """The members of the view, then those that are gone: name, addr, tags, status."""
        found = await self._ask(members_report)
        if found is None:
            me = self.core.options.name
            return [{**facts, "status": LEFT if self._is_leaving and name == me else facts["status"]}
                    for name, facts in {**self._last, **self._gone}.items()]
        tags = {} if self.channel.site is None else {"site": self.channel.site}
        self._last = {each["name"]: {**_member(each["name"], each["address"], ALIVE), "tags": {**tags, **each["tags"]}}
                      for each in found["members"]}
        return [*self._last.values(), *(facts for name, facts in self._gone.items() if name not in self._last)]

    async def _ask(self, question: Callable[[Node], dict[str, Any]]) -> dict[str, Any] | None:
        """The result of a question to the channel's node; None if the channel has left, or leaves."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[dict[str, Any] | None] = loop.create_future()

        def answered(found: dict[str, Any] | None) -> None:
            loop.call_soon_threadsafe(lambda: None if answer.done() else answer.set_result(found))
        try:
            self.channel.connection().ask(question, answered)
            async with asyncio.timeout(REPORT_SECONDS):
                return await answer
        except (ChannelError, TimeoutError):
            return None

    async def join(self, places: Sequence[PhysicalAddress]) -> None:
        """Search for members at these places too, (address or name, port) each, until one is in the view; they are
        searched there from now on. Raises JoinFailed: nobody listens there, or no member has joined in time."""
        if self._is_leaving:
            raise JoinFailed(SERF_LEFT)
        spec = self.channel.spec
        if places and all(spec.config_of(name) is None for name in HOST_LISTS):
            raise JoinFailed(f"the stack {spec.source} finds members by itself: one with {' or '.join(HOST_LISTS)} "
                             "can be told where they are")
        reached = await dial_all(places)
        wanted = {place_text(address) for address in reached.values()}
        before = {each["name"] for each in await self.members() if each["status"] == ALIVE}
        until_ns = monotonic_ns() + round(JOIN_SECONDS * NS_PER_S)
        while reached:
            self.channel.inject(SearchAt(tuple(reached.values())))
            await asyncio.sleep(SEARCH_SECONDS)
            members = [each for each in await self.members() if each["status"] == ALIVE]
            if any(each["addr"] in wanted or each["name"] not in before for each in members):
                return
            if monotonic_ns() >= until_ns:
                raise JoinFailed(f"{', '.join(wanted)}: no member of {self._cluster!r} has joined within "
                                 f"{JOIN_SECONDS:g} s")

    async def leave(self) -> None:
        """Leave the group for good: this node serves its own clients alone, until it is started again."""
        await self._leave()

    def force_leave(self, name: str) -> None:
        """A member that failed counts as left."""
        if name in self._gone:
            self._gone[name]["status"] = LEFT

    # --- for operators ------------------------------------------------------------------------------------------------

    def report(self) -> list[dict[str, Any]]:
        """Each peer, for JSON."""
        found = []
        for each in self.core.report(monotonic_ns()):
            state, _, why = str(each["state"]).partition(": ")
            found.append({**each, "state": state, "why": why, "queued_bytes": each["bytes"],
                          "alive": state not in ("away", "cut")})
        return found

    def interest_in(self, topic: str) -> Mapping[str, Sequence[str]]:
        """Peer -> its filters that match."""
        return self.core.interest_of_peers.filters_for(topic)

    def sites_for(self, topic: str) -> dict[str, Any]:
        """Whether a topic leaves this site, and what each other site does with it."""
        return self.core.sites.way_of(topic)

    def where(self, client_id: str) -> dict[str, Any] | None:
        """The node that has the session of a client id, and the nodes that have copies of it."""
        return self.core.where(client_id)

    async def sites(self, topic: str) -> dict[str, Any]:
        """The own site, its relay, and each other site: its status, its interest, and RELAY's ledger (numbered =
        acknowledged + held + lost)."""
        if self.channel.site is None:
            return {"site": "", "relay": None, "sites": []}

        def ask(node: Node) -> dict[str, Any]:
            reporter: SiteReporter = node.local.find(SiteReporter)
            return reporter.site_report()
        answer = await self._ask(ask) or {}
        ledger, found = answer.get("sites", {}), []
        for each in self.core.sites.report(topic):
            site = ledger.get(each["site"], {})
            found.append({**each, **{name: site.get(name, 0) for name in ("numbered", "acknowledged", "held", "lost")},
                          "origins": site.get("origins", [])})
        rules = {"topics_in": list(self.core.options.topics_in), "topics_out": list(self.core.options.topics_out)}
        return {"site": self.channel.site, "relay": answer.get("relay"), **rules, "sites": found}

    @property
    def counters(self) -> Counters:
        """Of the federation."""
        return self.core.counters


def _member(name: str, address: str, status: str) -> dict[str, Any]:
    return {"name": name, "addr": address, "tags": {}, "status": status}
