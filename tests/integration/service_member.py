"""A process that serves: python service_member.py NAME PORT FILE. FILE gets a line as a call takes effect.

It prints "ready" once it serves in a group of three.
"""
from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from jgroups_py import aio
from jgroups_py.blocks.service import AsyncServices, Service, method


class Till(Service, name="till"):
    """Each method takes effect at once, and answers late if it is told to."""

    def __init__(self, name: str = "", file: Path = Path()) -> None:
        self.name = name
        self.file = file

    async def effect(self, number: int, seconds: float) -> str:
        """A line in the file; then a pause before the answer."""
        with self.file.open("a") as file:
            file.write(f"{number} {self.name}\n")
        await asyncio.sleep(seconds)
        return self.name

    @method(idempotent=True)
    async def look(self, number: int, seconds: float) -> str:
        return await self.effect(number, seconds)

    @method()
    async def pay(self, number: int, seconds: float) -> str:
        return await self.effect(number, seconds)


async def main(name: str, port: int, file: Path) -> None:
    """Serve until killed."""
    properties = {"mcast_port": port, "bind_addr": "127.0.0.1"}
    async with aio.AsyncChannel("udp", name, properties) as ch:
        AsyncServices(ch).serve(Till(name, file))
        await ch.connect("till")
        await ch.wait_for(members=3, timeout=60)
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])))
