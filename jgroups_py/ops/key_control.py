"""An operator's order of a new key of the view, for one channel."""
from __future__ import annotations

import itertools
import threading
from collections.abc import Sequence
from typing import Final

from jgroups_py.channel.base import BaseChannel
from jgroups_py.channel.block import Block
from jgroups_py.model.errors import KeyOrderError
from jgroups_py.model.events import RenewViewKey
from jgroups_py.model.outputs import Output, ViewKeyRenewed
from jgroups_py.ops.watch import ask_node

ANSWER_SECONDS: Final = 30.0             # longer than GMS tries


class KeyControl(Block):
    """Orders of JChannel or AsyncChannel about the key of its view. Any thread may call."""

    def __init__(self, channel: BaseChannel) -> None:
        self._channel = channel
        self._numbers = itertools.count(1)
        self._answers: dict[int, str | None] = {}            # order -> None until its answer arrives, then its error
        self._changed = threading.Condition()
        channel.attach(self)

    def renew(self) -> None:
        """Have the coordinator install a new view of the same members, and so a new key (ENCRYPT mode="view"); returns
        when this member has it. With AUTH this member needs the role operator.

        Raises:
            NotConnectedError: the channel is in no group.
            KeyOrderError: refused, and why; or no view came in time.
        """
        number = next(self._numbers)
        with self._changed:
            self._answers[number] = None
        try:
            ask_node(self._channel, lambda node, now_ns: node.inject(RenewViewKey(number), now_ns))
            with self._changed:
                self._changed.wait_for(lambda: self._answers[number] is not None, ANSWER_SECONDS)
                error = self._answers[number]
        finally:
            del self._answers[number]
        if error is None or error:
            raise KeyOrderError(error or "this member did not answer in time")

    def early(self, outputs: Sequence[Output]) -> Sequence[Output]:
        """On the loop thread: take the answers to orders out of the outputs."""
        done = [output for output in outputs if isinstance(output, ViewKeyRenewed)]
        if not done:
            return outputs
        with self._changed:
            for output in done:
                if output.number in self._answers:
                    self._answers[output.number] = output.error
            self._changed.notify_all()
        return [output for output in outputs if not isinstance(output, ViewKeyRenewed)]
