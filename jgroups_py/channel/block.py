"""Where building blocks (blocks/) hook into a channel, beside the application's receiver.

A block is attached once and lives as long as the channel, over all its connections. It sees every output inside a round
of the loop, before the application's queue (`early`), so that what a waiting thread needs (an answer, the news that a
member left) does not queue behind the receiver's work; and it gets the batches that carry its headers in order with the
receiver's calls (`deliver`). Neither may block or raise.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Protocol

from jgroups_py.model.address import Address
from jgroups_py.model.batch import Batch
from jgroups_py.model.outputs import Output
from jgroups_py.model.view import View
from jgroups_py.node.node import Node
from jgroups_py.runtime.loop import Task
from jgroups_py.runtime.send_queue import SendQueue
from jgroups_py.wire.block_headers import BlockHeader


class Connection(Protocol):
    """What a building block may do with one connection of its channel.

    cluster: the name of the group. view: that of the messages that are being delivered now, None before the first.
    ended: the connection is over, and no round will be run for it any more. sends: where any thread puts what is to be
    sent.
    """

    cluster: str
    sends: SendQueue
    view: View | None
    ended: bool

    @property
    def address(self) -> Address | None:
        """This member; None until its node is there."""

    @property
    def now_ns(self) -> int:
        """Inside a round: its time, monotonic."""

    def clock_ns(self) -> int:
        """The time now, of the same clock; from any thread."""

    def boot_ns(self) -> int:
        """The time now, by a clock that counts also while the machine is suspended; from any thread."""

    def call(self, function: Callable[[], None]) -> None:
        """Call `function` inside a round, soon; from any thread."""

    def later(self, delay_ns: int, function: Callable[[], None]) -> Task:
        """Inside a round: call `function` inside another one, `delay_ns` from now."""

    def interrupt(self, reason: str, error: BaseException) -> None:
        """A function of the application raised SystemExit or KeyboardInterrupt in a round: see Receiver; any thread."""

    def ask(self, question: Callable[[Node], Any], answer: Callable[[Any], None]) -> None:
        """Call `answer`, inside a round, with what `question` returns for the node (None: there is none)."""


class Block:
    """Base of what is attached to a channel."""

    headers: ClassVar[tuple[type[BlockHeader], ...]] = ()
    """Batches whose first header is one of these come to `deliver`, not to the receiver."""

    def begin(self, connection: Connection) -> None:
        """A connection begins, or the block was attached to one; on the thread that called."""

    def service_report(self) -> list[dict[str, Any]] | None:
        """The typed services that members offer, compared, for operators; None: this block has no services."""
        return None

    def leaving(self) -> None:
        """The application disconnects the channel, on its thread: what is sent now is sent before this member leaves
        its group."""

    def early(self, outputs: Sequence[Output]) -> Sequence[Output]:
        """Inside a round: the outputs for the application, in order; returns those that it gets."""
        return outputs

    def deliver(self, batch: Batch) -> None:
        """On the consumer's thread (the event loop of an AsyncChannel): a batch with one of `headers`."""
