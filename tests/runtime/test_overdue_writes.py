"""Tasks wait for their writes no longer than the dict's timeout; one timer serves all of them."""
from __future__ import annotations

import asyncio

import pytest

from jgroups_py.blocks.dicts.replicated import AwaitedWrite, OverdueWrites, WriteTimeoutError


async def result_of(write: AwaitedWrite) -> object:
    await asyncio.wait_for(write.done, 30)
    return write.result()


def test_writes_end_when_they_are_overdue_and_others_go_on():
    async def body() -> None:
        overdue = OverdueWrites("the dict 'x'")
        late, long, short = AwaitedWrite(), AwaitedWrite(), AwaitedWrite()
        overdue.watch(late, 0.02)
        overdue.watch(long, 300)
        with pytest.raises(WriteTimeoutError, match=r"the dict 'x' did not carry out a write within 0\.02 s"):
            await result_of(late)
        overdue.watch(short, 0.03)                       # behind the other one, and due before it
        with pytest.raises(WriteTimeoutError):
            await result_of(short)
        assert not long.done.done()
        answered = AwaitedWrite()
        overdue.watch(answered, 0.01)
        overdue.forget(answered)
        await asyncio.sleep(0.05)
        assert not answered.done.done(), "nobody waits for it any more"
    asyncio.run(body())


def test_another_event_loop_has_a_timer_of_its_own():
    overdue = OverdueWrites("the dict 'x'")

    async def leaves_one() -> None:
        overdue.watch(AwaitedWrite(), 0.01)
    asyncio.run(leaves_one())

    async def waits() -> None:
        write = AwaitedWrite()
        overdue.watch(write, 0.02)
        with pytest.raises(WriteTimeoutError):
            await result_of(write)
    asyncio.run(waits())
