"""The properties of FLOW: as in Aeron's URIs (`fc`, `gtag`) or one by one."""
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
    """A parser of what need not be given: None, or an empty text, stays None."""
    return lambda value: None if value is None or value == "" else parse(value)


@attrs.frozen
class FlowControlConfig:
    """Who limits a sender of multicasts, and how many there must be."""

    ignored: ClassVar[dict[str, str]] = {
        **dict.fromkeys(("max_credits", "min_threshold", "min_credits", "max_block_time", "max_queue_size"),
                        "MFC's credits; FLOW has window and status_interval"),
    }

    fc: Fc = parsed(  # noqa: RUF009  a field, as all others
        "", parse=parse_fc, unit="max|min|tagged[,g:TAG/SIZE][,t:TIME][,rrwm:NUMBER]", doc="Strategy and options as "
        "in Aeron's channel URIs. What it sets must not be set by the properties below too.")
    gtag: int | None = parsed(None, parse=unless_unset(parse_tag), unit="64-bit number", doc="As a receiver: the tag "
                              "of the flow control group that this member belongs to; empty: of none.")
    strategy: str | None = parsed(
        None, parse=unless_unset(str), unit="max|min|tagged|entry point|package.module:Class", doc="max: as fast as "
        "the fastest receiver, slower ones lose messages, and that is reported to them; min (default): as the "
        "slowest; tagged: as the slowest with group_tag; or a class of your own.")
    group_tag: int | None = parsed(None, parse=unless_unset(parse_tag), unit="64-bit number", doc="As a sender with "
                                   "strategy tagged: the tag of the receivers that limit it.")
    group_min_size: int | None = parsed(
        None, parse=unless_unset(parse_size), unit="number", doc="How many receivers (tagged: with the tag) there "
        "must be for a sender to count as connected; 0 (default): any number. Higher ensures that, for example, the "
        "archives are up, and stops senders when one of them is not.")
    receiver_timeout_ns: int | None = parsed(
        None, parse=unless_unset(parse_timeout), name="receiver_timeout", unit="time", doc="A receiver that owes an "
        "answer and is silent for so long counts no more until it answers again (5s; in profile aeron-1.26 2s). Lower "
        "frees senders sooner from one that hangs; it should be several status_intervals.")
    rrwm: int | None = parsed(
        None, parse=unless_unset(parse_rrwm), unit="number", doc="How many windows a sender may be ahead of what "
        "the stack of any member has received, whatever the strategy (4). Higher lets it run on, and all keep more to "
        "retransmit.")
    window_bytes: int = size("4M", least="64K", name="window", doc="Payload bytes that a receiver can take beyond "
                             "what it has consumed. Higher keeps fast networks busy; lower bounds memory, and loses "
                             "sooner with max.")
    status_interval_ns: int = duration("200ms", least="1ms", name="status_interval", doc="How often a sender that "
                                       "is owed answers asks for them. Lower notices silent receivers sooner.")
    when_disconnected: str = choice("wait", allowed=("wait", "raise"), doc="What send does while there are fewer than "
                                    "group_min_size receivers: raise ReceiversMissingError at once, or wait for them, "
                                    "and raise it when its timeout is over.")
    profile: str = choice("today", allowed=tuple(RECEIVER_TIMEOUT_NS), doc="The defaults that hold: those of "
                          "today's Aeron, or of the release that brought tagged flow control.")

    def __attrs_post_init__(self) -> None:
        for name in ("strategy", "group_tag", "group_min_size", "receiver_timeout_ns", "rrwm"):
            if getattr(self, name) is not None and getattr(self.fc, name) is not None:
                raise ConfigError(f"fc={self.fc.text!r} and {name.removesuffix('_ns')} say the same thing twice; "
                                  "write one of them")
        if self.strategy_class().needs_tag and self.tag is None:
            raise ConfigError("strategy tagged needs the tag of its group: fc=\"tagged,g:TAG\" or group_tag")
        if self.timeout_ns < self.status_interval_ns:
            raise ConfigError("receiver_timeout (t:) is below status_interval, so nobody could answer in time")

    def _said(self, name: str, default: Any) -> Any:
        plain, aeron = getattr(self, name), getattr(self.fc, name)
        return plain if plain is not None else aeron if aeron is not None else default

    def strategy_class(self) -> type[Strategy]:
        """The class of the strategy."""
        return strategy_class(self._said("strategy", "min"))

    @property
    def tag(self) -> int | None:
        """The tag of the group that limits us."""
        found: int | None = self._said("group_tag", None)
        return found

    @property
    def timeout_ns(self) -> int:
        """The receiver timeout."""
        return int(self._said("receiver_timeout_ns", RECEIVER_TIMEOUT_NS[self.profile]))

    @property
    def settings(self) -> StrategySettings:
        """What the strategy is told."""
        return StrategySettings(self.window_bytes, self.tag, self._said("group_min_size", 0))

    @property
    def ahead_bytes(self) -> int:
        """How far a sender may be ahead of what any member's stack has received."""
        return int(self._said("rrwm", MULTICAST_RRWM)) * self.window_bytes

    @property
    def mark_every_bytes(self) -> int:
        """How far marks stand apart."""
        return self.window_bytes // MARKS_PER_WINDOW


