"""A new key of the view by an operator's order: the acting coordinator changes the view, and its members stay.

The order may be given at any member; that one asks the acting coordinator, again and again until a later view is
installed. The coordinator obeys members with the role operator only (AUTH), once for each order, and logs the identity.
"""
from __future__ import annotations

from typing import Final

import attrs

from jgroups_py.model.address import Address
from jgroups_py.model.batch import Batch
from jgroups_py.model.events import RenewViewKey
from jgroups_py.model.outputs import LogEntry, ViewKeyRenewed
from jgroups_py.model.text import escaped
from jgroups_py.model.units import millis, seconds
from jgroups_py.model.view import ViewId
from jgroups_py.protocols.gms.headers import RenewKey, RenewKeyAnswer
from jgroups_py.protocols.gms.ports import GmsPort, ProposerPort
from jgroups_py.protocols.gms.state import GroupState
from jgroups_py.stack.component import Component, on, receives, timer
from jgroups_py.stack.protocol import STOP

AGAIN_NS: Final = millis(500)
WITHIN_NS: Final = seconds(20)           # then the order has failed
MAX_OBEYED: Final = 256                  # orders that are remembered; the oldest are forgotten
NO_VIEW_KEYS: Final = "this group has no keys of views: ENCRYPT has not mode='view'"


@attrs.define
class GivenOrder:
    """An order that was given here. before: the view then; obeyed: the coordinator has said so."""

    before: ViewId
    until_ns: int
    obeyed: bool = False


class KeyRenewal(Component):
    """given: number -> an order that was given here; obeyed: member and number of orders that were obeyed here."""

    layer: GmsPort
    proposer: ProposerPort              # set by Gms.assemble

    def __init__(self, layer: GmsPort, group: GroupState) -> None:
        super().__init__(layer)
        self.group = group
        self.given: dict[int, GivenOrder] = {}
        self.obeyed: dict[tuple[Address, int], None] = {}

    # --- the member where it is given ---------------------------------------------------------------------------------

    @on(RenewViewKey)
    def order(self, event: RenewViewKey) -> object:
        """An operator orders a new key here."""
        view = self.group.view
        if not self.layer.has_view_keys():
            self.emit(ViewKeyRenewed(event.number, NO_VIEW_KEYS))
        elif view is None:
            self.emit(ViewKeyRenewed(event.number, "this member is in no group yet"))
        else:
            self.given[event.number] = GivenOrder(view.id, self.now_ns + WITHIN_NS)
            self.ask()
        return STOP

    @timer("renew_key")
    def ask(self) -> None:
        """Ask the acting coordinator, which may be this member; again while a later view is missing."""
        for number, order in list(self.given.items()):
            if self.now_ns >= order.until_ns or self.group.view is None:
                self.done(number, "no new view was installed in time")
            elif self.group.acts():
                self.answered(number, self.obey(self.group.me, number))
            else:
                self.send(RenewKey(number), self.group.acting_coordinator())
        if self.given:
            self.set_timer("renew_key", AGAIN_NS)

    @receives(RenewKeyAnswer)
    def on_answer(self, header: RenewKeyAnswer, batch: Batch) -> None:
        """What the coordinator says of an order that was given here."""
        if self.group.view is not None and batch.src in self.group.view:
            self.answered(header.number, header.error)
        else:
            self.drop("key_orders_refused", batch, "it is answered by a process outside the view", header)

    def answered(self, number: int, error: str) -> None:
        """The coordinator has obeyed, or refused for a reason."""
        order = self.given.get(number)
        if order is None:
            return
        if error:
            self.done(number, error)
        else:
            order.obeyed = True
            self.look(order, number)

    def view_installed(self) -> None:
        """Every view has a key of its own, so a later one fulfils what the coordinator has promised."""
        for number, order in list(self.given.items()):
            self.look(order, number)

    def look(self, order: GivenOrder, number: int) -> None:
        """Report an order that is fulfilled."""
        view = self.group.view
        if order.obeyed and view is not None and view.id > order.before:
            self.done(number, "")

    def done(self, number: int, error: str) -> None:
        """Report the end of an order."""
        if self.given.pop(number, None) is not None:
            self.emit(ViewKeyRenewed(number, error))

    # --- the coordinator ----------------------------------------------------------------------------------------------

    @receives(RenewKey)
    def on_order(self, header: RenewKey, batch: Batch) -> None:
        """A member passes an operator's order on."""
        view = self.group.view
        if view is None or batch.src not in view or not self.layer.has_view_keys():
            return self.drop("key_orders_refused", batch, "its source is not in the view, or it has no key", header)
        if self.group.acts():                                # else it is repeated, until one does
            self.send(RenewKeyAnswer(header.number, self.obey(batch.src, header.number, batch)), batch.src)
        return None

    def obey(self, member: Address, number: int, batch: Batch | None = None) -> str:
        """Change the view for an order, once; returns why not."""
        if (member, number) in self.obeyed:
            return ""
        refusal = self.layer.operator_refusal(member)
        if refusal:
            self.drop("key_orders_refused", batch, refusal)
            self.emit(LogEntry("warning", f"order refused: a new key of the view: {refusal}"))
            return f"refused: {refusal}"
        if len(self.obeyed) >= MAX_OBEYED:
            del self.obeyed[next(iter(self.obeyed))]
        self.obeyed[member, number] = None
        shown = escaped(self.layer.shown_identity(member))
        self.emit(LogEntry("warning", f"order obeyed: a new key of the view, of {shown}"))
        self.proposer.renew()
        return ""

    def stop(self) -> None:
        """This member is out of the group."""
        for number in list(self.given):
            self.done(number, "this member has left the group")
        self.cancel_timer("renew_key")
