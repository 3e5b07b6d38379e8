"""Where building blocks (blocks/) hook into a channel, beside the application's receiver.

A block is attached once and lives as long as the channel, over all its connections. It sees every output inside a round
of the loop, before the application's queue (`early`), so that what a waiting thread needs (an answer, the news that a
member left) does not queue behind the receiver's work; and it gets the runs that carry its headers in order with the
receiver's calls (`deliver`). Neither may block or raise.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from jgroups_py.batch import Batch
from jgroups_py.blockheaders import BlockHeader
from jgroups_py.outputs import Output

if TYPE_CHECKING:
    from jgroups_py.session import Session


class Block:
    """Base of what is attached to a channel."""

    headers: ClassVar[tuple[type[BlockHeader], ...]] = ()
    """Runs whose first header is one of these come to `deliver`, not to the receiver."""

    def begin(self, session: Session) -> None:
        """A connection begins, or the block was attached to one; on the thread that called."""

    def early(self, outputs: Sequence[Output]) -> Sequence[Output]:
        """Inside a round: the outputs for the application, in order; returns those that it shall get."""
        return outputs

    def deliver(self, batch: Batch) -> None:
        """On the consumer's thread (the event loop of an AsyncChannel): a run with one of `headers`."""
