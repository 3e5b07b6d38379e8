"""Documentation of protocols and their properties, generated from the configuration classes.

`jgroups props` and `jgroups draw` print it.
"""
from __future__ import annotations

import inspect
import sys
import textwrap
from typing import Any

import attrs

from jgroups_py.config.properties import PropertyTable, table_of
from jgroups_py.config.spec import LayerSpec
from jgroups_py.protocols import ALIASES, KNOWN
from jgroups_py.stack.protocol import Protocol

_UNITS = {"time": 'time, like "1.5s" or "300ms"; a bare number is ms', "bytes": 'bytes, like "64K" or "4M"'}


@attrs.frozen
class PropertyDoc:
    """One row of a property table, in units for people. default: None if the property must be given."""

    name: str
    default: str | None
    unit: str
    doc: str
    also: tuple[str, ...]


@attrs.frozen
class ProtocolDoc:
    """The documentation of a protocol. also: further accepted names; ignored: property of JGroups without effect ->
    reason."""

    name: str
    summary: str
    also: tuple[str, ...]
    properties: tuple[PropertyDoc, ...]
    ignored: dict[str, str]

    def as_json(self) -> dict[str, Any]:
        """Plain dicts and lists."""
        return attrs.asdict(self)


def doc_of(protocol: type[Protocol]) -> ProtocolDoc:
    """The documentation of a protocol."""
    table = table_of(protocol)
    rows = tuple(PropertyDoc(item.name, None if item.required else item.show(item.default), item.unit, item.doc,
                             item.also) for item in table.properties)
    known = KNOWN.get(protocol.name)
    return ProtocolDoc(protocol.name, summary_of(protocol), () if known is None else known.also, rows,
                       dict(table.ignored))


def summary_of(protocol: type[Protocol]) -> str:
    """The purpose of a protocol on one line: from the docstring of its module ("NAME: ..."), or of its class."""
    head, start = inspect.getdoc(sys.modules[protocol.__module__]) or "", f"{protocol.name}:"
    text = head.removeprefix(start) if head.startswith(start) else inspect.getdoc(protocol) or head
    return " ".join(text.split("\n\n")[0].split())


def changed(layer: LayerSpec) -> dict[str, tuple[str, str | None]]:
    """Property -> (value, default), in units for people, for the properties of a layer that differ from their default.
    """
    table: PropertyTable = table_of(layer.protocol())
    values = {item: getattr(layer.config, item.field) for item in table.properties}
    return {item.name: (item.show(value), None if item.required else item.show(item.default))
            for item, value in values.items() if item.required or value != item.default}


def known_names() -> list[str]:
    """All names under which protocols are accepted."""
    return [*KNOWN, *ALIASES]


def as_text(doc: ProtocolDoc, width: int = 100) -> str:
    """A property table for a terminal."""
    lines = [doc.name, *textwrap.wrap(doc.summary, width, initial_indent="  ", subsequent_indent="  ")]
    if doc.also:
        lines.append(f"  also accepted as {', '.join(doc.also)}")
    for row in doc.properties:
        default = "must be given" if row.default is None else f"default {row.default or 'empty'}"
        lines += ["", f"  {row.name}   {default}   ({_UNITS.get(row.unit, row.unit)})"]
        lines += textwrap.wrap(row.doc, width, initial_indent="      ", subsequent_indent="      ")
        if row.also:
            lines.append(f"      also accepted as {', '.join(row.also)}")
    if not doc.properties:
        lines.append("  has no properties")
    if doc.ignored:
        lines += ["", *textwrap.wrap(f"accepted from JGroups' files without effect: {', '.join(doc.ignored)}", width,
                                     initial_indent="  ", subsequent_indent="    ")]
    return "\n".join(lines)
