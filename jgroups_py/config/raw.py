"""The contents of a stack source before they are checked: names and texts with their places.

Readers of XML, YAML and Python lists return a list of RawLayer and Include, lowest protocol first; build.py makes
layers of it.
"""
from __future__ import annotations

from typing import Any

import attrs

from jgroups_py.config.problems import Place
from jgroups_py.stack.protocol import Protocol


@attrs.frozen
class RawProperty:
    """One property as written. value: from a file a str, from Python also a number or a bool."""

    name: str
    value: Any
    place: Place


@attrs.frozen
class RawLayer:
    """One protocol as written. From Python only: config, an object of its configuration class; own, its class."""

    name: str
    properties: tuple[RawProperty, ...]
    place: Place
    config: Any = None
    own: type[Protocol] | None = None


@attrs.frozen
class Include:
    """An include of the protocols of another file (JGroups' `<include file="..."/>`)."""

    file: RawProperty
    place: Place


RawItem = RawLayer | Include
INCLUDE = "include"


def item(name: str, properties: tuple[RawProperty, ...], place: Place) -> RawItem | None:
    """A protocol or an include; None for an include that does not name exactly one file."""
    if name != INCLUDE:
        return RawLayer(name, properties, place)
    if len(properties) == 1 and properties[0].name == "file":
        return Include(properties[0], place)
    return None
