"""A planned stop (rule 10): hand over what is held, for `leave_timeout` at most, say GOODBYE, leave the bridge, go.

GOODBYE says that the leave is planned, so nobody waits for failure detection. It changes nothing about what is held:
the last member of a site leaves it DOWN, as a crash would, and other sites hold for it until it is back, unless it
says that it goes for good (`forget`). What a last member itself still holds is on its disk; without one it goes with
the member, which is logged and declared lost by range, at the other site too as far as that can still be reached.
"""
from __future__ import annotations

from typing import TYPE_CHECKING

from jgroups_py.outputs import CloseBridge, Note, ReadyToLeave
from jgroups_py.protocols.relay.sites import OFFLINE
from jgroups_py.units import seconds

if TYPE_CHECKING:
    from jgroups_py.protocols.relay.relay import Relay

BRIDGE_LEAVE_NS = seconds(1)    # a leaving relay waits this long for its leave of the bridge


class Leaver:
    """See the module. One object a member."""

    def __init__(self, relay: Relay) -> None:
        self.relay = relay
        self.leaving = False
        self.forget = False

    def begin(self, forget: bool) -> None:
        """The application wants to leave."""
        relay = self.relay
        if self.leaving:
            return None
        self.leaving, self.forget = True, forget
        if not relay.has_view:
            return relay.emit(ReadyToLeave())
        relay.set_timer("leave", relay.config.leave_timeout_ns)
        return self.check()

    def check(self) -> None:
        """Whether there is nothing left to wait for."""
        relay = self.relay
        if self.leaving and relay.timer_is_set("leave") and not relay.post.out.waiting and (
                not relay.is_relay or self.has_handed_over()):
            relay.cancel_timer("leave")
            self.go()

    def has_handed_over(self) -> bool:
        """As relay: whether the others have all that we hold; the last of a site tries to reach them."""
        relay, sending = self.relay, self.relay.sending
        delivered = relay.numbers.get(relay.me, 1) == relay.next_number
        return sending.everything_acknowledged() and (not self.is_last or (delivered and sending.knows_all_peers()))

    @property
    def is_last(self) -> bool:
        """Whether nobody of our site stays."""
        return len(self.relay.view) == 1

    def go(self) -> None:
        """All is handed over, or the time is up."""
        relay = self.relay
        if self.is_last and relay.is_relay:
            self.give_up_unsent()
            self.tell_unforgotten()
        elif self.forget:
            relay.emit(Note("info", f"others of site {relay.config.site} stay: only its last member can have other "
                            "sites forget it"))
        relay.journal.leaving()
        if not (relay.is_relay and relay.bridge_wanted):
            return relay.emit(ReadyToLeave())
        relay.sending.goodbye(last=self.is_last, forget=self.forget)
        relay.set_timer("left_bridge", BRIDGE_LEAVE_NS)
        return relay.emit(CloseBridge())

    def left_bridge(self) -> None:
        """We are out of the bridge, or it did not let us go in time."""
        self.relay.cancel_timer("left_bridge")
        self.relay.emit(ReadyToLeave())

    def give_up_unsent(self) -> None:
        """What only our memory holds goes with us: say so, here and to the sites that miss it."""
        relay = self.relay
        if relay.journal.writing:
            return
        for site in relay.table:
            before = dict(site.acked)
            lost = relay.status.lose(site) if site.status != OFFLINE else 0
            if lost:
                ranges = "; ".join(f"{origin} {before.get(origin, 1)}..{site.acked[origin] - 1}"
                                   for origin in site.acked if site.acked[origin] > before.get(origin, 1))
                relay.emit(Note("warning", f"the last member of site {relay.config.site} leaves: {lost} messages that "
                                f"site {site.name} has not acknowledged are lost for it, as there is no hold_dir "
                                f"({ranges})"))
                site.graces.clear()
                relay.status.tell_gone(site)
                relay.tell_losses(site)

    def tell_unforgotten(self) -> None:
        """Who is not on the bridge cannot be asked to forget us."""
        relay = self.relay
        away = [site.name for site in relay.table if site.status != OFFLINE and not relay.sending.peers.of(site.name)]
        if self.forget and away:
            relay.emit(Note("warning", f"site {relay.config.site} leaves for good, but {', '.join(sorted(away))} "
                            "cannot be told: order `jgroups site offline` there, or they hold for us up to hold_age"))
