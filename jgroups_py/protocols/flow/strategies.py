"""Strategies: which receivers limit how far a sender of multicasts may go. Pure arithmetic on positions (bytes sent).

A receiver reports the position up to which it has consumed, and its window: it can take so many bytes more. `Max` is
limited by the fastest receiver and does not track the others; `Min` by the slowest; `Tagged` by the slowest of those
with the group's tag. With fewer tracked receivers than the group minimum size the limit is frozen. A strategy of your
own derives from Strategy, and is named by entry point (group `jgroups_py.flow_control`) or as "package.module:Class".
Source: Aeron's multicast flow control. Deviation: timeouts are the protocol's; it reports a silent receiver as `gone`.
"""
from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable

import attrs

from jgroups_py.model.errors import ConfigError
from jgroups_py.model.plugins import plugin

ENTRY_POINTS = "jgroups_py.flow_control"


@attrs.frozen
class StrategySettings:
    """What a strategy is configured with.

    window_bytes: assumed for receivers that have not answered yet; group_tag: None without one.
    """

    window_bytes: int
    group_tag: int | None = None
    group_min_size: int = 0


class Strategy(ABC):
    """What one sender knows of its receivers, each identified by any hashable value.

    limit: the highest position that may be sent, None while no receiver limits it.
    """

    needs_tag = False                        # whether a group_tag is required

    def __init__(self, settings: StrategySettings, limit: int | None = None) -> None:
        self.settings = settings
        self.limit = limit

    @abstractmethod
    def setup(self, receiver: Hashable, position: int) -> None:
        """A receiver joined and gets everything from `position` on; it has not answered yet."""

    @abstractmethod
    def status(self, receiver: Hashable, position: int, window: int, tag: int | None) -> None:
        """A receiver answered: it has consumed up to `position` and can take `window` bytes more."""

    @abstractmethod
    def gone(self, receiver: Hashable) -> None:
        """A receiver left, is about to leave, or did not answer for too long."""

    @abstractmethod
    def receivers(self) -> int:
        """How many receivers are tracked."""

    @abstractmethod
    def admits(self, receiver: Hashable) -> bool:
        """Whether a receiver that was gone counts again after the status that it sent."""

    @property
    def wanted(self) -> int:
        """How many receivers there must be at least."""
        return self.settings.group_min_size

    @property
    def connected(self) -> bool:
        """Whether there are enough."""
        return self.receivers() >= self.wanted


class Max(Strategy):
    """As fast as the fastest receiver; tags and minimum sizes of groups have no meaning for it."""

    def __init__(self, settings: StrategySettings, limit: int | None = None) -> None:
        super().__init__(settings, limit)
        self.seen: dict[Hashable, None] = {}

    @property
    def wanted(self) -> int:
        return 0

    def setup(self, receiver: Hashable, position: int) -> None:
        self.status(receiver, position, self.settings.window_bytes, None)

    def status(self, receiver: Hashable, position: int, window: int, tag: int | None) -> None:
        self.seen[receiver] = None
        self.limit = position + window if self.limit is None else max(self.limit, position + window)

    def gone(self, receiver: Hashable) -> None:
        self.seen.pop(receiver, None)
        if not self.seen:
            self.limit = None

    def receivers(self) -> int:
        return len(self.seen)

    def admits(self, receiver: Hashable) -> bool:
        return True


class Min(Strategy):
    """As fast as the slowest receiver."""

    def __init__(self, settings: StrategySettings, limit: int | None = None) -> None:
        super().__init__(settings, limit)
        self.limits: dict[Hashable, int] = {}               # tracked receiver -> its position + window

    def counts(self, tag: int | None) -> bool:
        """Whether receivers with this tag are tracked."""
        return True

    def setup(self, receiver: Hashable, position: int) -> None:
        self.limits[receiver] = position + self.settings.window_bytes
        self.update_limit()

    def status(self, receiver: Hashable, position: int, window: int, tag: int | None) -> None:
        if not self.counts(tag):
            return
        limit = position + window
        # A new one is admitted unless it is more than a window behind the slowest: it would stop the sender for long.
        if receiver in self.limits or not self.limits or limit >= min(self.limits.values()) - window:
            self.limits[receiver] = limit
            self.update_limit()

    def gone(self, receiver: Hashable) -> None:
        if self.limits.pop(receiver, None) is not None:
            self.update_limit()

    def update_limit(self) -> None:
        """The limit never falls: bytes up to it may be under way already."""
        if len(self.limits) < self.wanted:
            return
        lowest = min(self.limits.values(), default=None)
        self.limit = lowest if lowest is None or self.limit is None else max(self.limit, lowest)

    def receivers(self) -> int:
        return len(self.limits)

    def admits(self, receiver: Hashable) -> bool:
        return receiver in self.limits


class Tagged(Min):
    """As fast as the slowest receiver that has the group's tag; the others may lose messages, as with Max."""

    needs_tag = True

    def __init__(self, settings: StrategySettings, limit: int | None = None) -> None:
        super().__init__(settings, limit)
        self.others: dict[Hashable, None] = {}              # receivers without the tag that have answered

    def counts(self, tag: int | None) -> bool:
        return tag is not None and tag == self.settings.group_tag

    def setup(self, receiver: Hashable, position: int) -> None:
        """Nothing to do: its tag is not known before it answers."""

    def status(self, receiver: Hashable, position: int, window: int, tag: int | None) -> None:
        if not self.counts(tag):
            self.others[receiver] = None
        super().status(receiver, position, window, tag)

    def gone(self, receiver: Hashable) -> None:
        self.others.pop(receiver, None)
        super().gone(receiver)

    def admits(self, receiver: Hashable) -> bool:
        return receiver in self.limits or receiver in self.others


STRATEGIES: dict[str, type[Strategy]] = {"max": Max, "min": Min, "tagged": Tagged}


def strategy_class(name: str) -> type[Strategy]:
    """The strategy of that name: a built-in one, an entry point, or "package.module:Class".

    Raises:
        ConfigError: there is none.
    """
    found = STRATEGIES.get(name)
    if found is not None:
        return found
    try:
        return plugin(name, ENTRY_POINTS, Strategy)
    except ConfigError as error:
        raise ConfigError(f"{name!r} is none of the strategies {', '.join(STRATEGIES)}, and {error}") from None
