"""For asyncio: AsyncChannel, with the names of JChannel; methods that wait are coroutines (channel/aio.py).

    async with aio.join("chat", name="A") as ch:
        await ch.send(b"hello, all")
"""
from jgroups_py.channel.aio import AsyncChannel, join

__all__ = ["AsyncChannel", "join"]
