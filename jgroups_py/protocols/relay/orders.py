"""What an operator wants of another site: `offline`, `online`, `drain`, `hold`. Works at any member; its relay carries
it out.

A member passes the order to its coordinator and repeats it until it is answered, so it outlives a coordinator's crash;
carrying out twice does no harm. An order says how many there had been about the site, as far as its member knew
(`decree`): one that comes late (after a split, from a paused process) must not undo what was ordered since.

`offline` gives the site up at once. `drain` sends what was numbered when the order came, and nothing of what came
later, waits until the site has it, and only then takes it OFFLINE: nothing of what was held is lost. Both forbid the
site's return until `online`. `hold` (`drain --hold`) does the same but goes on holding: what comes meanwhile is sent
after `online`, so nothing is lost at all, as far as `hold_bytes` reaches.
"""
from __future__ import annotations

from typing import TYPE_CHECKING

from jgroups_py.address import Address
from jgroups_py.events import SiteCommand
from jgroups_py.outputs import Note, SiteCommandDone
from jgroups_py.protocols.relay.headers import Order, OrderAnswer
from jgroups_py.protocols.relay.receiving import RELIABLE
from jgroups_py.protocols.relay.sites import OFFLINE, Site
from jgroups_py.units import millis, seconds

if TYPE_CHECKING:
    from jgroups_py.protocols.relay.relay import Relay

AGAIN_NS = millis(500)           # an order without an answer is sent again this often
ANSWER_NS = seconds(5)           # and given up when nobody answered for so long, besides what a drain may take
OVERTAKEN = "another order about this site was carried out meanwhile; look at `jgroups site status`, then order again"
VERBS = ("offline", "online", "drain", "hold")
ANSWERS_KEPT = 100               # a relay remembers so many, for orders that cross their answers


