"""An operator's order of a new key of the view, for one channel; also of that of the bridge."""
from __future__ import annotations

from typing import Final

from jgroups_py.model.errors import KeyOrderError
from jgroups_py.model.events import RenewViewKey
from jgroups_py.model.outputs import ViewKeyRenewed
from jgroups_py.ops.orders import NodeOrders

ANSWER_SECONDS: Final = 30.0             # longer than GMS tries


class KeyControl(NodeOrders):
    """Orders of JChannel or AsyncChannel about the key of its view. Any thread may call."""

    done = ViewKeyRenewed
    refused = KeyOrderError

    def renew(self, *, bridge: bool = False) -> None:
        """Have the coordinator install a new view of the same members, and so a new key (ENCRYPT mode="view"); returns
        when this member has it. With AUTH this member needs the role operator. bridge: of RELAY's bridge; then this
        member must be a relay.

        Raises:
            NotConnectedError: the channel is in no group.
            KeyOrderError: refused, and why; or no view came in time.
        """
        self.give(lambda number: RenewViewKey(number, bridge), ANSWER_SECONDS)
