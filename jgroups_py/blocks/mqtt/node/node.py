"""BrokerNode: a broker as its file describes it, in the running event loop.

    async with BrokerNode(file, options, file.addresses()) as node:
        reason = await node.ended

    listeners                        MqttServer: clients
    api.http                         HttpServer: REST and /metrics
    plugins.federation: with `stack`              GroupFederation: other nodes are members of a group
                        without `stack`           GmqttFederation: they are nodes of gmqtt's federation (Serf, gRPC)
                        with `stack` and `gmqtt`  GroupAndGmqtt: both kinds at once
"""
from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextlib import AsyncExitStack
from random import Random
from secrets import randbits
from time import monotonic_ns, time, time_ns
from types import TracebackType

from jgroups_py.blocks.mqtt.broker.options import BrokerOptions, WhenFull
from jgroups_py.blocks.mqtt.broker.ports import Authorizer, Federation
from jgroups_py.blocks.mqtt.broker.retained import RetainedStore, RetainedTable
from jgroups_py.blocks.mqtt.federation.core import FederationCore
from jgroups_py.blocks.mqtt.federation.options import FederationOptions
from jgroups_py.blocks.mqtt.gmqtt.grpc import GmqttFederation, GmqttPlaces
from jgroups_py.blocks.mqtt.gmqtt.link import GmqttLink
from jgroups_py.blocks.mqtt.gmqtt.options import GmqttOptions
from jgroups_py.blocks.mqtt.node.both import GroupAndGmqtt
from jgroups_py.blocks.mqtt.node.both_admin import GroupAndGmqttAdmin
from jgroups_py.blocks.mqtt.node.group import GroupFederation
from jgroups_py.blocks.mqtt.node.joining import Joining
from jgroups_py.blocks.mqtt.node.places import gossip_place, group_properties, numeric, reachable
from jgroups_py.blocks.mqtt.server.config import BrokerFile, EndpointSection, FederationSection
from jgroups_py.blocks.mqtt.server.listen import ListenAddress
from jgroups_py.blocks.mqtt.server.listeners import tls_context
from jgroups_py.blocks.mqtt.server.rest import RestApi
from jgroups_py.blocks.mqtt.server.server import MqttServer
from jgroups_py.config.load import load
from jgroups_py.config.spec import StackSpec
from jgroups_py.model.counters import Counters
from jgroups_py.model.errors import ChannelError, ConfigError
from jgroups_py.model.text import place
from jgroups_py.model.units import NS_PER_S
from jgroups_py.runtime.http.server import HttpServer

log = logging.getLogger(__name__)


