"""What a channel writes to the log of the outputs for its application, and at which level.

WARNING, which Python shows by default, is for what may need action: a member that failed, a merge after a split, a site
that is DOWN or OFFLINE, messages that will not be delivered, a channel that closed by itself. INFO is what needs no
action, and a start is DEBUG. Every line names member and cluster, as one process may have many channels.
"""
from __future__ import annotations

import logging
from collections.abc import Callable

import attrs

from jgroups_py.model.address import Address
from jgroups_py.model.outputs import (
    Closed,
    MemberAlone,
    MessagesLost,
    MessagesSkipped,
    Output,
    SiteStatusChanged,
    Unreachable,
    ViewInstalled,
)
from jgroups_py.model.units import NS_PER_S
from jgroups_py.model.view import MergeView, View

log = logging.getLogger("jgroups_py")

UP = "UP"
LOSSES = 20
"""This many lines about losses within a minute are warnings, the rest of that minute is DEBUG: a site that is given up
under load loses ranges by the thousand, and there is a callback for each."""
MINUTE_NS = 60 * NS_PER_S


@attrs.define(eq=False)
class ChannelLog:
    """What one session writes to the log. clock: monotonic nanoseconds."""

    name: str
    cluster: str
    clock: Callable[[], int]
    _view: View | None = None
    _gone: dict[Address, None] = attrs.Factory(dict)       # were in the view and are not: ended, or only apart
    _since_ns: int = 0                                     # when the minute of `_losses` began
    _losses: int = 0

    def record(self, output: Output, unrequested: bool = False) -> None:
        """Log an output for the application. unrequested: of Closed, whether the application had not requested the
        end."""
        match output:
            case ViewInstalled(view, failed):
                self._view_installed(view, failed)
            case MemberAlone(reason):
                self._write(logging.WARNING, "no other member has been found: %s", reason)
            case SiteStatusChanged(site, status):
                self._write(logging.INFO if status == UP else logging.WARNING, "site %s is %s", site, status)
            case MessagesLost(site, origin, first, stop, dest_site):
                name = origin.name or origin.raw.hex()[:8]
                self._loss("messages %d to %d of %s are lost for %s", first, stop - 1,
                           f"{name}@{site}" if site else name,
                           f"site {dest_site}" if dest_site else "this member")
            case MessagesSkipped(origin, messages, nbytes):
                self._loss("%d messages (%d bytes) of %s are lost: the application was too slow", messages, nbytes,
                           origin)
            case Unreachable(dest):
                self._loss("a message to %s is lost: it is unreachable", dest)
            case Closed(reason) if unrequested:
                self._write(logging.WARNING, "the channel closed: %s", reason)

    def _view_installed(self, view: View, failed: tuple[Address, ...]) -> None:
        before, self._view = self._view, view
        back = [member for member in view.members if member in self._gone]
        for member in back:
            del self._gone[member]
        out = [member for member in before.members if member not in view.members] if before is not None else []
        self._gone.update(dict.fromkeys(out))
        missed = view.missed if isinstance(view, MergeView) else {}
        if missed:
            self._write(logging.WARNING, "this member has not got, and will not get, %s", ", ".join(
                f"{number} multicasts of {member}" for member, number in missed.items()))
        if failed:
            self._write(logging.WARNING, "view %s; failed: %s", view, ", ".join(map(str, failed)))
        elif isinstance(view, MergeView) and back:
            self._write(logging.WARNING, "the group was split and is one again: view %s; back: %s", view,
                      ", ".join(map(str, back)))
        else:
            self._write(logging.DEBUG if before is None else logging.INFO, "view %s", view)

    def _loss(self, text: str, *arguments: object) -> None:
        now_ns = self.clock()
        if now_ns - self._since_ns >= MINUTE_NS or not self._losses:
            self._since_ns, self._losses = now_ns, 0
        self._losses += 1
        more = "; further ones within the minute are logged at DEBUG" if self._losses == LOSSES else ""
        self._write(logging.WARNING if self._losses <= LOSSES else logging.DEBUG, text + more, *arguments)

    def _write(self, level: int, text: str, *arguments: object) -> None:
        log.log(level, "%s@%s: " + text, self.name, self.cluster, *arguments)
