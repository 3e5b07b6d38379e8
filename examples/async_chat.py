"""A chat with asyncio: a channel is an async iterator of messages.

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
        for line in ("hello", "any member there?", "bye"):
            await alice.send(None, line.encode())
        received = []
        async for message in bob:
            received.append(f"{message.src}: {message.payload.decode()}")
            if message.payload == b"bye":
                return received
    return []


lines = asyncio.run(asyncio.wait_for(talk(), timeout=20))
print("\n".join(lines))
assert lines == ["A: hello", "A: any member there?", "A: bye"]
