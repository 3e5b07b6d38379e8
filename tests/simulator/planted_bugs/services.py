"""Safeguards of typed services (blocks/service), shown by profiles services and services-sites."""
from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from jgroups_py.blocks.service.aio import AsyncServices
from jgroups_py.blocks.service.base import BaseServices
from jgroups_py.blocks.service.directory import CallPlan, Directory
from jgroups_py.blocks.service.interface import MethodSpec
from jgroups_py.blocks.service.messages import Answerable
from jgroups_py.blocks.service.once import KeptAnswers, KeptCaller, OnceVerdict
from jgroups_py.blocks.service.streams import StreamBuffer
from jgroups_py.model.address import Address
from jgroups_py.model.errors import CallCancelledError, MemberLeftError, OverloadedError, RemoteError, RequestError
from jgroups_py.testing.simulation import services
from tests.simulator.planted_bugs.group import nothing
from tests.simulator.planted_bugs.safeguard import Patch, Safeguard

failed, fault, flush = CallPlan.failed, BaseServices.fault, StreamBuffer.flush
view, global_view = Directory.view, Directory.global_view


def all_idempotent(self: CallPlan, member: Address, error: RequestError) -> None:
    """Every call is tried at another member when one has left."""
    if isinstance(error, MemberLeftError):
        self._failed[member] = None
    else:
        failed(self, member, error)


def keeps_none(self: KeptAnswers, src: Address, number: int, again: bool, ticket: Answerable) -> OnceVerdict:
    """A call runs whenever it comes."""
    self._callers.setdefault(src, KeptCaller()).calls.pop(number, None)
    caller = self._callers[src]
    caller.calls[number] = type("Kept", (), {"reply": None, "waiting": [ticket]})()
    return OnceVerdict.RUN


def cancelled_is_refused(self: BaseServices, spec: MethodSpec, error: RemoteError) -> RequestError:
    """A call that was cancelled in its course counts as one that never began."""
    found = fault(self, spec, error)
    return OverloadedError(str(found)) if isinstance(found, CallCancelledError) else found


def own_deadline(self: BaseServices, timeout: float | None, now_ns: int) -> int:
    """A call inside a method has its own deadline alone."""
    return 1 << 62 if timeout is None else now_ns + int(timeout * 1e9)


def never(self: Any, *arguments: Any) -> bool:
    """No."""
    return False


def errors_first(self: StreamBuffer) -> None:
    """An error is answered before the items that wait."""
    if self._over and self._fail is not None:
        self._items.clear()
    flush(self)


def nobody_new_here(self: Directory, members: Iterable[Address]) -> bool:
    """A view of the group has no members to whom the offers are new."""
    view(self, members)
    return False


def nobody_new_there(self: Directory, sites: Mapping[str, Sequence[Address]], own: str) -> bool:
    """A view of all sites has no members to whom the offers are new."""
    global_view(self, sites, own)
    return False


def guard(
    name: str, left: str, owner: Any, method: str, without: Any, breaks: str, profile: str = services.PROFILE,
) -> Safeguard:
    """A safeguard of one function."""
    return Safeguard(name, "services", left, (Patch(owner, method, without),), profile, breaks)


SERVICE_SAFEGUARDS = (
    guard("only idempotent calls are tried elsewhere", "all are", CallPlan, "failed", all_idempotent, "C1"),
    guard("answers of calls that run once are kept", "a call runs whenever it comes", KeptAnswers, "arrived",
          keeps_none, "C1"),
    guard("an attempt before makes the end indefinite", "the last error counts", CallPlan, "ends", nothing, "C2"),
    guard("a cancelled call is no refused one", "it is", BaseServices, "fault", cancelled_is_refused, "C2"),
    guard("an error comes after the items", "it comes at once", StreamBuffer, "flush", errors_first, "C3"),
    guard("a call inside a method inherits its deadline", "it has its own alone", BaseServices, "deadline_ns",
          own_deadline, "C4"),
    guard("production waits for the reader", "it goes on", StreamBuffer, "full", never, "C5"),
    guard("what is given up is cancelled", "it is not", BaseServices, "give_up", nothing, "C5"),
    guard("what was given up is cancelled when its member is back", "it is not", BaseServices, "_cancel_abandoned",
          nothing, "C5"),
    guard("late calls of members that left are refused", "they begin", BaseServices, "is_gone", never, "C5"),
    guard("streams of members that left end", "they stay", AsyncServices, "_changed", nothing, "C5"),
    guard("calls that ended are not counted as under way", "they are", Directory, "ended", nothing, "C5"),
    guard("members that come into the group are told what is served", "they are not", Directory, "view",
          nobody_new_here, "C6"),
    guard("members of other sites that come are told what is served", "they are not", Directory, "global_view",
          nobody_new_there, "C6", services.PROFILE_SITES),
)
