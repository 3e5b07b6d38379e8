"""YAML stack files: the same list of protocols, lowest first, with the line of every property.

    - UDP:
        mcast_port: 45588
    - PING
    - NAKACK: {xmit_interval: 500ms}

Values are read as text (`1.5s`, `true`, `${port:7800}`), not as YAML types, so they mean the same as in XML; a list of
scalars is one value with commas. Only plain data is accepted: no tags, anchors or aliases, one document.
"""
from __future__ import annotations

import yaml

from jgroups_py.config.problems import Place, StackError, stop
from jgroups_py.config.raw import RawItem, RawProperty, item

MAX_DEPTH = 6                                 # list, protocol, properties, list of values: 4; errors may be deeper
EXAMPLE = "a stack file is a list, one protocol an entry, the transport first: `- UDP: {mcast_port: 45588}`"


def parse(text: str, file: str) -> list[RawItem]:
    """The protocols of a YAML stack file, in its order (lowest first).

    Raises:
        StackError: it is not YAML, or not a list of protocols.
    """
    node = compose(text, file, EXAMPLE)
    if not isinstance(node, yaml.SequenceNode):
        raise stop(Place(file, 1), EXAMPLE)
    return [entry(child, file) for child in node.value]


def compose(text: str, file: str, example: str) -> yaml.Node | None:
    """The nodes of a YAML file of plain data; None: it is empty. example: what such a file looks like, for errors.

    Raises:
        StackError: it is not YAML, or not plain data.
    """
    try:
        check_plain(text, file, example)
        return yaml.compose(text, Loader=yaml.SafeLoader)
    except StackError:
        raise
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = Place(file, 0 if mark is None else mark.line + 1)
        raise stop(place, f"not well-formed YAML: {error.problem}") from None
    except (yaml.YAMLError, ValueError, OverflowError) as error:      # PyYAML does not catch errors of chr()
        raise stop(Place(file), f"not well-formed YAML: {' '.join(str(error).split())[:100]}") from None


def check_plain(text: str, file: str, example: str = EXAMPLE) -> None:
    """Refuse anchors, aliases, tags and deep nesting, by which a small file could need much memory.

    Raises:
        StackError: the text has one of these.
    """
    depth = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        place = Place(file, line_of(event))
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > MAX_DEPTH:
            raise stop(place, f"nested too deeply; {example}")
        if isinstance(event, yaml.NodeEvent) and event.anchor is not None:
            raise stop(place, "anchors and aliases are refused: write the values out")
        if getattr(event, "tag", None) is not None:
            raise stop(place, "tags are refused: write plain values")


def entry(node: yaml.Node, file: str) -> RawItem:
    """One protocol: a name, or a mapping of one name to its properties."""
    place = place_of(node, file)
    if isinstance(node, yaml.ScalarNode):
        found = item(scalar(node, file), (), place)
    elif isinstance(node, yaml.MappingNode) and len(node.value) == 1:
        key, content = node.value[0]
        name = scalar(key, file)
        found = item(name, properties_of(content, name, file), place)
    else:
        raise stop(place, EXAMPLE)
    if found is None:
        raise stop(place, "an include names one file: `- include: {file: udp-default.yaml}`")
    return found


def properties_of(node: yaml.Node, protocol: str, file: str) -> tuple[RawProperty, ...]:
    """The properties of a protocol; none for `- PING:`."""
    if isinstance(node, yaml.ScalarNode) and node.value in ("", "null", "~"):
        return ()
    if not isinstance(node, yaml.MappingNode):
        raise stop(place_of(node, file), f"{protocol}: properties are a mapping, like {{mcast_port: 45588}}")
    return tuple(RawProperty(scalar(key, file), value_of(value, file), place_of(key, file))
                 for key, value in node.value)


def value_of(node: yaml.Node, file: str) -> str:
    """The text of a scalar; for a list, those of its items joined by commas."""
    if isinstance(node, yaml.SequenceNode):
        return ",".join(scalar(child, file) for child in node.value)
    return scalar(node, file)


def scalar(node: yaml.Node, file: str) -> str:
    """The text of a scalar.

    Raises:
        StackError: the node is no scalar, or its text is not valid Unicode.
    """
    if not isinstance(node, yaml.ScalarNode):
        raise stop(place_of(node, file), "a name or value is expected here, not a list or mapping (quote values "
                                         "that contain brackets or braces)")
    value = str(node.value)
    if any("\ud800" <= char <= "\udfff" for char in value):
        raise stop(place_of(node, file), f"{value!r} has a lone surrogate, which is not a character")
    return value


def place_of(node: yaml.Node, file: str) -> Place:
    """The place where a node begins."""
    return Place(file, line_of(node))


def line_of(found: yaml.Node | yaml.Event) -> int:
    """The line on which a node or an event begins, counted from 1; 0: unknown."""
    return 0 if found.start_mark is None else found.start_mark.line + 1
