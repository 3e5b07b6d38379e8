"""Joining: the first contact with gmqtt's federation, tried again until a node answers or the time is over."""
from __future__ import annotations

import asyncio
from collections.abc import Callable

from jgroups_py.blocks.mqtt.gmqtt.grpc import GmqttFederation, place_text
from jgroups_py.blocks.mqtt.server.config import FederationSection
from jgroups_py.blocks.mqtt.server.rest import JoinFailed
from jgroups_py.model.units import NS_PER_S


class Joining:
    """One node that answers is enough. failed: is called with a reason when `retry_timeout` is over."""

    def __init__(self, federation: GmqttFederation, section: FederationSection, failed: Callable[[str], None]) -> None:
        self._federation = federation
        self._places = section.nodes_to_join
        self._interval_s = section.retry_interval / NS_PER_S
        self._timeout_s = section.retry_timeout / NS_PER_S
        self._failed = failed
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin; returns at once."""
        if self._places:
            self._task = asyncio.get_running_loop().create_task(self._join())

    def stop(self) -> None:
        """Try no more."""
        if self._task is not None:
            self._task.cancel()

    async def _join(self) -> None:
        why = "no answer"
        try:
            async with asyncio.timeout(self._timeout_s):
                while True:
                    try:
                        return await self._federation.join(self._places)
                    except JoinFailed as failure:
                        why = "; ".join(failure.reasons) or str(failure)
                    await asyncio.sleep(self._interval_s)
        except TimeoutError:
            places = ", ".join(map(place_text, self._places))
            self._failed(f"retry_join: none of {places} could be reached in {self._timeout_s:g} s ({why})")