class Orders:
    """Orders given here, and, at the relay, who waits for a drain."""

    def __init__(self, relay: Relay) -> None:
        self.relay = relay
        self.given: dict[int, tuple[Order, int]] = {}               # number -> the order, until when an answer counts
        self.drains: dict[str, dict[tuple[Address, int], None]] = {}    # site -> (member, its number) that wait
        self.holding: dict[str, None] = {}               # drains after which the site is to be held for
        self.answers: dict[tuple[Address, int], str] = {}               # of late, by (member, its number)

    # --- where the order was given ----------------------------------------------------------------------------------

    def command(self, event: SiteCommand) -> None:
        """An operator speaks."""
        relay = self.relay
        site = relay.table.get(event.site)
        decree = site.decree if site is not None else 0
        order = Order(event.number, event.verb, event.site, event.timeout_ns, decree)
        self.given[event.number] = order, relay.now_ns + event.timeout_ns + ANSWER_NS
        if not relay.has_view:
            return self.answered(event.number, "this member is in no group yet")
        relay.set_timer_once("order", AGAIN_NS)
        return self.dispatch(order)

    def dispatch(self, order: Order) -> None:
        """To the coordinator, who may be us."""
        if self.relay.is_relay:
            self.obey(order, self.relay.me)
        else:
            self.relay.send(order, self.relay.view.coordinator, flags=RELIABLE)

    def again(self) -> None:
        """On a timer while an answer is missing."""
        for number, (order, until_ns) in list(self.given.items()):
            if self.relay.now_ns >= until_ns:
                self.answered(number, "the coordinator did not answer in time")
            else:
                self.dispatch(order)
        if self.given:
            self.relay.set_timer_once("order", AGAIN_NS)

    def answered(self, number: int, error: str) -> None:
        """It was carried out, or refused."""
        if self.given.pop(number, None) is not None:
            self.relay.emit(SiteCommandDone(number, error))

    # --- the relay --------------------------------------------------------------------------------------------------

    def obey(self, order: Order, src: Address) -> None:
        """Carry an order out."""
        relay = self.relay
        if not relay.is_relay or not relay.receiving.complete:
            return None                           # it comes again: then we have heard from all members, or another has
        if (src, order.number) in self.answers:
            return self.answer(src, order.number, self.answers[src, order.number])
        site = relay.table.get(order.site)
        if site is None:
            known = ", ".join(sorted(relay.table.sites)) or "none"
            what = "is our own site" if order.site == relay.config.site else "is no site that was ever heard of"
            return self.answer(src, order.number, f"{order.site} {what}; known: {known}")
        if order.verb not in VERBS:
            return self.answer(src, order.number, f"{order.verb!r} is not an order; known: {', '.join(VERBS)}")
        if order.decree < site.decree:
            is_so = {"offline": site.forbidden, "online": site.open, "hold": site.paused, "drain": False}[order.verb]
            return self.answer(src, order.number, "" if is_so else OVERTAKEN)
        if order.verb in ("drain", "hold"):
            return self.drain(site, order, src)
        if order.verb == "offline":
            self.offline(site)
        else:
            self.online(site)
        return self.answer(src, order.number, "")

    def answer(self, to: Address, number: int, error: str) -> None:
        """Tell the member that asked, after what its own table is to show."""
        self.answers[to, number] = error
        if len(self.answers) > ANSWERS_KEPT:
            del self.answers[next(iter(self.answers))]
        if to == self.relay.me:
            self.answered(number, error)
        else:
            self.relay.status.trim()
            self.relay.send(OrderAnswer(to, number, error), dest=None, flags=RELIABLE)

    def offline(self, site: Site) -> None:
        """Give the site up, until `online`."""
        site.decide(not site.forbidden)
        site.paused = False
        if site.status != OFFLINE:
            self.relay.status.take_offline(site, "an operator said so", "warning")
            self.end_drain(site, "it was taken OFFLINE meanwhile")
        self.relay.status.tell_table()

    def online(self, site: Site) -> None:
        """It may return, at once if its relay is on the bridge; what was held for it by order is sent."""
        relay = self.relay
        self.end_drain(site, "an operator ordered it online meanwhile")
        site.decide(1 if site.forbidden else 2)           # even where nothing was forbidden: a drain may be on its way
        site.paused = False
        relay.sending.pump()
        if site.status == OFFLINE and relay.sending.peers.accepted(site.name) is not None:
            relay.status.bring_back(site)
        relay.status.tell_table()

    def drain(self, site: Site, order: Order, src: Address) -> None:
        """Send what is held now, then take the site OFFLINE, or hold all that comes later."""
        relay = self.relay
        if site.status == OFFLINE:
            return self.answer(src, order.number, f"{site.name} is OFFLINE already; nothing is held for it")
        hold = order.verb == "hold"
        if hold and (site.paused or relay.sending.peers.accepted(site.name) is None):
            self.pause(site)                      # nothing is being sent to it in any case
            self.end_drain(site, "")
            return self.answer(src, order.number, "")
        if site.draining is not None and hold != (site.name in self.holding):
            self.end_drain(site, OVERTAKEN)
        if site.draining is None:
            site.draining = relay.current_numbers()
            if hold:
                self.holding[site.name] = None
            relay.sending.pump()
        self.drains.setdefault(site.name, {})[src, order.number] = None
        relay.set_timer_once("drain", order.timeout_ns, site.name)
        return self.check_drained(site)

    def check_drained(self, site: Site) -> None:
        """The site acknowledged something: maybe all that a drain waits for."""
        if site.draining is not None and all(site.acked.get(o, 1) >= stop for o, stop in site.draining.items()):
            if site.name in self.holding:
                self.pause(site)
            else:
                site.decide(not site.forbidden)
                site.paused = False
                self.relay.status.take_offline(site, "an operator drained it", "warning")
            self.end_drain(site, "")

    def pause(self, site: Site) -> None:
        """Send nothing more to the site, and hold all, until `online`."""
        if not site.paused:
            site.paused = True
            site.decide(2)                        # as after any order: one that was given before and comes late is void
            self.relay.emit(Note("warning", f"nothing is sent to site {site.name} until it is ordered online: an "
                                 "operator said so; what is for it is held"))
            self.relay.status.tell_table()

    def drain_expired(self, name: str) -> None:
        """The site did not acknowledge all in time: it stays what it was, and gets the rest as ever."""
        site = self.relay.table.get(name)
        if site is not None and site.draining is not None:
            missing = sum(max(0, stop - site.acked.get(origin, 1)) for origin, stop in site.draining.items())
            self.end_drain(site, f"{name} has not acknowledged {missing} messages in time; it stays as it was")

    def end_drain(self, site: Site, error: str) -> None:
        """Answer all who wait."""
        site.draining = None
        self.holding.pop(site.name, None)
        self.relay.cancel_timer("drain", site.name)
        for src, number in self.drains.pop(site.name, {}):
            self.answer(src, number, error)
        if site.status != OFFLINE:
            self.relay.sending.pump()

    def overtaken(self) -> None:
        """We heard of orders that others have carried out: a drain from before them ends."""
        for name in list(self.drains):
            site = self.relay.table.sites[name]
            if site.draining is None:
                self.end_drain(site, OVERTAKEN)

    def resigned(self) -> None:
        """We are no longer the relay; who waits asks the next one."""
        for name in self.drains:
            self.relay.cancel_timer("drain", name)
        self.drains, self.holding = {}, {}
