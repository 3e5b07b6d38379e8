"""State that all parts of GMS share: the view, the highest view counter, absent members, the lifecycle. Pure.

All parts of GMS read it; it changes by its methods only. Two rules stand here because every part depends on them: which
member acts as coordinator, and which view counters are plausible.
"""
from __future__ import annotations

import enum
from collections.abc import Callable, Iterable
from typing import Final

from jgroups_py.model.address import Address
from jgroups_py.model.counter_jumps import MAX_JUMP, TOP, plausible
from jgroups_py.model.view import View
from jgroups_py.protocols.gms.headers import InstallHeader

STEP: Final = MAX_JUMP // 2      # members that know the view before a step of this size adopt the one after it


class Lifecycle(enum.Enum):
    """Where a member stands between connecting and having left."""

    IDLE = "idle"                  # not connected yet
    JOINING = "joining"            # looks for a coordinator; has no view
    MEMBER = "member"
    LEAVING = "leaving"            # asked to leave; still a full participant of view changes
    HANDED_OVER = "handed over"    # decided the view without itself; only repeats it until all members confirm
    LEFT = "left"


TRANSITIONS: Final = {
    Lifecycle.IDLE: (Lifecycle.JOINING, Lifecycle.LEFT),
    Lifecycle.JOINING: (Lifecycle.MEMBER, Lifecycle.LEFT),
    Lifecycle.MEMBER: (Lifecycle.LEAVING, Lifecycle.LEFT),
    Lifecycle.LEAVING: (Lifecycle.HANDED_OVER, Lifecycle.LEFT),
    Lifecycle.HANDED_OVER: (Lifecycle.LEFT,),
    Lifecycle.LEFT: (),
}


class GroupState:
    """One member's knowledge of its group.

    view: None before the first and after the last; installed: the Install that brought the view, which members with an
    older view are answered with; counter: the highest view counter that was adopted; suspects: members of the view
    that failure detection reports; gone: members of the view that have another view by now, or did not answer.
    """

    def __init__(self, me: Address, drop: Callable[[str, None, str], None]) -> None:
        self.me = me
        self.drop = drop
        self.lifecycle = Lifecycle.IDLE
        self.view: View | None = None
        self.installed: InstallHeader | None = None
        self.counter = 0
        self.suspects: dict[Address, None] = {}
        self.gone: dict[Address, None] = {}

    def become(self, lifecycle: Lifecycle) -> None:
        """Go on to the next stage of life."""
        assert lifecycle in TRANSITIONS[self.lifecycle], f"no way from {self.lifecycle.value} to {lifecycle.value}"
        self.lifecycle = lifecycle
        if lifecycle is Lifecycle.LEFT:
            self.view = None

    # --- which member acts --------------------------------------------------------------------------------------------

    def is_absent(self, member: Address) -> bool:
        """Whether view changes do not count on `member` of our view."""
        return member in self.suspects or member in self.gone

    def present(self) -> list[Address]:
        """The members of our view that view changes count on, in view order. This member is always one of them."""
        assert self.view is not None
        return [member for member in self.view.members if not self.is_absent(member)]

    def acting_coordinator(self) -> Address:
        """The member that should change the view: the first one present.

        Members may disagree about it, since each has its own suspects. That costs ballots and never safety: promises
        are ordered, and every member of the next view has to accept (acceptor_state.py).
        """
        return self.present()[0]

    def acts(self) -> bool:
        """Whether this member is the acting coordinator. A member that handed over decides nothing any more."""
        return (self.view is not None and self.lifecycle in (Lifecycle.MEMBER, Lifecycle.LEAVING)
                and self.acting_coordinator() == self.me)

    def suspect(self, members: Iterable[Address]) -> list[Address]:
        """Failure detection reports `members`; returns those that were not suspects before."""
        view = self.view
        fresh = [member for member in members
                 if view is not None and member in view and member != self.me and member not in self.suspects]
        self.suspects.update(dict.fromkeys(fresh))
        return fresh

    def unsuspect(self, members: Iterable[Address]) -> None:
        """Failure detection takes its report back."""
        for member in members:
            self.suspects.pop(member, None)

    def lose(self, member: Address) -> bool:
        """`member` is in another view, or does not answer; False if that was known, or it is not in our view."""
        if self.view is None or member not in self.view or member == self.me or member in self.gone:
            return False
        self.gone[member] = None
        return True

    # --- view counters ------------------------------------------------------------------------------------------------

    def adopt_counter(self, counter: int) -> bool:
        """Adopt the counter of a view that exists or is proposed. False: it is implausible, and counted as a drop.

        Counters only grow (M2) and merges carry them to other groups, so one absurd counter would stay for ever. One
        far above the highest known is refused; a joiner, which knows none, takes any below TOP.
        """
        if not plausible(counter, self.counter, anew=self.view is None):
            self.drop("implausible_counters_refused", None, f"counter {counter} is far ahead of {self.counter}")
            return False
        self.counter = max(self.counter, counter)
        return True

    def step_towards(self, counter: int) -> bool:
        """Raise our counter by one STEP at most towards one that was refused; False: not here, or not yet.

        Otherwise two groups, one of them with an absurdly high counter, could never merge. Each step is installed as a
        view before the next, so that all members find the next one plausible.
        """
        if self.view is None or counter > TOP or not self.acts() or self.counter - self.view.id.counter >= STEP:
            return False
        self.counter = min(counter, self.counter + STEP)
        return True

    # --- installing ---------------------------------------------------------------------------------------------------

    def install(self, header: InstallHeader) -> tuple[Address, ...]:
        """Make `header.view` the view; returns the suspects that are not in it, which are reported as failed."""
        view, previous = header.view, self.view
        assert self.me in view, "a member installs only views with itself (M1)"
        assert previous is None or previous.id < view.id, "views only grow (M2)"
        before = previous.members if previous is not None else ()
        failed = tuple(member for member in before if member in self.suspects and member not in view)
        self.view, self.installed = view, header
        self.counter = max(self.counter, view.id.counter)
        self.suspects = {member: None for member in self.suspects if member in view}
        self.gone = {}
        if self.lifecycle is Lifecycle.JOINING:
            self.become(Lifecycle.MEMBER)
        return failed
