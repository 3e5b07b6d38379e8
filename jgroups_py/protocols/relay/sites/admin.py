"""Operators' orders about another site: `offline`, `online`, `drain`, `hold`. Given at any member, carried out by its
relay (relay rule 14).

The member sends the order to its coordinator and repeats it until it is answered, so the order survives the crash of a
coordinator; carrying it out twice does no harm. It carries the order count of the site's row at that member: an order
that arrives late, after a split or from a paused process, must not undo what was ordered since.

`offline` gives the site up at once. `drain` sends what was numbered when the order was carried out, nothing of what
comes later, waits until the site has acknowledged it, and then takes the site OFFLINE: nothing that was held is lost.
Both forbid the site to be UP until `online`. `hold` (`drain --hold`) does the same but goes on holding: what comes
meanwhile is sent after `online`, so nothing is lost, as far as `hold_bytes` reaches.
"""
from __future__ import annotations

from jgroups_py.model.address import Address
from jgroups_py.model.batch import Batch
from jgroups_py.model.events import SiteCommand, ViewChange
from jgroups_py.model.outputs import LogEntry, SiteCommandDone
from jgroups_py.model.text import escaped
from jgroups_py.model.units import millis, seconds
from jgroups_py.protocols.relay.announcements import SiteAcknowledged
from jgroups_py.protocols.relay.group import LocalGroup
from jgroups_py.protocols.relay.headers import Order, OrderAnswer
from jgroups_py.protocols.relay.outbound.peers import RelayPeers
from jgroups_py.protocols.relay.part import RELIABLE, RelayPart, RelayPort, on_announcement
from jgroups_py.protocols.relay.ports import (
    AdminPort,
    ForwarderPort,
    NumberingPort,
    SiteStatusPort,
    SyncPort,
    TrimmerPort,
)
from jgroups_py.protocols.relay.sites.state_machine import SiteEvent
from jgroups_py.protocols.relay.sites.table import OFFLINE, Site, SiteTable
from jgroups_py.stack.component import needs
from jgroups_py.stack.protocol import STOP, on, receives, timer

AGAIN_NS = millis(500)           # an order without an answer is sent again this often
ANSWER_NS = seconds(5)           # and fails without one after this long, in addition to the time that a drain may take
SUPERSEDED = "another order about this site was carried out meanwhile; look at `jgroups site status`, then order again"
VERBS = ("offline", "online", "drain", "hold")
ANSWERS_KEPT = 100               # at the relay, for orders that were repeated before their answer arrived


