"""Every counter is declared with documentation, and every declared counter is counted."""
from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

import jgroups_py
from jgroups_py.cli.counter_docs import as_page, section_names, section_of
from jgroups_py.config.load import bridge_loader, load
from jgroups_py.model.counters import Counters, counter, declaration, declare, drop, table
from jgroups_py.node.node import Node

PACKAGE = Path(jgroups_py.__file__).parent
PAGE = PACKAGE.parent / "docs" / "reference" / "counters.md"
NAME = re.compile(r"[a-z][A-Za-z_<>]*")
COUNTED = ("count", "drop", "add", "give_up")
SAID_ELSEWHERE = {
    "protocols/swim": ("model/swim_member.py",),          # the names of changes are the application's words for them
}
"""Room -> files beside it that hold names which it counts."""
ENUMS = {"blocks/replication": {"redirect", "busy", "unknown", "no_store"}}
"""Room -> names that it counts by the names of an enum, in lower case."""


def room_of(path: Path) -> str:
    """Which declarations hold for a file: those of its package below jgroups_py/*."""
    parts = path.relative_to(PACKAGE).parts
    return "/".join(parts[:-1][:2]) or parts[-1]


def modules() -> Iterator[tuple[Path, ast.Module]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        if "testing" in path.parts:                       # a simulation counts what no member shows
            continue
        yield path, ast.parse(path.read_text())


def names_in(node: ast.expr) -> Iterator[str]:
    """The names that an expression may be: constants, both branches, and a pattern for an f-string."""
    match node:
        case ast.Constant(value=str() as text):
            yield text
        case ast.IfExp(body=body, orelse=orelse):
            yield from names_in(body)
            yield from names_in(orelse)
        case ast.JoinedStr(values=values):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "<any>" for part in values)


def counted_in(call: ast.Call) -> Iterator[tuple[str, str, int]]:
    """(how, name, line) of what a call counts or drops."""
    if not isinstance(call.func, ast.Attribute) or not call.args or (how := call.func.attr) not in COUNTED \
            or (how == "add" and not ast.unparse(call.func.value).endswith("counters")):
        return
    for name in names_in(call.args[0]):
        if NAME.fullmatch(name) and (how != "drop" or len(call.args) > 1):
            yield how, name, call.lineno


def declared_in(call: ast.Call) -> Iterator[tuple[str, ast.Constant]]:
    """(kind, name) of what a call declares."""
    if isinstance(call.func, ast.Name) and call.func.id == "declare":
        for entry in call.args:
            if isinstance(entry, ast.Call) and isinstance(entry.func, ast.Name):
                assert isinstance(entry.args[0], ast.Constant), "a declared name is a constant"
                yield entry.func.id, entry.args[0]


class Rooms(NamedTuple):
    declared: dict[str, dict[str, str]]
    """Room -> name -> kind."""
    counts: dict[str, list[tuple[str, str, str]]]
    """Room -> (where, how, name)."""
    strings: dict[str, set[str]]
    """Room -> all other strings."""


@cache
def rooms() -> Rooms:
    found = Rooms(defaultdict(dict), defaultdict(list), defaultdict(set))
    for path, tree in modules():
        room = room_of(path)
        nodes = list(ast.walk(tree))
        calls = [node for node in nodes if isinstance(node, ast.Call)]
        declared = [entry for call in calls for entry in declared_in(call)]
        found.declared[room].update({name.value: kind for kind, name in declared})
        found.counts[room] += [(f"{path.relative_to(PACKAGE)}:{line}", how, name)
                               for call in calls for how, name, line in counted_in(call)]
        own = {id(name) for _, name in declared}
        found.strings[room] |= {node.value for node in nodes if isinstance(node, ast.Constant)
                                and isinstance(node.value, str) and id(node) not in own}
    return found


