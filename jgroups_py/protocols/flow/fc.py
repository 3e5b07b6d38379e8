"""Parsing of `fc=`, in the syntax of Aeron's channel URIs: "max", "min,g:/3,t:5s", "tagged,g:1001/3,t:5s,rrwm:8".

A strategy, then options in any order: g:TAG, g:TAG/SIZE or g:/SIZE (the group's tag and its minimum size), t:TIME (the
receiver timeout), rrwm:NUMBER (how many windows a sender may be ahead of the slowest member's stack).
Source: Aeron's channel configuration; options without a value are errors there too.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs

from jgroups_py.model.errors import ConfigError
from jgroups_py.model.units import parse_duration, parse_int

TAG_BITS = 64
TAG_MASK = (1 << TAG_BITS) - 1
MAX_SIZE = (1 << 31) - 1
MAX_RRWM = 1024
ALLOWED = ('write a strategy and then any of g:TAG, g:TAG/SIZE, g:/SIZE, t:TIME, rrwm:NUMBER, for example '
           '"tagged,g:1001/3,t:5s,rrwm:8"')


@attrs.frozen
class Fc:
    """The parts of an `fc` text. None: the text does not contain the part. text: as it was written."""

    strategy: str | None = None
    group_tag: int | None = None
    group_min_size: int | None = None
    receiver_timeout_ns: int | None = None
    rrwm: int | None = None
    text: str = attrs.field(default="", eq=False)

    def __str__(self) -> str:
        return self.text


def parse_fc(value: str | Fc) -> Fc:
    """The parts of an `fc` text; an empty text has none.

    >>> parse_fc("tagged,g:1001/3,rrwm:8").group_tag
    1001
    """
    if isinstance(value, Fc):
        return value
    if not value.strip():
        return Fc()
    strategy, *options = (part.strip() for part in value.split(","))
    if not strategy or strategy.partition(":")[0] in OPTIONS:
        raise ConfigError(f"{value!r} does not begin with a strategy; {ALLOWED}")
    found: dict[str, Any] = {"strategy": strategy, "text": value}
    for option in options:
        for name, part in option_of(option).items():
            if name in found:
                raise ConfigError(f"{value!r} has {option.partition(':')[0]}: twice")
            found[name] = part
    return Fc(**found)


def option_of(option: str) -> dict[str, int]:
    """The fields of Fc that one option sets."""
    key, colon, text = option.partition(":")
    parse = OPTIONS.get(key)
    if parse is None or not colon:
        raise ConfigError(f"{option!r} is no option of fc; {ALLOWED}")
    try:
        return parse(text)
    except ConfigError as error:
        raise ConfigError(f"{option!r}: {error}; {ALLOWED}") from None


def parse_group(text: str) -> dict[str, int]:
    """The option g: a tag, a minimum size after a slash, or both."""
    tag, slash, least = text.partition("/")
    if not tag and not least:
        raise ConfigError("neither a tag nor a size")
    if slash and not least:
        raise ConfigError("no size after the slash")
    found = {}
    if tag:
        found["group_tag"] = parse_tag(tag)
    if slash:
        found["group_min_size"] = parse_size(least)
    return found


def parse_tag(value: str | int) -> int:
    """A 64-bit number; a negative one is read as Java writes it.

    >>> parse_tag("-1") == 2 ** 64 - 1
    True
    """
    tag = parse_int(value)
    if not -(1 << (TAG_BITS - 1)) <= tag <= TAG_MASK:
        raise ConfigError(f"{value!r} does not fit 64 bits")
    return tag & TAG_MASK


def parse_size(value: str | int) -> int:
    """A number of receivers."""
    size = parse_int(value)
    if not 0 <= size <= MAX_SIZE:
        raise ConfigError(f"{value!r} is out of range: 0 to {MAX_SIZE}")
    return size


def parse_rrwm(value: str | int) -> int:
    """A number of windows."""
    number = parse_int(value)
    if not 1 <= number <= MAX_RRWM:
        raise ConfigError(f"{value!r} is out of range: 1 to {MAX_RRWM}")
    return number


def parse_timeout(value: str | int) -> int:
    """A duration above 0, with its unit: a bare number would be ns in Aeron and ms in stack files."""
    if isinstance(value, str) and value.strip().isdigit():
        raise ConfigError(f"{value!r} has no unit; write for example 5s or 200ms")
    found = parse_duration(value)
    if found <= 0:
        raise ConfigError(f"{value!r} is too short; at least 1ns")
    return found


OPTIONS: dict[str, Callable[[str], dict[str, int]]] = {
    "g": parse_group,
    "t": lambda text: {"receiver_timeout_ns": parse_timeout(text)},
    "rrwm": lambda text: {"rrwm": parse_rrwm(text)},
}
