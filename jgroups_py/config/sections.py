"""Reads YAML files of nested sections into attrs classes, and reports each wrong key and value with its line.

A section is a class whose fields are made by the helpers of model/units.py, by `inner` (a section in a section) or by
`listed` (a list). A key without a value counts as absent: its field has the default.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import attrs
import yaml

from jgroups_py.config.problems import Problems, did_you_mean, shown, stop
from jgroups_py.config.yaml import compose, place_of, scalar
from jgroups_py.model.errors import ConfigError
from jgroups_py.model.units import property_name

Section = TypeVar("Section")
NULL = ("", "~", "null", "Null", "NULL")


def inner(section: type[Any], *, doc: str, name: str | None = None, optional: bool = False) -> Any:
    """A field that is a section. If the file does not have it: a section of defaults, or None if it is optional."""
    return attrs.field(default=None if optional else attrs.Factory(section),
                       metadata={"section": section, "doc": doc, "name": name})


def listed(item: type[Any] | Callable[[str], Any], *, doc: str, name: str | None = None) -> Any:
    """A field that is a list of sections, or of values that `item` makes of texts; () if the file does not have it."""
    kind = "sections" if isinstance(item, type) and attrs.has(item) else "values"
    return attrs.field(factory=tuple, metadata={kind: item, "doc": doc, "name": name})


def read_sections(text: str, file: str, section: type[Section], example: str) -> tuple[Section, dict[str, int]]:
    """(the section of a whole file, path of each key in the file -> its line). A path is "mqtt.max_keepalive".

    example: what such a file looks like, for the error if this one looks different.

    Raises:
        StackError: with every problem of the file.
    """
    node = compose(text, file, example)
    reader = _Reader(file)
    if node is None or _is_null(node):
        return section(), reader.lines
    if not isinstance(node, yaml.MappingNode):
        raise stop(place_of(node, file), example)
    found = reader.section(node, section, "")
    reader.problems.raise_if_any()
    assert found is not None, "a section is None only if there is a problem"
    return found, reader.lines


def read_list(text: str, file: str, item: type[Section], example: str) -> list[tuple[Section, int]]:
    """The sections of a file that is a list of sections, each with its line.

    Raises:
        StackError: with every problem of the file.
    """
    node = compose(text, file, example)
    if node is None or _is_null(node):
        return []
    if not isinstance(node, yaml.SequenceNode):
        raise stop(place_of(node, file), example)
    reader = _Reader(file)
    found = [(reader.section(each, item, f"[{at}]"), place_of(each, file).line) for at, each in enumerate(node.value)]
    reader.problems.raise_if_any()
    return [(each, line) for each, line in found if each is not None]


class _Reader:
    """Reads the nodes of one file. lines: path of a key -> its line."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.problems = Problems()
        self.lines: dict[str, int] = {}

    def section(self, node: yaml.Node, kind: type[Section], path: str) -> Section | None:
        """The section that a node is; None if it has an error."""
        if not isinstance(node, yaml.MappingNode):
            self._wrong(node, path, "keys with values are expected here")
            return None
        fields = {name: field for field in attrs.fields(kind)                      # type: ignore[arg-type]
                  for name in (property_name(field), *field.metadata.get("also", ()))}
        values: dict[str, Any] = {}
        is_right = True
        for key_node, value_node in node.value:
            key = scalar(key_node, self.file)
            field = fields.get(key)
            if field is None:
                self._wrong(key_node, path, f"unknown key {shown(key)}; the keys here are {', '.join(fields)}"
                                            f"{did_you_mean(key, fields)}")
                is_right = False
            elif field.name in values:
                self._wrong(key_node, path, f"{key} is written twice")
                is_right = False
            elif not _is_null(value_node):
                below = f"{path}.{key}" if path else key
                self.lines[below] = place_of(key_node, self.file).line
                before = len(self.problems.found)
                values[field.name] = self._value(value_node, field, below)
                is_right = is_right and len(self.problems.found) == before
        missing = [property_name(field) for field in attrs.fields(kind)            # type: ignore[arg-type]
                   if field.default is attrs.NOTHING and field.name not in values]
        if missing:
            self._wrong(node, path, f"{', '.join(missing)} is missing")
        return self._made(node, kind, values, path) if is_right and not missing else None

    def _made(self, node: yaml.Node, kind: type[Section], values: dict[str, Any], path: str) -> Section | None:
        try:
            return kind(**values)
        except ConfigError as error:                     # of fields that contradict each other
            self._wrong(node, path, str(error))
            return None

    def _value(self, node: yaml.Node, field: attrs.Attribute[Any], path: str) -> Any:
        meta = field.metadata
        if "section" in meta:
            return self.section(node, meta["section"], path)
        if "sections" in meta or "values" in meta:
            if not isinstance(node, yaml.SequenceNode):
                self._wrong(node, path, "a list is expected here: `- ...`")
                return ()
            if "sections" in meta:
                return tuple(self.section(each, meta["sections"], f"{path}[{at}]")
                             for at, each in enumerate(node.value))
            return tuple(self._converted(each, meta["values"], path) for each in node.value)
        return self._converted(node, field.converter, path)

    def _converted(self, node: yaml.Node, convert: Any, path: str) -> Any:
        if not isinstance(node, yaml.ScalarNode):
            return self._wrong(node, path, "one value is expected here")
        try:
            return convert(scalar(node, self.file))
        except ConfigError as error:
            return self._wrong(node, path, str(error))

    def _wrong(self, node: yaml.Node, path: str, text: str) -> None:
        self.problems.add(place_of(node, self.file), f"{path}: {text}" if path else text)


def _is_null(node: yaml.Node) -> bool:
    return isinstance(node, yaml.ScalarNode) and node.style is None and node.value in NULL
