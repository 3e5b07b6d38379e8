"""The door for asyncio: AsyncChannel, the names of JChannel; what waits is a coroutine (channel/aio.py)."""
from jgroups_py.channel.aio import AsyncChannel

__all__ = ["AsyncChannel"]
