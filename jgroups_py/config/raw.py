"""The contents of a stack source, before anything is checked: names and texts with their places.

XML, YAML and Python lists all give a list of RawLayer and Include, lowest protocol first; build.py does the rest.
"""
from __future__ import annotations

from typing import Any

import attrs

from jgroups_py.config.problems import Place
from jgroups_py.stack.protocol import Protocol


@attrs.frozen
class RawProperty:
    """One property as written. value: a text from files; from Python also a number or a truth value."""

    name: str
    value: Any
    place: Place


@attrs.frozen
class RawLayer:
    """One protocol as written. From Python only: config, a finished configuration object; own, the class itself."""

    name: str
    properties: tuple[RawProperty, ...]
    place: Place
    config: Any = None
    own: type[Protocol] | None = None


@attrs.frozen
class Include:
    """Here the protocols of another file are to be put in (JGroups' `<include file="..."/>`)."""

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
