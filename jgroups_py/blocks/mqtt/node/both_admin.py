"""GroupAndGmqttAdmin: the operators' interface of a node that is in a group and in gmqtt's federation."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Any, Self

from jgroups_py.blocks.mqtt.gmqtt.grpc import GmqttFederation
from jgroups_py.blocks.mqtt.node.both import GroupAndGmqtt
from jgroups_py.blocks.mqtt.node.group import GroupFederation
from jgroups_py.model.address import PhysicalAddress
from jgroups_py.model.counters import Counters


class GroupAndGmqttAdmin:
    """Members are those of gmqtt's federation, which include all nodes of the group; peers are those of both."""

    def __init__(self, both: GroupAndGmqtt, group: GroupFederation, gmqtt: GmqttFederation) -> None:
        self.both = both
        self.group = group
        self.gmqtt = gmqtt
        self._exits = AsyncExitStack()

    async def __aenter__(self) -> Self:
        """The group first, so that its nodes are known before Serf reports them. Raises ConfigError, ChannelError."""
        try:
            await self._exits.enter_async_context(self.group)
            await self._exits.enter_async_context(self.gmqtt)
        except BaseException:
            await self._exits.aclose()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._exits.aclose()

    async def members(self) -> list[dict[str, Any]]:
        """In the form of gmqtt's REST API."""
        return await self.gmqtt.members()

    async def join(self, places: Sequence[PhysicalAddress]) -> None:
        """Join gmqtt's federation. Raises JoinFailed."""
        await self.gmqtt.join(places)

    async def leave(self) -> None:
        """Leave both for good."""
        await self.gmqtt.leave()
        await self.group.leave()

    def force_leave(self, name: str) -> None:
        """A member that failed counts as left."""
        self.gmqtt.force_leave(name)
        self.group.force_leave(name)

    def report(self) -> list[dict[str, Any]]:
        """Each peer, for JSON."""
        return [*self.group.report(), *self.gmqtt.report()]

    def where(self, client_id: str) -> dict[str, Any] | None:
        """Of sessions in the group."""
        return self.group.where(client_id)

    async def sites(self, topic: str) -> dict[str, Any]:
        """Those of the group."""
        return await self.group.sites(topic)

    def sites_for(self, topic: str) -> dict[str, Any]:
        """Those of the group."""
        return self.group.sites_for(topic)

    def interest_in(self, topic: str) -> Mapping[str, Sequence[str]]:
        """Peer -> its filters that match."""
        return self.both.interest_in(topic)

    @property
    def counters(self) -> Counters:
        """Counters of the group; those of the link to gmqtt are reported separately."""
        return self.group.counters
