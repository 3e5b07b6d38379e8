"""AsyncRpc: requests over an AsyncChannel; coroutines wait for answers, and a handler may be a coroutine, too.

    rpc = AsyncRpc(channel, handler)
    answer = await rpc.request(member, b"...", timeout=2.0)
    answers = await asyncio.gather(*[rpc.request(member, payload) for payload in many])      # sent in batches
"""
from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable
from typing import Any

from jgroups_py.blocks.rpc.calls import Answers, Call, Mode
from jgroups_py.blocks.rpc.client import NO_ANSWERS, TIMEOUT_SECONDS, BaseRpc
from jgroups_py.blocks.rpc.serving import Handler, Request
from jgroups_py.channel.aio import AsyncChannel
from jgroups_py.model.address import Address
from jgroups_py.model.batch import Flag
from jgroups_py.runtime.send_queue import NOW

Waiter = asyncio.Future[Any]


class AsyncRpc(BaseRpc):
    """Requests and answers of one service of an AsyncChannel. See Rpc for what the methods do and raise."""

    def __init__(self, channel: AsyncChannel, handler: Handler | None = None, service: int = 0) -> None:
        self._answering: dict[asyncio.Task[None], None] = {}
        self._async_channel = channel
        super().__init__(channel, handler, service, self._answer_later)

    async def request(
        self, dest: Address, payload: Any, timeout: float | None = TIMEOUT_SECONDS, flags: int = 0,
    ) -> bytes:
        """Send a request to one member, and wait for its answer."""
        await self._room()
        waiter: Waiter = asyncio.get_running_loop().create_future()
        call = self._send_one(dest, payload, Flag.bits(flags), timeout, waiter, NOW)
        try:
            return await waiter                              # type: ignore[no-any-return]
        except asyncio.CancelledError:
            self._calls.forget(call)
            raise

    async def request_many(
        self, dests: Iterable[Address] | None, payload: Any, mode: Mode | str = Mode.ALL,
        timeout: float | None = TIMEOUT_SECONDS, flags: int = 0,
    ) -> Answers:
        """Send a request to several members (None: to all), and wait for the answers that `mode` requires."""
        await self._room()
        if Mode(mode) is Mode.NONE:
            for dest in [None] if dests is None else dests:
                self._notify(dest, payload, flags, NOW)
            return NO_ANSWERS
        waiter: Waiter = asyncio.get_running_loop().create_future()
        call = self._send_many(dests, payload, Flag.bits(flags), Mode(mode), timeout, waiter, NOW)
        if call is None:
            return NO_ANSWERS
        try:
            return await waiter                              # type: ignore[no-any-return]
        except asyncio.CancelledError:
            self._calls.forget(call)
            raise

    async def notify(self, dest: Address | None, payload: Any, flags: int = 0) -> None:
        """Send a one-way request, which is not answered (None: to all members)."""
        await self._room()
        self._notify(dest, payload, flags, NOW)

    def close(self) -> None:
        """See Rpc.close."""
        self._hub.remove(self._number)

    async def _room(self) -> None:
        if not self._async_channel.connection().sends.has_room():
            await self._async_channel.room()

    def _done(self, finished: list[Call]) -> None:
        self._async_channel.call(lambda: _resolve(finished))

    def _answer_later(self, request: Request, awaitable: Awaitable[Any]) -> None:
        async def answer() -> None:
            try:
                request.answer(await awaitable)
            except Exception as error:                       # noqa: BLE001  of the application's coroutine
                request.fail(error)
        task = asyncio.get_running_loop().create_task(answer())
        self._answering[task] = None
        task.add_done_callback(self._answering.pop)


def _resolve(finished: list[Call]) -> None:
    """Resume the waiting coroutines with their outcomes, on their event loop."""
    for call in finished:
        waiter, outcome = call.waiter, call.outcome
        if waiter.done():
            continue                                         # cancelled
        if isinstance(outcome, Exception):
            waiter.set_exception(outcome)
        else:
            waiter.set_result(outcome)
