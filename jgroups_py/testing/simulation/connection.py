"""The connection of a simulated member, for building blocks that do not wait: those of channel/block.py's port.

Messages of a block leave at once, since time stands still; its calls and timers run in the process, in virtual time.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn, Protocol

from jgroups_py.channel.block import Block, Connection
from jgroups_py.model.address import Address
from jgroups_py.model.batch import Header
from jgroups_py.model.events import Event
from jgroups_py.model.outputs import Output
from jgroups_py.model.view import View
from jgroups_py.node.node import Node
from jgroups_py.runtime.loop import Task
from jgroups_py.runtime.send_queue import SendQueue
from jgroups_py.testing.simulation.naming import named_event


class BlockMember(Protocol):
    """The simulated member, as the connection of its blocks sees it."""

    @property
    def me(self) -> Address:
        """Its address."""

    @property
    def now_ns(self) -> int:
        """The virtual time."""

    @property
    def node(self) -> Node:
        """Its node."""

    def send(self, dest: Address | None, payloads: list[bytes], flags: int, headers: tuple[Header, ...]) -> None:
        """Send a batch."""

    def inject(self, event: Event) -> None:
        """Pass an event down the stack."""

    def named(self, dest: Address | None, payloads: Sequence[bytes]) -> list[bytes]:
        """Payloads as the checkers know them."""

    def soon(self, delay_ns: int, call: Callable[[], None]) -> None:
        """Call something in the process."""


class SimulatedSends(SendQueue):
    """A send queue without a queue: `put` sends at once."""

    def __init__(self, member: BlockMember) -> None:
        super().__init__(lambda: None)
        self._member = member

    def put(
        self, dest: Address | None, payload: bytes, flags: int, headers: tuple[Header, ...], timeout: float | None,
    ) -> None:
        """Send one message. Raises NotConnectedError if the member is leaving."""
        self._member.send(dest, [payload], flags, headers)

    def put_event(
        self, event: Event, nbytes: int, timeout: float | None, *, multicast: bool = False, may_overdraw: bool = False,
        payload_bytes: int | None = None,
    ) -> None:
        """Pass an event down; a message in it gets its name."""
        self._member.inject(named_event(event, lambda payloads: self._member.named(None, payloads)))


class SimulatedConnection(Connection):
    """See Connection in channel/block.py."""

    def __init__(self, member: BlockMember, cluster: str, block: Block) -> None:
        self._member = member
        self._block = block
        self.cluster = cluster
        self.sends = SimulatedSends(member)
        self.view: View | None = None
        self.ended = False

    @property
    def address(self) -> Address | None:
        return self._member.me

    @property
    def now_ns(self) -> int:
        return self._member.now_ns

    def clock_ns(self) -> int:
        return self._member.now_ns

    def boot_ns(self) -> int:
        return self._member.now_ns

    def call(self, function: Callable[[], None]) -> None:
        self._member.soon(0, function)

    def later(self, delay_ns: int, function: Callable[[], None]) -> Task:
        task = Task(function)

        def due() -> None:
            if task.function is not None:
                task.function()
        self._member.soon(delay_ns, due)
        return task

    def interrupt(self, reason: str, error: BaseException) -> NoReturn:
        raise error

    def ask(self, question: Callable[[Node], Any], answer: Callable[[Any], None]) -> None:
        self.call(lambda: answer(question(self._member.node)))

    def early(self, output: Output) -> Sequence[Output]:
        """What the block leaves of an output."""
        return self._block.early([output])
