"""Leaving: ask to be left out of the next view, see it installed (or wait leave_timeout), go.

The leaver takes part in the flush, so that what it sent is delivered by everybody. A coordinator that leaves runs
the change itself and goes when all who stay have confirmed it. Who is alone just goes.
"""
from __future__ import annotations

from typing import TYPE_CHECKING

from jgroups_py.address import Address
from jgroups_py.events import Left
from jgroups_py.protocols.gms.headers import Install, LeaveMe
from jgroups_py.protocols.gms.states import LEAVING, LEFT
from jgroups_py.units import millis

if TYPE_CHECKING:
    from jgroups_py.protocols.gms.gms import Gms

REPEAT_NS = millis(200)


class Leaver:
    """Our way out of the group, and other members' requests."""

    def __init__(self, gms: Gms) -> None:
        self.gms = gms
        self.handed_over = False               # we decided the view without us and only see it installed

    def begin(self) -> None:
        """The channel wants to leave."""
        gms = self.gms
        if gms.state in (LEAVING, LEFT):
            return
        if gms.view is None and gms.seeker.coordinator is not None:
            gms.send(LeaveMe(None), gms.seeker.coordinator)
        if gms.view is None or len(gms.view) == 1:
            return self.go()
        gms.state = LEAVING
        gms.leavers[gms.me] = None
        gms.set_timer("leave_timeout", gms.config.leave_timeout_ns)
        self.ask()

    def ask(self) -> None:
        """Ask the acting coordinator, which may be ourselves, again and again."""
        gms = self.gms
        if self.handed_over or gms.view is None:
            return
        if gms.acting():
            gms.chair.consider()
        else:
            gms.send(LeaveMe(gms.view.id), gms.present()[0])
        gms.set_timer("leave", REPEAT_NS)

    def asked(self, header: LeaveMe, src: Address) -> None:
        """A member wants to leave, or a joiner has changed its mind."""
        gms = self.gms
        if gms.view is None or gms.shown is None:
            return
        if header.view_id is None:
            gms.is_gone(src)
            return gms.chair.declined(src, final=True)
        if src not in gms.view:
            return gms.send(gms.shown, src)
        gms.leavers[src] = None
        gms.chair.consider()

    def after_install(self) -> None:
        """The view changed, and we are still in it."""
        gms = self.gms
        assert gms.view is not None
        if len(gms.view) == 1:
            self.go()
        else:
            self.ask()

    def hand_over(self, header: Install) -> None:
        """We decided a view without ourselves: go when everybody has it."""
        self.handed_over = True
        self.gms.cancel_timer("stuck")
        self.gms.chair.close()

    def give_up(self) -> None:
        """Nobody let us go in time: go anyway, and say so."""
        gms = self.gms
        if gms.view is not None and not self.handed_over:
            gms.tell(LeaveMe(None), [member for member in gms.view.members if member != gms.me])
        self.go()

    def go(self) -> None:
        """Out of the group, with its permission or without."""
        gms = self.gms
        if gms.state == LEFT:
            return
        gms.state = LEFT
        gms.view = None
        gms.chair.stop()
        gms.seeker.done()
        for name in ("leave", "leave_timeout", "stuck", "merge"):
            gms.cancel_timer(name)
        gms.later(self._tell_all)

    def _tell_all(self) -> None:
        """Layers below have timers, links and files to give up; layers above end."""
        self.gms.pass_down(Left())
        self.gms.pass_up(Left())
