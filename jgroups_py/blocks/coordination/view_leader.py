"""ViewLeader: the first member of the view leads. At most one in each connected part of the group: two parts, two
leaders, and no fence. For work that may be done twice; for all else see Coordination."""
from __future__ import annotations

from collections.abc import Callable, Sequence

from jgroups_py.blocks.coordination.driver import guarded
from jgroups_py.channel.base import BaseChannel
from jgroups_py.channel.block import Block, Connection
from jgroups_py.model.outputs import Closed, Output, ViewInstalled
from jgroups_py.model.view import View


class ViewLeader(Block):
    """Whether this member is the coordinator of a view with `at_least` members.

    changed: called with True or False, inside a round of the channel: it must not block. A member that is cut off goes
    on leading until it gets a view without the others, while those may have a leader already.
    """

    def __init__(
        self, channel: BaseChannel, at_least: int = 1, changed: Callable[[bool], object] | None = None,
    ) -> None:
        if at_least < 1:
            raise ValueError(f"at_least={at_least}: a view has one member at least")
        self.leads = False
        self._at_least = at_least
        self._changed = changed
        self._connection: Connection | None = None
        channel.attach(self)

    def begin(self, connection: Connection) -> None:
        self._connection = connection
        view = connection.view
        if view is not None:
            connection.call(lambda: self._judge(view))

    def leaving(self) -> None:
        connection = self._connection
        if connection is not None:
            connection.call(lambda: self._judge(None))

    def early(self, outputs: Sequence[Output]) -> Sequence[Output]:
        for output in outputs:
            if isinstance(output, ViewInstalled):
                self._judge(output.view)
            elif isinstance(output, Closed):
                self._judge(None)
        return outputs

    def _judge(self, view: View | None) -> None:
        connection = self._connection
        leads = (view is not None and connection is not None and view.coordinator == connection.address
                 and len(view.members) >= self._at_least)
        if leads != self.leads:
            self.leads = leads
            if self._changed is not None:
                guarded("the callback of a ViewLeader", self._changed, leads)
