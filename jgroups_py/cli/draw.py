"""`jgroups draw STACK`: a text picture of a stack, top to bottom, with what each layer adds.

Per layer: its headers on the wire, the ports that it provides and needs, the events that it observes and emits, and the
properties that are not at their default. All of it is read from the classes.
"""
from __future__ import annotations

import ast
import json
import os
import sys
import textwrap
from argparse import Namespace
from pathlib import Path
from typing import Any

import attrs

from jgroups_py import wire
from jgroups_py.cli.environment import properties_of
from jgroups_py.cli.showing import complain, reasons, show
from jgroups_py.cli.stack_file import add_stack_arguments
from jgroups_py.config.docs import changed, summary_of
from jgroups_py.config.load import bridge_loader, load
from jgroups_py.config.spec import LayerSpec, StackSpec
from jgroups_py.model import events, ports
from jgroups_py.model.errors import ConfigError
from jgroups_py.model.events import Event
from jgroups_py.protocols import KNOWN
from jgroups_py.stack.protocol import Protocol

WIDTH = 110
LABEL_WIDTH = 10


@attrs.frozen
class LayerPicture:
    """What one layer adds to a stack."""

    name: str
    summary: str
    wire_id: int
    headers: tuple[str, ...]
    provides: tuple[str, ...]
    needs: tuple[str, ...]
    sees: tuple[str, ...]
    emits: tuple[str, ...]
    properties: dict[str, tuple[str, str | None]]


def add_parser(subparsers: Any) -> None:
    """Add `draw` to the command line."""
    parser = subparsers.add_parser("draw", help="show a stack as text", description=__doc__.split("\n\n")[0])
    add_stack_arguments(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.set_defaults(run=run)


def run(args: Namespace) -> int:
    """Draw the stack, and its bridge if it has one; 1 if the stack is wrong."""
    try:
        spec = load(args.stack, properties_of(os.environ, dict(args.properties)))
        relay = spec.config_of("RELAY")
        bridge = bridge_loader(spec)(relay.bridge_props) if relay is not None else None
    except ConfigError as error:
        complain(*reasons(error))
        return 1
    stacks = [spec] if bridge is None else [spec, bridge]
    if args.json:
        print(json.dumps([as_json(stack) for stack in stacks], indent=2))
    else:
        show(*"\n\n".join(map(draw, stacks)).split("\n"))
    return 0


def picture(layer: LayerSpec) -> LayerPicture:
    """What a layer adds to a stack, read from its class."""
    cls = layer.protocol()
    wire_id = wire_id_of(layer, cls)
    return LayerPicture(
        layer.name, summary_of(cls), wire_id, headers_of(cls, wire_id),
        provides=tuple(base.__name__ for base in cls.__mro__ if base.__module__ == ports.__name__),
        needs=tuple(port.__name__ for port in cls.needs.values()),
        sees=tuple(event.__name__ for event in cls.observers),
        emits=events_made(cls), properties=changed(layer))


def wire_id_of(layer: LayerSpec, cls: type[Protocol]) -> int:
    """The id of a protocol's headers, 0 if it has none; packaged protocols have theirs in the table of protocols."""
    if layer.own is None:
        return KNOWN[layer.name].wire_id
    return next((header.proto for header in wire.known_headers() if header.__module__ == cls.__module__), 0)


def headers_of(cls: type[Protocol], wire_id: int) -> tuple[str, ...]:
    """The headers of a protocol's wire id that its own package declares (three discovery protocols share an id)."""
    found = [header for header in wire.known_headers() if header.proto == wire_id]
    own = [header for header in found if header.__module__ == cls.__module__]
    return tuple(header.__name__ for header in (own or found))


def events_made(cls: type[Protocol]) -> tuple[str, ...]:
    """The events that the package of a protocol constructs, found by parsing its source."""
    known = {name for name, member in vars(events).items() if isinstance(member, type) and issubclass(member, Event)}
    made: dict[str, None] = {}
    for path in room_files(cls):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in known:
                made[node.func.id] = None
    return tuple(sorted(made))


def room_files(cls: type[Protocol]) -> list[Path]:
    """The source files of a protocol: its module, or all modules of its package."""
    where = next((known.where for known in KNOWN.values() if known.load() is cls), None)
    if where is None:
        return [Path(str(sys.modules[cls.__module__].__file__))]
    module = sys.modules[f"jgroups_py.protocols.{where.partition(':')[0]}"]
    path = Path(str(module.__file__))
    return sorted(path.parent.glob("*.py")) if path.name == "__init__.py" else [path]


def as_json(spec: StackSpec) -> dict[str, Any]:
    """The same facts as the picture, the highest layer first."""
    return {"source": spec.source, "layers": [attrs.asdict(picture(layer)) for layer in reversed(spec.layers)]}


# --- text -----------------------------------------------------------------------------------------------------------

def draw(spec: StackSpec) -> str:
    """The picture of a stack, the application at the top and the wire at the bottom."""
    lines = [f"{spec.source}: {len(spec.layers)} layers", "", "    application", "        |"]
    for layer in reversed(spec.layers):
        lines += box(picture(layer))
    return "\n".join([*lines, "        |", "     the wire"])


def box(layer: LayerPicture) -> list[str]:
    """The lines of one layer."""
    rows = [
        ("adds", f"header {', '.join(layer.headers)} (id {layer.wire_id})" if layer.headers else ""),
        ("provides", ", ".join(layer.provides)),
        ("needs", ", ".join(layer.needs)),
        ("observes", ", ".join(layer.sees)),
        ("emits", ", ".join(layer.emits)),
        ("set", ", ".join(f"{name}={value}" + ("" if default is None else f" (not {default or 'empty'})")
                          for name, (value, default) in layer.properties.items())),
    ]
    lines = [f"+-- {layer.name} " + "-" * (WIDTH - len(layer.name) - 5)]
    lines += textwrap.wrap(layer.summary, WIDTH, initial_indent="|   ", subsequent_indent="|   ")
    for label, content in rows:
        if content:
            lines += textwrap.wrap(content, WIDTH, initial_indent=f"|   {label:<{LABEL_WIDTH}}",
                                   subsequent_indent="|   " + " " * LABEL_WIDTH)
    return lines
