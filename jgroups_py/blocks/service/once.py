"""Answers that are kept for calls that run once (`@method(once=True)`): a caller that asks again gets the same one.

Bounded: of each caller the latest KEPT_PER_CALLER calls, of KEPT_CALLERS callers. A caller numbers its calls in the
order in which it sends them first, and these arrive in that order; so a number that comes again and is not kept any
more is told from one that never came. Pure.
"""
from __future__ import annotations

import enum
from collections.abc import Callable

import attrs

from jgroups_py.blocks.service.messages import Answerable
from jgroups_py.model.address import Address

KEPT_PER_CALLER = 256
KEPT_CALLERS = 1024

Reply = Callable[[Answerable], None]
"""How a call was answered, to be applied to whatever asks for it."""


class OnceVerdict(enum.Enum):
    """What to do with a call that arrived."""

    RUN = enum.auto()
    WAIT = enum.auto()                      # it runs, or was answered: the ticket gets the answer
    FORGOTTEN = enum.auto()


@attrs.define(eq=False)
class KeptCall:
    """A call that began. reply: how it ended; waiting: who asked before it did."""

    reply: Reply | None = None
    waiting: list[Answerable] = attrs.Factory(list)


@attrs.define(eq=False)
class KeptCaller:
    """The calls of one caller, and the highest number that came from it."""

    calls: dict[int, KeptCall] = attrs.Factory(dict)
    highest: int = -1


class KeptAnswers:
    """See the module."""

    def __init__(self) -> None:
        self._callers: dict[Address, KeptCaller] = {}

    def arrived(self, src: Address, number: int, again: bool, ticket: Answerable) -> OnceVerdict:
        """A call came, for the first time or again; its ticket is answered unless it is FORGOTTEN."""
        caller = self._callers.pop(src, None)
        lost = caller is None and again                      # the caller itself may have been forgotten
        caller = self._callers[src] = caller or KeptCaller()
        while len(self._callers) > KEPT_CALLERS:
            del self._callers[next(iter(self._callers))]
        call = caller.calls.get(number)
        if call is not None:
            if call.reply is None:
                call.waiting.append(ticket)
            else:
                call.reply(ticket)
            return OnceVerdict.WAIT
        if again and (lost or number <= caller.highest):
            return OnceVerdict.FORGOTTEN
        caller.highest = max(caller.highest, number)
        caller.calls[number] = KeptCall(waiting=[ticket])
        for old in [old for old, kept in caller.calls.items() if kept.reply is not None][:-KEPT_PER_CALLER]:
            del caller.calls[old]
        return OnceVerdict.RUN

    def ended(self, src: Address, number: int, reply: Reply) -> None:
        """The call that ran has its answer."""
        caller = self._callers.get(src)
        call = None if caller is None else caller.calls.get(number)
        if call is None or call.reply is not None:
            return
        call.reply = reply
        waiting, call.waiting = call.waiting, []
        for ticket in waiting:
            reply(ticket)
