"""Strategies: whose answers limit how far a sender of multicasts may go. Pure arithmetic on positions (bytes sent).

A receiver answers with the position up to which it has consumed, and its window: it can take so much more. `Max` goes
by the fastest receiver and keeps no track of the others; `Min` by the slowest; `Tagged` by the slowest of those with
the group's tag. With a group minimum size, fewer tracked receivers freeze the limit. A strategy of your own derives
from Strategy and is named by entry point (group `jgroups_py.flow_control`) or as "package.module:Class".
Source: Aeron's multicast flow control. Deviation: who fell silent is for the protocol to find out (`gone`).
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
    """What a strategy is told.

    window_bytes: taken for the window of receivers that have not answered yet; group_tag: None without one.
    """

    window_bytes: int
    group_tag: int | None = None
    group_min_size: int = 0


class Strategy(ABC):
    """One sender's view of its receivers.

    limit: the position that may be reached, None while nobody limits it. `who` is whatever identifies a receiver.
    """

    needs_tag = False                        # whether it cannot do without a group_tag

    def __init__(self, settings: StrategySettings, limit: int | None = None) -> None:
        self.settings = settings
        self.limit = limit

    @abstractmethod
    def setup(self, who: Hashable, position: int) -> None:
        """A receiver joined the group and gets everything from `position` on; it has not answered yet."""

    @abstractmethod
    def status(self, who: Hashable, position: int, window: int, tag: int | None) -> None:
        """A receiver answered."""

    @abstractmethod
    def gone(self, who: Hashable) -> None:
        """A receiver left, closes, or fell silent for too long."""

    @abstractmethod
    def receivers(self) -> int:
        """How many receivers are tracked."""

    @abstractmethod
    def admits(self, who: Hashable) -> bool:
        """Whether a receiver that was gone and answers again counts as back."""

    @property
    def wanted(self) -> int:
        """How many receivers there must be at least."""
        return self.settings.group_min_size

    @property
    def connected(self) -> bool:
        """Whether there are enough."""
        return self.receivers() >= self.wanted


class Max(Strategy):
    """As fast as the fastest receiver; tags and sizes of groups mean nothing to it."""

    def __init__(self, settings: StrategySettings, limit: int | None = None) -> None:
        super().__init__(settings, limit)
        self.known: dict[Hashable, None] = {}

    @property
    def wanted(self) -> int:
        return 0

    def setup(self, who: Hashable, position: int) -> None:
        self.status(who, position, self.settings.window_bytes, None)

    def status(self, who: Hashable, position: int, window: int, tag: int | None) -> None:
        self.known[who] = None
        self.limit = position + window if self.limit is None else max(self.limit, position + window)

    def gone(self, who: Hashable) -> None:
        self.known.pop(who, None)
        if not self.known:
            self.limit = None

    def receivers(self) -> int:
        return len(self.known)

    def admits(self, who: Hashable) -> bool:
        return True


class Min(Strategy):
    """As fast as the slowest receiver."""

    def __init__(self, settings: StrategySettings, limit: int | None = None) -> None:
        super().__init__(settings, limit)
        self.reach: dict[Hashable, int] = {}                # tracked receiver -> position + window

    def wants(self, tag: int | None) -> bool:
        """Whether receivers with this tag count."""
        return True

    def setup(self, who: Hashable, position: int) -> None:
        self.reach[who] = position + self.settings.window_bytes
        self.renew()

    def status(self, who: Hashable, position: int, window: int, tag: int | None) -> None:
        if not self.wants(tag):
            return
        reach = position + window
        if who in self.reach or not self.reach or reach >= min(self.reach.values()) - window:
            self.reach[who] = reach
            self.renew()

    def gone(self, who: Hashable) -> None:
        if self.reach.pop(who, None) is not None:
            self.renew()

    def renew(self) -> None:
        """The limit never falls: what was allowed was allowed."""
        if len(self.reach) < self.wanted:
            return
        lowest = min(self.reach.values(), default=None)
        self.limit = lowest if lowest is None or self.limit is None else max(self.limit, lowest)

    def receivers(self) -> int:
        return len(self.reach)

    def admits(self, who: Hashable) -> bool:
        return who in self.reach


class Tagged(Min):
    """As fast as the slowest receiver that has the group's tag; the others are as with Max."""

    needs_tag = True

    def __init__(self, settings: StrategySettings, limit: int | None = None) -> None:
        super().__init__(settings, limit)
        self.others: dict[Hashable, None] = {}              # untagged receivers that were heard

    def wants(self, tag: int | None) -> bool:
        return tag is not None and tag == self.settings.group_tag

    def setup(self, who: Hashable, position: int) -> None:
        """Its tag is not known before it answers."""

    def status(self, who: Hashable, position: int, window: int, tag: int | None) -> None:
        if not self.wants(tag):
            self.others[who] = None
        super().status(who, position, window, tag)

    def gone(self, who: Hashable) -> None:
        self.others.pop(who, None)
        super().gone(who)

    def admits(self, who: Hashable) -> bool:
        return who in self.reach or who in self.others


STRATEGIES: dict[str, type[Strategy]] = {"max": Max, "min": Min, "tagged": Tagged}


def strategy_class(name: str) -> type[Strategy]:
    """The strategy that `name` stands for.

    Raises:
        ConfigError: there is none.
    """
    known = STRATEGIES.get(name)
    if known is not None:
        return known
    try:
        return plugin(name, ENTRY_POINTS, Strategy)
    except ConfigError as error:
        raise ConfigError(f"{name!r} is none of the strategies {', '.join(STRATEGIES)}, and {error}") from None
