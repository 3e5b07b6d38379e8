"""Orders to the node of a channel that an output answers, by number: what SiteControl and KeyControl share."""
from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Sequence
from typing import ClassVar

from jgroups_py.channel.base import BaseChannel
from jgroups_py.channel.block import Block
from jgroups_py.model.errors import ChannelError
from jgroups_py.model.events import Event
from jgroups_py.model.outputs import Output, SiteCommandDone, ViewKeyRenewed
from jgroups_py.ops.watch import ask_node


class NodeOrders(Block):
    """The base of both. done: the outputs that answer; refused: the error of an order. Any thread may order."""

    done: ClassVar[type[SiteCommandDone] | type[ViewKeyRenewed]]
    refused: ClassVar[type[ChannelError]]

    def __init__(self, channel: BaseChannel) -> None:
        self._channel = channel
        self._numbers = itertools.count(1)
        self._answers: dict[int, str | None] = {}            # order -> None until its answer arrives, then its error
        self._changed = threading.Condition()
        channel.attach(self)

    def give(self, order: Callable[[int], Event], timeout: float) -> None:
        """Give the node an order, made for its number, and wait `timeout` seconds for the answer.

        Raises:
            NotConnectedError: the channel is in no group.
            `refused`: the answer is an error, or there was none in time.
        """
        number = next(self._numbers)
        with self._changed:
            self._answers[number] = None
        try:
            event = order(number)
            ask_node(self._channel, lambda node, now_ns: node.inject(event, now_ns))
            with self._changed:
                self._changed.wait_for(lambda: self._answers[number] is not None, timeout)
                error = self._answers[number]
        finally:
            del self._answers[number]
        if error is None:
            raise self.refused("this member did not answer in time")
        if error:
            raise self.refused(error)

    def early(self, outputs: Sequence[Output]) -> Sequence[Output]:
        """On the loop thread: take the answers to orders out of the outputs."""
        done = [output for output in outputs if isinstance(output, self.done)]
        if not done:
            return outputs
        with self._changed:
            for output in done:
                if output.number in self._answers:
                    self._answers[output.number] = output.error
            self._changed.notify_all()
        return [output for output in outputs if not isinstance(output, self.done)]