def fits(name: str, pattern: str) -> bool:
    """Whether two names are one, where `<...>` in either stands for any word."""
    return name == pattern or any(
        "<" in one and re.fullmatch(".+".join(map(re.escape, re.split(r"<[a-z]+>", one))), other)
        for one, other in ((name, pattern), (pattern, name)))


def test_every_counted_name_is_declared_where_it_is_counted() -> None:
    missing = [f"{where}: {name} is counted, and no COUNTERS of {room} declares it"
               for room, entries in rooms().counts.items() for where, _, name in entries
               if not any(fits(name, known) for known in rooms().declared[room])]
    assert not missing, "\n".join(missing)


def test_every_declared_counter_is_counted_somewhere() -> None:
    idle = []
    for room, known in rooms().declared.items():
        named = set(rooms().strings[room])
        for path in SAID_ELSEWHERE.get(room, ()):
            named |= {node.value for node in ast.walk(ast.parse((PACKAGE / path).read_text()))
                     if isinstance(node, ast.Constant) and isinstance(node.value, str)}
        patterns = [name for _, _, name in rooms().counts[room]]
        idle += [f"{room} declares {name} and counts it nowhere" for name, kind in known.items() if kind != "figure"
                 and not any(fits(name, counted) for counted in patterns)
                 and name not in named and name not in ENUMS.get(room, ())]
    assert not idle, "\n".join(idle)


def test_what_is_dropped_is_declared_as_a_drop_and_nothing_else_is() -> None:
    wrong = [f"{where}: {name} is {how}ed, and declared as a {known[pattern]}"
             for room, entries in rooms().counts.items() if (known := rooms().declared[room])
             for where, how, name in entries for pattern in known
             if fits(name, pattern) and how == "drop" and known[pattern] != "drop"]
    assert not wrong, "\n".join(wrong)


def test_a_protocol_gives_the_reason_of_each_drop() -> None:
    """Else the log of drops, and a trace, would not show it."""
    silent = [f"{where}: {name} is declared as a drop, and counted without a reason"
              for room, entries in rooms().counts.items() if room.startswith("protocols")
              for where, how, name in entries
              if how == "count" and rooms().declared[room].get(name) == "drop"]
    assert not silent, "\n".join(silent)


@pytest.mark.parametrize("name", section_names())
def test_every_counter_has_documentation(name) -> None:
    for one in section_of(name).counters:
        assert one.doc.endswith("."), one
        assert len(one.doc) > 10, one


def test_the_page_of_counters_is_as_the_code_declares_them() -> None:
    assert PAGE.read_text() == as_page(map(section_of, section_names())), \
        "run: python -m jgroups_py counters --markdown > docs/reference/counters.md"


@pytest.mark.parametrize("stack", ["udp", "tcp", "nyc", "topics", "flow", "names", "gossip", "influx", "swim",
                                   "membership", "serf", "bridge"])
def test_stats_show_declared_names_only(stack) -> None:
    spec = load(stack)
    node = Node(spec, "stats", "A", "seed", load_bridge=bridge_loader(spec))
    node.bound(0, ("127.0.0.1", 7800), 0)
    node.advance(5_000_000_000)
    for layer in node.local.layers:
        unknown = [name for name in layer.stats() if declaration(name, layer.declared) is None]
        assert not unknown, (layer.name, unknown)


def test_counting_an_undeclared_name_is_a_bug() -> None:
    counters = Counters(table(declare(counter("sent", "What was."), drop("send_<error>_dropped", "What was not."))))
    counters.add("sent", 2)
    counters.add("send_ENOBUFS_dropped")
    assert counters == {"sent": 2, "send_ENOBUFS_dropped": 1}
    for name in ("send__dropped", "dropped", "snet"):
        with pytest.raises(AssertionError, match=f"{name}' is counted but not declared"):
            counters.add(name)


def test_a_name_is_declared_once() -> None:
    with pytest.raises(AssertionError, match="declared twice"):
        declare(counter("sent", "What was sent."), drop("sent", "What was not."))