class BrokerNode:
    """See the module. ended: resolves with the reason when the node cannot go on; the caller then stops it.

    listening: its addresses as text.

    Raises:
        ConfigError: the file asks for something that is not available.
    """

    def __init__(
        self, file: BrokerFile, options: BrokerOptions, listeners: Sequence[ListenAddress],
        authorizer: Authorizer | None = None,
    ) -> None:
        self.ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.listening: list[str] = []
        self.federation: GroupFederation | GmqttFederation | GroupAndGmqttAdmin | None = None
        self.joining: Joining | None = None
        self._options = options
        self._listeners = listeners
        self._authorizer = authorizer
        self._endpoints = file.api.http
        self._exits = AsyncExitStack()
        self._counters: dict[str, Counters] = {}
        section = file.federation
        if section is None:
            self.server = self._made()
        elif section.stack and section.gmqtt:
            self.server = self._of_both(section)
        elif section.stack:
            self.server = self._of_group(section)
        else:
            self.server = self._of_gmqtt(section)
        self._counters["server"] = self.server.counters

    async def __aenter__(self) -> BrokerNode:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None,
    ) -> None:
        await self.stop()

    async def start(self) -> None:
        """Listen, join the group, then answer clients. A message published before that would match no filter of
        another node, and be acknowledged and lost. With gmqttds alone a node answers at once, as gmqttd does.

        Raises:
            ConfigError: an address cannot be used; the text names it.
        """
        try:
            await self.server.start(accepts=self.federation is None or isinstance(self.federation, GmqttFederation))
            self.listening += map(str, self.server.addresses)
            if self.federation is not None:
                await self._exits.enter_async_context(self.federation)
            await self.server.accept()
            if self.joining is not None:
                self.joining.start()
            for endpoint in self._endpoints:
                made = await self._exits.enter_async_context(self._rest(endpoint))
                self.listening.append(f"http{'s' if endpoint.tls else ''}://{place(endpoint.address[0], made.port)}")
        except ChannelError as error:
            await self.stop()
            raise ConfigError(str(error)) from None
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """End the connections of clients, so that other nodes get their wills; then leave."""
        if self.joining is not None:
            await self.joining.stop()
        await self.server.stop()
        await self._exits.aclose()

    def _fail(self, reason: str) -> None:
        if not self.ended.done():
            self.ended.set_result(reason)

    # --- its parts ----------------------------------------------------------------------------------------------------

    def _made(self, federation: Federation | None = None, retained: RetainedStore | None = None) -> MqttServer:
        return MqttServer(self._options, self._listeners, authorizer=self._authorizer, federation=federation,
                          retained=retained)

    def _of_group(self, section: FederationSection) -> MqttServer:
        core = self._core(section)
        server = self._made(core)
        core.attach(server.broker)
        self.federation = self._group(section, core, server)
        return server

    def _of_gmqtt(self, section: FederationSection) -> MqttServer:
        retained = RetainedTable(self._options.max_retained)
        link = self._link(section, retained)
        server = self._made(link, retained)
        link.attach(server.broker)
        self.federation = self._gmqtt(section, link, server)
        return server

    def _of_both(self, section: FederationSection) -> MqttServer:
        retained = RetainedTable(self._options.max_retained)
        both = GroupAndGmqtt(self._core(section), self._link(section, retained))
        server = self._made(both, retained)
        both.attach(server.broker)
        self.federation = GroupAndGmqttAdmin(
            both, self._group(section, both.core, server), self._gmqtt(section, both.link, server))
        self._counters["gmqtt"] = both.link.counters
        return server

    def _core(self, section: FederationSection) -> FederationCore:
        check_rules(section)
        return FederationCore(
            FederationOptions(
                name=self._options.node_name, silent_s=section.silent_after / NS_PER_S,
                keep_peer_s=section.keep_peer / NS_PER_S, queue_bytes=section.queue_bytes,
                when_full=WhenFull(section.on_full),
                session_copies=section.session_copies, topics_in=section.topics_in,
                topics_out=section.topics_out),
            Random(randbits(64)), now_ns=monotonic_ns(), wall_offset_ns=time_ns() - monotonic_ns())

    def _group(self, section: FederationSection, core: FederationCore, server: MqttServer) -> GroupFederation:
        return GroupFederation(core, stack_of(section), section.cluster, server.settle, self._fail)

    def _link(self, section: FederationSection, retained: RetainedTable) -> GmqttLink:
        if section.on_full != WhenFull.DROP_OLDEST.value:
            raise ConfigError(f"plugins.federation.on_full: {section.on_full} needs `stack` without `gmqtt`; else "
                              f"{WhenFull.DROP_OLDEST.value} is allowed")
        return GmqttLink(
            GmqttOptions(name=self._options.node_name, queue_bytes=section.queue_bytes,
                         keep_peer_s=section.keep_peer / NS_PER_S), Random(randbits(64)), retained)

    def _gmqtt(self, section: FederationSection, link: GmqttLink, server: MqttServer) -> GmqttFederation:
        gossip = gossip_place(section)
        places = GmqttPlaces(
            fed=section.fed_addr, advertise_fed=reachable(section.advertise_fed_addr or section.fed_addr),
            gossip=gossip, advertise_gossip=numeric(section.advertise_gossip_addr or gossip),
            join=section.nodes_to_join, group=section.cluster if section.stack else "")
        federation = GmqttFederation(link, places, server.settle)
        self.joining = Joining(federation, section, self._fail)
        return federation

    def _rest(self, endpoint: EndpointSection) -> HttpServer:
        tls = None if endpoint.tls is None else endpoint.tls.as_files()
        api = RestApi(self.server.broker, self.server.settle, self.federation, monotonic_ns, time, self._counters)
        return HttpServer(api.answer, endpoint.address, what="REST", extra="mqtt",
                          tls=None if tls is None else tls_context(tls))


def check_rules(section: FederationSection) -> None:
    """Raises ConfigError: there are rules for other sites, and the stack has none."""
    for name, filters in (("topics_in", section.topics_in), ("topics_out", section.topics_out)):
        if filters and load(section.stack, dict(section.properties)).config_of("RELAY") is None:
            raise ConfigError(f"plugins.federation.{name}: the stack {section.stack} has no RELAY, so there are no "
                              "other sites; leave the key out, or take a stack with RELAY")


def stack_of(section: FederationSection) -> StackSpec:
    """The group's stack, with the addresses of the file where it has places for them. Raises ConfigError."""
    own = dict(section.properties)
    spec = load(section.stack, own)
    found = {} if section.gmqtt else group_properties(section)
    for name in found:
        if name not in (*spec.placeholders, "port_range"):
            log.warning("plugins.federation: the stack %s has no ${%s} for the file's addresses", spec.source, name)
    return load(section.stack, {**{name: value for name, value in found.items() if name in spec.placeholders}, **own})
