"""The properties of FLOW: in the syntax of Aeron's URIs (`fc`, `gtag`), or one by one."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import attrs

from jgroups_py.model.errors import ConfigError
from jgroups_py.model.units import choice, duration, parsed, seconds, size
from jgroups_py.protocols.flow.fc import Fc, parse_fc, parse_rrwm, parse_size, parse_tag, parse_timeout
from jgroups_py.protocols.flow.strategies import Strategy, StrategySettings, strategy_class

MARKS_PER_WINDOW = 3                     # 4, as in Aeron, costs a tenth of the throughput (benchmarks/flow_control.py)
RECEIVER_TIMEOUT_NS = {"today": seconds(5), "aeron-1.26": seconds(2)}
MULTICAST_RRWM = 4


def unless_unset(parse: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A parser for an optional property: None and an empty text stay None."""
    return lambda value: None if value is None or value == "" else parse(value)


@attrs.frozen
class FlowControlConfig:
    """Which receivers limit a sender of multicasts, and how many of them there must be."""

    ignored: ClassVar[dict[str, str]] = {
        **dict.fromkeys(("max_credits", "min_threshold", "min_credits", "max_block_time", "max_queue_size"),
                        "MFC's credits; FLOW has window and status_interval"),
    }

    fc: Fc = parsed(  # noqa: RUF009  a field, as all others
        "", parse=parse_fc, unit="max|min|tagged[,g:TAG/SIZE][,t:TIME][,rrwm:NUMBER]", doc="Strategy and options as "
        "in Aeron's channel URIs. A part that is given here must not be set by a property below, too.")
    gtag: int | None = parsed(None, parse=unless_unset(parse_tag), unit="64-bit number", doc="As a receiver: the tag "
                              "of the flow control group to which this member belongs; empty: to none.")
    strategy: str | None = parsed(
        None, parse=unless_unset(str), unit="max|min|tagged|entry point|package.module:Class", doc="max: as fast as "
        "the fastest receiver; slower ones lose messages, which is reported to them. min (default): as fast as the "
        "slowest. tagged: as fast as the slowest with group_tag. Or a class of your own.")
    group_tag: int | None = parsed(None, parse=unless_unset(parse_tag), unit="64-bit number", doc="As a sender with "
                                   "strategy tagged: the tag of the receivers that limit it.")
    group_min_size: int | None = parsed(
        None, parse=unless_unset(parse_size), unit="number", doc="How many receivers (tagged: with the tag) a sender "
        "requires; with fewer it is not connected and sends nothing. 0 (default): none. Higher ensures, for example, "
        "that the archives are up, and stops senders when one of them is not.")
    receiver_timeout_ns: int | None = parsed(
        None, parse=unless_unset(parse_timeout), name="receiver_timeout", unit="time", doc="A receiver that leaves "
        "requests unanswered for so long no longer limits the sender, until it answers and is near enough (5s; in "
        "profile aeron-1.26 2s). Lower frees senders sooner from one that hangs; it should be several "
        "status_intervals.")
    rrwm: int | None = parsed(
        None, parse=unless_unset(parse_rrwm), unit="number", doc="How many windows a sender may be ahead of what "
        "the stack of any member has received, with any strategy (4). Higher lets it send further ahead; all members "
        "then keep more for retransmission.")
    window_bytes: int = size("4M", least="64K", name="window", doc="Payload bytes that a receiver can take beyond "
                             "what it has consumed. Higher keeps fast networks busy; lower bounds memory, and with max "
                             "loses messages sooner.")
    status_interval_ns: int = duration("200ms", least="1ms", name="status_interval", doc="How often a sender requests "
                                       "outstanding answers. Lower notices silent receivers sooner.")
    when_disconnected: str = choice("wait", allowed=("wait", "raise"), doc="What send does while there are fewer than "
                                    "group_min_size receivers. raise: it raises ReceiversMissingError at once; wait: "
                                    "when its timeout is over.")
    profile: str = choice("today", allowed=tuple(RECEIVER_TIMEOUT_NS), doc="Which defaults are used: those of "
                          "today's Aeron, or of the release that introduced tagged flow control.")

    def __attrs_post_init__(self) -> None:
        for name in ("strategy", "group_tag", "group_min_size", "receiver_timeout_ns", "rrwm"):
            if getattr(self, name) is not None and getattr(self.fc, name) is not None:
                raise ConfigError(f"fc={self.fc.text!r} and {name.removesuffix('_ns')} set the same thing twice; "
                                  "write one of them")
        if self.strategy_class().needs_tag and self.tag is None:
            raise ConfigError("strategy tagged needs the tag of its group: fc=\"tagged,g:TAG\" or group_tag")
        if self.timeout_ns < self.status_interval_ns:
            raise ConfigError("receiver_timeout (t:) is below status_interval, so no receiver could answer in time")

    def _setting(self, name: str, default: Any) -> Any:
        """A property's value, else the part of `fc` with the same name, else the default."""
        plain, aeron = getattr(self, name), getattr(self.fc, name)
        return plain if plain is not None else aeron if aeron is not None else default

    def strategy_class(self) -> type[Strategy]:
        """The class of the strategy."""
        return strategy_class(self._setting("strategy", "min"))

    @property
    def tag(self) -> int | None:
        """The tag of the receivers that limit this member as a sender."""
        found: int | None = self._setting("group_tag", None)
        return found

    @property
    def timeout_ns(self) -> int:
        """The receiver timeout."""
        return int(self._setting("receiver_timeout_ns", RECEIVER_TIMEOUT_NS[self.profile]))

    @property
    def settings(self) -> StrategySettings:
        """What the strategy is configured with."""
        return StrategySettings(self.window_bytes, self.tag, self._setting("group_min_size", 0))

    @property
    def ahead_bytes(self) -> int:
        """How far a sender may be ahead of what any member's stack has received."""
        return int(self._setting("rrwm", MULTICAST_RRWM)) * self.window_bytes

    @property
    def most_window_bytes(self) -> int:
        """Strategies compute with constant windows."""
        return self.window_bytes

    @property
    def mark_every_bytes(self) -> int:
        """Payload bytes from one mark to the next."""
        return self.window_bytes // MARKS_PER_WINDOW
