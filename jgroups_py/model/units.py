"""Human units outside, integers inside: declares configuration fields with their unit, range and doc.

A configuration class is an `attrs.frozen` class whose fields are made by `duration()`, `size()`, `ratio()`, `count()`,
`flag()`, `text()`, `host()` and `choice()`. A field named `gossip_ns` is the property `gossip` of a stack file;
`name=` gives the property another name (JGroups' own, where it differs), `also=` further accepted names. Values
may be strings with units ("1.5s", "64K") or, from Python, integers in the unit of the field (ns, bytes).
A bare number in a string means milliseconds for a duration, as in JGroups' files, and bytes for a size.
"""
from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

import attrs

from jgroups_py.model.errors import ConfigError
from jgroups_py.model.text import is_host

NS_PER_US = 1_000
NS_PER_MS = 1_000_000
NS_PER_S = 1_000_000_000

_DURATION_UNITS = {
    "": NS_PER_MS, "ns": 1, "us": NS_PER_US, "ms": NS_PER_MS, "s": NS_PER_S,
    "m": 60 * NS_PER_S, "min": 60 * NS_PER_S, "h": 3600 * NS_PER_S, "d": 86400 * NS_PER_S,
}
# In JGroups' Util.readBytes k, m, g are powers of 1000 ("64k" = 64000), and kb and kib differ. Here all are powers of
# 1024, as is usual for buffers.
_SIZE_UNITS = {
    "": 1, "b": 1, "k": 1 << 10, "kb": 1 << 10, "kib": 1 << 10, "m": 1 << 20, "mb": 1 << 20, "mib": 1 << 20,
    "g": 1 << 30, "gb": 1 << 30, "gib": 1 << 30,
}
_QUANTITY = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([a-zA-Z]*)\s*")
_SUFFIXES = ("_ns", "_bytes", "_ratio")


def seconds(value: float) -> int:
    """`value` seconds in nanoseconds."""
    return round(value * NS_PER_S)


def millis(value: float) -> int:
    """`value` milliseconds in nanoseconds."""
    return round(value * NS_PER_MS)


def parse_quantity(value: str, units: dict[str, int], what: str, example: str) -> int:
    """The integer that a string such as "1.5s" stands for in the smallest of `units`."""
    match = _QUANTITY.fullmatch(value)
    if match is None or match[2].lower() not in units:
        names = " ".join(unit for unit in units if unit)
        raise ConfigError(f"{value!r} is not a {what}; write for example {example} (units: {names})")
    try:
        return round(float(match[1]) * units[match[2].lower()])
    except OverflowError:
        raise ConfigError(f"{value[:40]!r}... is no {what} of this world") from None


def parse_duration(value: str | int) -> int:
    """Nanoseconds. A string without a unit is milliseconds; an int is nanoseconds already.

    >>> parse_duration("1.5s"), parse_duration("300")
    (1500000000, 300000000)
    """
    if isinstance(value, int):
        return value
    return parse_quantity(value, _DURATION_UNITS, "duration", '"1.5s" or "300ms"')


def parse_size(value: str | int) -> int:
    """Bytes.

    >>> parse_size("64K"), parse_size("4M"), parse_size("1000")
    (65536, 4194304, 1000)
    """
    if isinstance(value, int):
        return value
    return parse_quantity(value, _SIZE_UNITS, "size", '"64K" or "4M"')


def parse_int(value: str | int) -> int:
    """A whole number."""
    if isinstance(value, int):
        return value
    try:
        return int(value.replace("_", ""))
    except ValueError:
        raise ConfigError(f"{value!r} is not a whole number") from None


def parse_ratio(value: str | float) -> float:
    """A number from 0 to 1, "5%" too."""
    text = str(value).strip()
    try:
        number = float(text[:-1]) / 100 if text.endswith("%") else float(text)
    except ValueError:
        raise ConfigError(f"{value!r} is not a ratio; write a number from 0 to 1, or a percentage") from None
    if not 0.0 <= number <= 1.0:
        raise ConfigError(f"{value!r} is outside 0 to 1")
    return number


def parse_flag(value: str | bool) -> bool:
    """true or false."""
    if isinstance(value, bool):
        return value
    lowered = value.strip().lower()
    if lowered in ("true", "yes", "on", "1"):
        return True
    if lowered in ("false", "no", "off", "0"):
        return False
    raise ConfigError(f"{value!r} is neither true nor false")


def _between(parse: Callable[[Any], Any], least: Any, most: Any, show: Callable[[Any], str]) -> Callable[[Any], Any]:
    def convert(value: Any) -> Any:
        result = parse(value)
        if (least is not None and result < least) or (most is not None and result > most):
            bounds = f"at least {show(least)}" if most is None else f"{show(least)} to {show(most)}"
            raise ConfigError(f"{value!r} is out of range: {bounds}")
        return result
    return convert


