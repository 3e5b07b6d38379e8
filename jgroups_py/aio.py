"""For asyncio: AsyncChannel, with the names of JChannel; methods that wait are coroutines (channel/aio.py)."""
from jgroups_py.channel.aio import AsyncChannel

__all__ = ["AsyncChannel"]
