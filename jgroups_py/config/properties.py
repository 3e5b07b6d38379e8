"""The properties of a protocol, read from its configuration class: names, converters, units, defaults, docs.

A property is described only once, by its attrs declaration (model/units.py); this module makes a table of it for the
builder, the documentation and the tools.
"""
from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import attrs

from jgroups_py.model.units import property_name, show_duration, show_size
from jgroups_py.protocols import ALIASES, KNOWN, MEANINGLESS
from jgroups_py.stack.protocol import Protocol

PACKAGES = ("org.jgroups.protocols.", "pbcast.", "relay.")

IGNORED_BY_ALL: dict[str, str] = {
    "id": "ids on the wire are fixed (design/wire.md)",
    "stats": "counters are always kept",
    "ergonomics": "values are as written; none is tuned automatically",
    "level": "logging is set with Python's logging module",
    "after_creation_hook": "there are no Java classes to call",
    "policies": "there are no Java classes to call",
    "preview_warning": "there is no preview",
}
"""Property of every protocol of JGroups that has no meaning here -> reason."""


@attrs.frozen
class Property:
    """One property. also: further accepted names; required: there is no default."""

    name: str
    field: str
    kind: str
    unit: str
    doc: str
    also: tuple[str, ...]
    default: Any
    required: bool
    convert: Callable[[Any], Any]

    def show(self, value: Any) -> str:
        """A value as it is written in a stack file."""
        return show_value(self.kind, value)


@attrs.frozen
class PropertyTable:
    """All properties of one protocol. by_name: every accepted name -> property; ignored: name -> reason."""

    protocol: str
    properties: tuple[Property, ...]
    by_name: Mapping[str, Property]
    ignored: Mapping[str, str]

    def names(self) -> list[str]:
        """The names of the properties, in order of declaration, without further accepted ones."""
        return [item.name for item in self.properties]


def show_value(kind: str, value: Any) -> str:
    """A value as it is written in a stack file. kind: the kind of its field (model/units.py).

    >>> show_value("duration", 1_500_000_000), show_value("size", 65536), show_value("flag", True)
    ('1.5s', '64K', 'true')
    """
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int) and kind == "duration":
        return show_duration(value)
    if isinstance(value, int) and kind == "size":
        return show_size(value)
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, tuple) and list(map(type, value)) == [str, int]:
        return f"{value[0]}[{value[1]}]"                  # a physical address
    if isinstance(value, tuple):
        return ",".join(show_value("", item) for item in value)
    return str(value)


def canonical(name: str) -> str | None:
    """The name of a protocol here, from any name that JGroups' files use for it; None: not known."""
    short = name
    for package in PACKAGES:
        short = short.removeprefix(package)
    for candidate in (name, short):
        found = ALIASES.get(candidate, candidate)
        if found in KNOWN or found in MEANINGLESS:
            return found
    return None


def table_of(protocol: type[Protocol]) -> PropertyTable:
    """The properties of a protocol."""
    return _table(protocol.name, protocol.Config)


@cache
def _table(protocol: str, config: Any) -> PropertyTable:
    properties = tuple(map(_property, attrs.fields(config)))
    by_name = {name: item for item in properties for name in (item.name, *item.also)}
    ignored = {name: why for name, why in {**IGNORED_BY_ALL, **getattr(config, "ignored", {})}.items()
               if name not in by_name}
    return PropertyTable(protocol, properties, by_name, ignored)


def _property(field: attrs.Attribute[Any]) -> Property:
    meta = field.metadata
    convert: Any = field.converter
    assert "doc" in meta, f"{field.name} is made by a helper of model/units.py"
    required = field.default is attrs.NOTHING
    return Property(property_name(field), field.name, meta["kind"], meta["unit"], meta["doc"], meta["also"],
                    None if required else meta.get("default", field.default), required, convert)
