"""A stack without a group: the base of Membership (SWIM alone) and Gossip (PEX alone).

There is no channel, no view and no GMS. One thread runs the loop, another one calls the application, one call at a
time, so that a slow application does not delay the protocols.
"""
from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, ClassVar, Self

from jgroups_py.channel.io_thread import LoopThread
from jgroups_py.channel.validation import checked_name, default_name, loaded
from jgroups_py.config.load import Source
from jgroups_py.config.spec import StackSpec
from jgroups_py.model.address import Address
from jgroups_py.model.errors import ChannelClosedError, NotConnectedError
from jgroups_py.model.events import Event
from jgroups_py.model.outputs import Closed, Output
from jgroups_py.node.node import Node
from jgroups_py.runtime.host import Host
from jgroups_py.runtime.inbox import Inbox

LOOK_SECONDS = 0.1                       # how often a thread that waits for the loop checks whether the loop has ended


class Standalone:
    """One incarnation, from its start to its end. Any thread may call it.

    begins: the name of the method that starts it; leave_seconds: how long a graceful leave may take.
    """

    begins: ClassVar[str]
    leave_seconds: ClassVar[float]

    def __init__(self, stack: Source, properties: Mapping[str, object] | None, name: str | None) -> None:
        self.spec: StackSpec = loaded(stack, properties)
        self.name = checked_name(name, "a name") if name else default_name()
        self._cluster = ""
        self._host: Host | None = None
        self._inbox = Inbox()
        self._reason = ""
        self._ended = threading.Event()
        self._caller: threading.Thread | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None,
    ) -> None:
        self._end()

    @property
    def address(self) -> Address | None:
        """The address of this incarnation; None before its start."""
        return None if self._host is None or self._host.node is None else self._host.node.me

    def stats(self) -> dict[str, dict[str, float]]:
        """Protocol name -> its counters."""
        host = self._host
        return {} if host is None else self._ask(host.stats) or {}

    # --- start and end ------------------------------------------------------------------------------------------------

    def _begin(self, cluster: str) -> None:
        """Start; the sockets are open when this returns.

        Raises:
            ChannelClosedError: the sockets could not be opened, or it was started before: an address is used once.
        """
        if self._host is not None:
            raise ChannelClosedError(f"a {type(self).__name__} starts once; make another one")
        self._cluster = cluster
        self._host = Host(self.spec, cluster, self.name, self._inbox, self._host_ended)
        self._host.start()
        LoopThread(self.name, self._host.loop).start()
        self._caller = threading.Thread(target=self._call_all, name=f"jgroups-{self.name}-caller", daemon=True)
        self._caller.start()
        self._host.began.wait()
        self._running()

    def _end(self) -> None:
        """Leave and stop; the application is not called any more once this returns. A second call does nothing."""
        host = self._host
        if host is None:
            return
        host.leave()
        if not self._ended.wait(self.leave_seconds):
            host.kill("left before all members could be informed")
            self._ended.wait(self.leave_seconds)
        host.loop.join()
        if self._caller is not None and self._caller is not threading.current_thread():
            self._caller.join(self.leave_seconds)

    def _host_ended(self, reason: str, unrequested: bool) -> None:
        self._reason = reason
        self._ended.set()

    # --- into the loop ------------------------------------------------------------------------------------------------

    def _running(self) -> Host:
        if self._host is None:
            raise NotConnectedError(f"{self.begins} first")
        if self._ended.is_set():
            raise ChannelClosedError(self._reason)
        return self._host

    def _inject(self, event: Event) -> None:
        self._running().sends.put_event(event, 0, None)

    def _ask(self, question: Callable[[Node], Any]) -> Any:
        """Run a function of the node in the loop and return its result; None if the loop has ended meanwhile."""
        answered, found = threading.Event(), list[Any]()

        def answer(what: Any) -> None:
            found.append(what)
            answered.set()

        self._running().ask(question, answer)
        while not answered.wait(LOOK_SECONDS):
            if self._ended.is_set():
                return None
        return found[0]

    # --- out of it ----------------------------------------------------------------------------------------------------

    def _call_all(self) -> None:
        while True:
            for output in self._inbox.take(None):
                if isinstance(output, Closed):
                    return
                try:
                    self._call(output)
                except BaseException:                        # as SystemExit: this thread ends, so the member must leave
                    if self._host is not None:
                        self._host.leave()
                    raise

    def _call(self, output: Output) -> None:
        """Call the application."""
        raise NotImplementedError
