"""Suspicions, merges and views."""
from __future__ import annotations

import attrs

from jgroups_py.model.address import Address
from jgroups_py.model.events.base import Event
from jgroups_py.model.view import View, ViewId


@attrs.frozen
class Suspect(Event):
    """Up, from failure detectors.

    certain: this member has detected itself that the process is gone, so no verification is needed. accused: another
    member reported that it has detected so, and this member could not check, so it is likely.
    """

    members: tuple[Address, ...]
    certain: bool = False
    accused: bool = False


@attrs.frozen
class Unsuspect(Event):
    """Up: frames of the members arrived again."""

    members: tuple[Address, ...]


@attrs.frozen
class ExcludedHint(Event):
    """Up, from NAKACK and failure detectors, at a bounded rate: a process that the view excludes acts as a member.

    asked: it sent this member a request, so this member answers; otherwise the coordinator answers, which receives its
    frames too.
    """

    non_member: Address
    asked: bool = False


@attrs.frozen
class MergeNeeded(Event):
    """Up, from MERGE3: members with different views were found; member -> its view's id."""

    views: dict[Address, ViewId]


@attrs.frozen
class ViewChange(Event):
    """Down and up, from GMS: `view` is installed. Everything delivered in `previous` (None: this is the first view)
    came before.

    failed: of `left`, those that failure detection had reported here.
    """

    view: View
    previous: View | None
    joined: tuple[Address, ...]
    left: tuple[Address, ...]
    failed: tuple[Address, ...] = ()


@attrs.frozen
class RaiseView(Event):
    """Down, from RELAY: the coordinator shall install a view (same members) whose counter exceeds `above`."""

    above: int


@attrs.frozen
class Left(Event):
    """Up, from GMS: this member is out of the group, gracefully or after the leave timeout."""
