"""The same with asyncio: channels are async iterators of messages.

    python examples/async_chat.py
"""
import asyncio
import os

from jgroups_py.aio import AsyncChannel

GROUP = f"async-chat-{os.getpid()}"


async def talk() -> list[str]:
    async with AsyncChannel("udp", name="A") as alice, AsyncChannel("udp", name="B") as bob:
        await alice.connect(GROUP)
        await bob.connect(GROUP)
        for line in ("hello", "is anybody there?", "bye"):
            await alice.send(None, line.encode())
        heard = []
        async for message in bob:
            heard.append(f"{message.src}: {message.payload.decode()}")
            if message.payload == b"bye":
                return heard
    return []


lines = asyncio.run(asyncio.wait_for(talk(), timeout=20))
print("\n".join(lines))
assert lines == ["A: hello", "A: is anybody there?", "A: bye"]