class Admin(RelayPart, AdminPort):
    """See the module: the orders given at this member; as relay, the drains that run."""

    group: LocalGroup = needs(LocalGroup)
    table: SiteTable = needs(SiteTable)
    peers: RelayPeers = needs(RelayPeers)
    numbering: NumberingPort = needs(NumberingPort)
    synchronizer: SyncPort = needs(SyncPort)
    forwarder: ForwarderPort = needs(ForwarderPort)
    status: SiteStatusPort = needs(SiteStatusPort)
    trimmer: TrimmerPort = needs(TrimmerPort)

    def __init__(self, layer: RelayPort) -> None:
        super().__init__(layer)
        self.given: dict[int, tuple[Order, int]] = {}               # number -> the order, when it fails
        self.drains: dict[str, dict[tuple[Address, int], None]] = {}    # site -> orders that wait for its drain
        self.holding: dict[str, None] = {}               # sites that are paused when their drain ends
        self.answers: dict[tuple[Address, int], str] = {}               # the latest, by (member, its number)

    # --- the member where the order is given
    # ------------------------------------------------------------------------------------

    @on(SiteCommand)
    def command(self, event: SiteCommand) -> object:
        """An operator gives an order here."""
        site = self.table.get(event.site)
        order_count = site.order_count if site is not None else 0
        order = Order(event.number, event.verb, event.site, event.timeout_ns, order_count)
        self.given[event.number] = order, self.now_ns + event.timeout_ns + ANSWER_NS
        if not self.group.has_view:
            self.answered(event.number, "this member is in no group yet")
        else:
            self.set_timer_once("order", AGAIN_NS)
            self.send_order(order)
        return STOP

    def send_order(self, order: Order) -> None:
        """Send an order to the coordinator, which may be this member."""
        if self.group.is_relay:
            self.carry_out(order, Batch(self.me, self.me))
        else:
            self.send(order, self.group.view.coordinator, flags=RELIABLE)

    @timer("order")
    def again(self) -> None:
        """On a timer while an answer is missing: repeat the order, or report that it failed."""
        for number, (order, until_ns) in list(self.given.items()):
            if self.now_ns >= until_ns:
                self.answered(number, "the coordinator did not answer in time")
            else:
                self.send_order(order)
        if self.given:
            self.set_timer_once("order", AGAIN_NS)

    @receives(OrderAnswer)
    def order_answered(self, header: OrderAnswer, batch: Batch) -> None:
        """The relay's answer. It is multicast, so it follows the TRIM that shows the effect; one member waits for
        it."""
        if header.member == self.me:
            self.answered(header.number, header.error)

    def answered(self, number: int, error: str) -> None:
        """Report to the operator: the order was carried out, or `error`."""
        if self.given.pop(number, None) is not None:
            self.emit(SiteCommandDone(number, error))

    # --- the relay --------------------------------------------------------------------------------------------------

    @receives(Order)
    def carry_out(self, order: Order, batch: Batch) -> None:
        """As relay: carry an order out, once, and answer it."""
        src = batch.src
        if not self.group.is_relay or not self.synchronizer.complete:
            return None              # it is repeated until a relay that all members have answered (SYNC) carries it out
        if (src, order.number) in self.answers:
            return self.answer(src, order.number, self.answers[src, order.number])
        refusal = self.operator_refusal(src)
        if refusal:
            self.drop("orders_refused_dropped", batch, refusal, order)
            self.warn(f"order refused: {escaped(order.verb)} {escaped(order.site)}: {refusal}")
            return self.answer(src, order.number, f"refused: {refusal}")
        site = self.table.get(order.site)
        if site is None:
            known = ", ".join(sorted(self.table.sites)) or "none"
            what = "is our own site" if order.site == self.config.site else "is no site that was ever heard of"
            return self.answer(src, order.number, f"{order.site} {what}; known: {known}")
        if order.verb not in VERBS:
            return self.answer(src, order.number, f"{order.verb!r} is not an order; known: {', '.join(VERBS)}")
        if order.order_count < site.order_count:
            # Stale: another order was carried out since. No error if that one had the same effect.
            is_so = {"offline": site.forbidden, "online": site.open, "hold": site.paused, "drain": False}[order.verb]
            return self.answer(src, order.number, "" if is_so else SUPERSEDED)
        self.emit(LogEntry("warning", f"order obeyed: {order.verb} {site.name}, of {self.shown_identity(src)}"))
        if order.verb in ("drain", "hold"):
            return self.drain(site, order, src)
        if order.verb == "offline":
            self.offline(site)
        else:
            self.online(site)
        return self.answer(src, order.number, "")

    def answer(self, to: Address, number: int, error: str) -> None:
        """Answer an order. TRIM goes first, so that the member's own table shows the effect when the answer arrives."""
        self.answers[to, number] = error
        if len(self.answers) > ANSWERS_KEPT:
            del self.answers[next(iter(self.answers))]
        if to == self.me:
            self.answered(number, error)
        else:
            self.trimmer.trim()
            self.send(OrderAnswer(to, number, error), dest=None, flags=RELIABLE)

    def offline(self, site: Site) -> None:
        """Take the site OFFLINE, until `online`."""
        site.forbid()
        if site.status != OFFLINE:
            self.status.take_offline(site, "an operator said so", "warning")
            self.end_drain(site, "it was taken OFFLINE meanwhile")
        self.trimmer.publish_table()

    def online(self, site: Site) -> None:
        """Let the site be UP, at once if its relay is on the bridge; what was held for it by order is sent."""
        self.end_drain(site, "an operator ordered it online meanwhile")
        site.allow()
        self.forwarder.pump()
        if site.status == OFFLINE and self.peers.accepted(site.name) is not None:
            self.status.bring_back(site)
        self.trimmer.publish_table()

    def drain(self, site: Site, order: Order, src: Address) -> None:
        """Send what is numbered now, then take the site OFFLINE (drain), or hold all that comes later (hold)."""
        if site.status == OFFLINE:
            return self.answer(src, order.number, f"{site.name} is OFFLINE already; nothing is held for it")
        hold = order.verb == "hold"
        if hold and (site.paused or self.peers.accepted(site.name) is None):
            self.pause(site)                      # there is nothing to wait for: nothing is sent to it now
            self.end_drain(site, "")
            return self.answer(src, order.number, "")
        if site.draining is not None and hold != (site.name in self.holding):
            self.end_drain(site, SUPERSEDED)
        if site.draining is None:
            site.drain_up_to(self.numbering.current_numbers())
            if hold:
                self.holding[site.name] = None
            self.forwarder.pump()
        self.drains.setdefault(site.name, {})[src, order.number] = None
        self.set_timer_once("drain", order.timeout_ns, site.name)
        return self.check_drained(site)

    @on_announcement(SiteAcknowledged)
    def site_acknowledged(self, event: SiteAcknowledged) -> None:
        """Perhaps everything up to the mark of a drain."""
        self.check_drained(event.site)

    def check_drained(self, site: Site) -> None:
        """If the site has acknowledged everything up to the mark of its drain, end the drain as it was ordered."""
        if site.draining is not None and all(site.acked.get(o, 1) >= stop for o, stop in site.draining.items()):
            if site.name in self.holding:
                self.pause(site)
            else:
                site.forbid()
                self.status.take_offline(site, "an operator drained it", "warning")
            self.end_drain(site, "")

    def pause(self, site: Site) -> None:
        """Send nothing more to the site, and hold all, until `online`."""
        if not site.paused:
            site.pause()
            self.emit(LogEntry("warning", f"nothing is sent to site {site.name} until it is ordered online: an "
                                 "operator said so; what is for it is held"))
            self.trimmer.publish_table()

    @timer("drain")
    def drain_expired(self, name: str) -> None:
        """The site did not acknowledge everything in time: its status stays, and it is sent the rest."""
        site = self.table.get(name)
        if site is not None and site.draining is not None:
            missing = sum(max(0, stop - site.acked.get(origin, 1)) for origin, stop in site.draining.items())
            self.end_drain(site, f"{name} has not acknowledged {missing} messages in time; it stays as it was")

    def end_drain(self, site: Site, error: str) -> None:
        """End a drain, if one runs, and answer the orders that wait for it."""
        site.step(SiteEvent.DRAIN_ENDED)
        self.holding.pop(site.name, None)
        self.cancel_timer("drain", site.name)
        for src, number in self.drains.pop(site.name, {}):
            self.answer(src, number, error)
        if site.status != OFFLINE:
            self.forwarder.pump()

    def superseded(self) -> None:
        """A member's table shows later orders that another relay has carried out: answer drains that they ended."""
        for name in list(self.drains):
            site = self.table.sites[name]
            if site.draining is None:
                self.end_drain(site, SUPERSEDED)

    @on(ViewChange)
    def view_changed(self, event: ViewChange) -> None:
        """No longer the relay: drains end here. Their members repeat the order, to the next relay."""
        if not self.group.was_relay or self.group.is_relay:
            return
        for site in self.table:
            site.step(SiteEvent.DRAIN_ENDED)
        for name in self.drains:
            self.cancel_timer("drain", name)
        self.drains, self.holding = {}, {}
