"""A server of HTTP on an event loop and a thread of its own, for programs without a loop or with a busy one."""
from __future__ import annotations

import asyncio
import contextlib
import threading

from jgroups_py.model.errors import ConfigError
from jgroups_py.runtime.http.server import HttpServer

STOP_SECONDS = 5.0


class HttpThread:
    """Runs a server. `loop` is its event loop, which exists before `start`."""

    def __init__(self, server: HttpServer, name: str) -> None:
        self.loop = asyncio.new_event_loop()
        self._server = server
        self._stopping = asyncio.Event()
        self._listening = threading.Event()
        self._error: ConfigError | None = None
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Listen.

        Raises:
            ConfigError: the address cannot be had.
        """
        self._thread.start()
        self._listening.wait()
        if self._error is not None:
            self.close()
            raise self._error

    def close(self) -> None:
        """Stop listening and end all connections; idempotent, from any thread."""
        with contextlib.suppress(RuntimeError):              # it has ended already
            self.loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join(STOP_SECONDS)

    def _run(self) -> None:
        with contextlib.closing(self.loop):
            asyncio.set_event_loop(self.loop)
            self.loop.run_until_complete(self._serve())

    async def _serve(self) -> None:
        try:
            await self._server.start()
        except ConfigError as error:
            self._error = error
            return
        finally:
            self._listening.set()
        try:
            await self._stopping.wait()
        finally:
            await self._server.stop()