def _field(
    kind: str, default: Any, convert: Callable[[Any], Any], doc: str, name: str | None, also: Iterable[str],
    unit: str,
) -> Any:
    assert doc, "a configuration field states what raising and lowering it costs"
    metadata = {"kind": kind, "doc": doc, "name": name, "also": tuple(also), "unit": unit}
    if isinstance(default, ByProfile):
        values = {profile: convert(value) for profile, value in default.values.items()}
        metadata["default"] = next(iter(values.values()))
        return attrs.field(default=attrs.Factory(lambda config: values[config.profile], takes_self=True),
                           converter=convert, metadata=metadata)
    if default is attrs.NOTHING:
        return attrs.field(converter=convert, metadata=metadata)
    return attrs.field(default=convert(default), converter=convert, metadata=metadata)


@attrs.frozen
class ByProfile:
    """A default that depends on the field `profile`, which stands first: profile -> value, the usual profile first."""

    values: dict[str, Any]


def duration(
    default: Any = attrs.NOTHING, *, doc: str, name: str | None = None, also: Iterable[str] = (),
    least: str | int = 0, most: str | int | None = None,
) -> Any:
    """A field in nanoseconds, written as "1.5s" in stack files."""
    convert = _between(parse_duration, parse_duration(least), None if most is None else parse_duration(most),
                       show_duration)
    return _field("duration", default, convert, doc, name, also, "time")


def size(
    default: Any = attrs.NOTHING, *, doc: str, name: str | None = None, also: Iterable[str] = (),
    least: str | int = 0, most: str | int | None = None,
) -> Any:
    """A field in bytes, written as "64K" in stack files."""
    convert = _between(parse_size, parse_size(least), None if most is None else parse_size(most), show_size)
    return _field("size", default, convert, doc, name, also, "bytes")


def count(
    default: Any = attrs.NOTHING, *, doc: str, name: str | None = None, also: Iterable[str] = (),
    least: int = 0, most: int | None = None,
) -> Any:
    """A whole number."""
    return _field("count", default, _between(parse_int, least, most, str), doc, name, also, "number")


def ratio(default: Any = attrs.NOTHING, *, doc: str, name: str | None = None, also: Iterable[str] = ()) -> Any:
    """A number from 0 to 1."""
    return _field("ratio", default, parse_ratio, doc, name, also, "0..1")


def flag(default: Any = attrs.NOTHING, *, doc: str, name: str | None = None, also: Iterable[str] = ()) -> Any:
    """true or false."""
    return _field("flag", default, parse_flag, doc, name, also, "true/false")


def text(default: Any = attrs.NOTHING, *, doc: str, name: str | None = None, also: Iterable[str] = ()) -> Any:
    """A string."""
    return _field("text", default, str, doc, name, also, "text")


def host(default: Any = attrs.NOTHING, *, doc: str, name: str | None = None, also: Iterable[str] = ()) -> Any:
    """The host that others send to: an address or a name, as members take it from the wire; empty: none."""
    def convert(value: Any) -> str:
        if value and not is_host(str(value)):
            raise ConfigError(f"{value!r} is neither an IP address nor the name of a host (letters, digits, . - _)")
        return str(value)
    return _field("text", default, convert, doc, name, also, "text")


def choice(
    default: Any = attrs.NOTHING, *, allowed: Iterable[str], doc: str, name: str | None = None,
    also: Iterable[str] = (),
) -> Any:
    """One of a few words."""
    words = tuple(allowed)

    def convert(value: Any) -> str:
        if value not in words:
            raise ConfigError(f"{value!r} is not one of {', '.join(words)}")
        return str(value)
    return _field("choice", default, convert, doc, name, also, "|".join(words))


def parsed(
    default: Any = attrs.NOTHING, *, parse: Callable[[Any], Any], unit: str, doc: str, name: str | None = None,
    also: Iterable[str] = (),
) -> Any:
    """A field with a parser of its own; `parse` raises ConfigError saying what is allowed."""
    return _field("parsed", default, parse, doc, name, also, unit)


def property_name(field: attrs.Attribute[Any]) -> str:
    """The name that a configuration field has in stack files."""
    if field.metadata.get("name"):
        return str(field.metadata["name"])
    for suffix in _SUFFIXES:
        if field.name.endswith(suffix):
            return field.name[: -len(suffix)]
    return field.name


def show_duration(ns: int) -> str:
    """The shortest exact way to write a duration.

    >>> show_duration(1_500_000_000), show_duration(300_000_000)
    ('1.5s', '300ms')
    """
    for unit, factor in (("s", NS_PER_S), ("ms", NS_PER_MS), ("us", NS_PER_US)):
        if ns >= factor:
            return f"{ns / factor:g}{unit}"
    return f"{ns}ns" if ns else "0"


def show_size(nbytes: int) -> str:
    """The shortest exact way to write a size.

    >>> show_size(4194304), show_size(60000)
    ('4M', '60000')
    """
    for unit, factor in (("G", 1 << 30), ("M", 1 << 20), ("K", 1 << 10)):
        if nbytes and nbytes % factor == 0:
            return f"{nbytes // factor}{unit}"
    return str(nbytes)
