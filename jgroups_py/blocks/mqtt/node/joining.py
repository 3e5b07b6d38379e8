"""Joining: a node finds gmqtt's federation by `retry_join`, and by the nodes of its snapshot after a restart.

`retry_join` is repeated until a node answers, or until `retry_timeout`, which is a failure. The nodes of the snapshot
are tried once, one after another, until one answers; it is no failure if none does. The snapshot is written when
members come or go.
"""
from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path

from jgroups_py.blocks.mqtt.gmqtt.grpc import GmqttFederation
from jgroups_py.blocks.mqtt.node.snapshot import read_snapshot, snapshot_text, write_snapshot
from jgroups_py.blocks.mqtt.server.config import FederationSection
from jgroups_py.blocks.mqtt.server.dial import place_text
from jgroups_py.blocks.mqtt.server.rest import JoinFailed
from jgroups_py.model.address import PhysicalAddress
from jgroups_py.model.units import NS_PER_S

log = logging.getLogger(__name__)
WRITE_SECONDS = 0.5
"""Changes of members within this time are written together."""
KEPT = ("STATUS_ALIVE", "STATUS_FAILED")


class Joining:
    """See the module. failed: is called with a reason when `retry_timeout` is over.

    Raises:
        ConfigError: the snapshot cannot be read.
    """

    def __init__(self, federation: GmqttFederation, section: FederationSection, failed: Callable[[str], None]) -> None:
        self._federation = federation
        self._places = section.nodes_to_join
        self._interval_s = section.retry_interval / NS_PER_S
        self._timeout_s = section.retry_timeout / NS_PER_S
        self._failed = failed
        self._has_failed = False
        self._path = Path(section.snapshot_path) if section.snapshot_path else None
        self._known: dict[str, PhysicalAddress] = {}
        if self._path is not None:
            self._known = read_snapshot(self._path, section.rejoin_after_leave)
            self._known.pop(federation.link.options.name, None)
            federation.changed = self._changed
        self._tasks: list[asyncio.Task[None]] = []
        self._writing: asyncio.TimerHandle | None = None
        self._written: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin; returns at once."""
        loop = asyncio.get_running_loop()
        if self._known:
            self._tasks.append(loop.create_task(self._rejoin()))
        if self._places:
            self._tasks.append(loop.create_task(self._join()))

    async def stop(self) -> None:
        """Stop trying; record the leave in the snapshot, unless this node never joined."""
        for task in self._tasks:
            task.cancel()
        if self._writing is not None:
            self._writing.cancel()
        self._federation.changed = lambda: None
        if self._written is not None:
            await self._written
        if not self._has_failed:
            await self._write(has_left=True)

    async def _rejoin(self) -> None:
        for name, place in self._known.items():
            try:
                return await self._federation.join([place])
            except JoinFailed:
                log.info("snapshot_path: %s at %s does not answer", name, place_text(place))

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
            self._has_failed = True
            places = ", ".join(map(place_text, self._places))
            self._failed(f"retry_join: none of {places} could be reached in {self._timeout_s:g} s ({why})")

    # --- the snapshot -------------------------------------------------------------------------------------------------

    def _changed(self) -> None:
        if self._writing is None:
            self._writing = asyncio.get_running_loop().call_later(WRITE_SECONDS, self._write_soon)

    def _write_soon(self) -> None:
        self._writing = None
        self._written = asyncio.get_running_loop().create_task(self._write(self._federation.has_left))

    async def _write(self, has_left: bool) -> None:
        if self._path is None:
            return
        own = self._federation.link.options.name
        members = {member["name"]: member["addr"] for member in await self._federation.members()
                   if member["name"] != own and member["status"] in KEPT}
        try:
            await asyncio.to_thread(write_snapshot, self._path, snapshot_text(members, has_left))
        except OSError as error:
            log.warning("snapshot_path %s: %s: nodes known now are not there after a restart", self._path,
                        error.strerror)
