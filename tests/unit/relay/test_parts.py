"""How RELAY's parts are put together: what each takes on the bridge, what it on_announcement, what it needs."""
from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from jgroups_py.model.batch import Batch
from jgroups_py.protocols import relay as relay_package
from jgroups_py.protocols.relay import Relay
from jgroups_py.protocols.relay.announcements import DiskCaughtUp, OriginForgotten
from jgroups_py.protocols.relay.headers import SeenHeader
from jgroups_py.protocols.relay.part import (
    RelayPart,
    announcement_handlers_of,
    bridge_receivers_of,
    on_announcement,
    receives_from_bridge,
)
from jgroups_py.protocols.relay.ports import BridgePort
from tests.unit.relay.layer import Layer


class First(RelayPart):
    def __init__(self, log: list[str]) -> None:
        super().__init__(Layer())
        self.log = log

    @on_announcement(DiskCaughtUp)
    def disk(self, event: DiskCaughtUp) -> None:
        self.log.append("first: disk")

    @receives_from_bridge(SeenHeader)
    def seen(self, header: SeenHeader, batch: Batch) -> None:
        self.log.append("first: seen")


class Second(First):
    @on_announcement(OriginForgotten)
    @on_announcement(DiskCaughtUp)
    def either(self, event: DiskCaughtUp | OriginForgotten) -> None:
        self.log.append(f"second: {type(event).__name__}")


def test_announcements_are_handled_in_the_order_of_the_parts() -> None:
    log: list[str] = []
    handlers = announcement_handlers_of([Second(log), First(log)])
    for handler in handlers[DiskCaughtUp]:
        handler(DiskCaughtUp())
    assert log == ["second: DiskCaughtUp", "first: disk"], "a subclass has taken it over"
    assert [handler.__name__ for handler in handlers[OriginForgotten]] == ["either"]


def test_a_header_on_the_bridge_belongs_to_one_part() -> None:
    log: list[str] = []
    with pytest.raises(TypeError, match="First and another part both claim SeenHeader on the bridge"):
        bridge_receivers_of([First(log), First(log)])


def test_each_port_is_provided_by_one_part() -> None:
    ports = BridgePort.__mro__[0].__module__
    provided = [port.__name__ for part in Relay.components for port in part.__mro__ if port.__module__ == ports]
    assert len(provided) == len(set(provided)) >= 20


def test_no_part_needs_another_class_of_part_but_the_group_and_what_owns_shared_tables() -> None:
    """Parts know ports. What is needed by class: the view, and the tables that one part owns and others read."""
    by_class = {port.__name__ for part in Relay.components for port in part.needed.values()
                if not port.__name__.endswith("Port")}
    assert by_class == {"LocalGroup", "Hold", "Retention", "SiteTable", "RelayPeers", "DuplicateSites"}


# --- each table has one owner -----------------------------------------------------------------------------------------

CHANGING = {"append", "appendleft", "add", "clear", "extend", "insert", "pop", "popleft", "remove", "setdefault",
            "update"}
ROOM = Path(relay_package.__file__).parent


def fields_of(tree: ast.Module) -> set[str]:
    """The fields of the classes that a module defines, declared or assigned to `self`."""
    found = {item.target.id for cls in ast.walk(tree) if isinstance(cls, ast.ClassDef) for item in cls.body
             if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name)}
    return found | {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)
                    and isinstance(node.ctx, ast.Store) and isinstance(node.value, ast.Name) and node.value.id ==
                    "self"}


def changed_in(tree: ast.Module) -> Iterator[ast.Attribute]:
    """`one.field` wherever it, or an item of it, is assigned, deleted, or changed by a method of its container."""
    for node in ast.walk(tree):
        target: ast.expr | None = None
        if isinstance(node, ast.Attribute | ast.Subscript) and isinstance(node.ctx, ast.Store | ast.Del):
            target = node
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in CHANGING:
            target = node.func.value
        while isinstance(target, ast.Subscript):
            target = target.value
        if isinstance(target, ast.Attribute) and not (isinstance(target.value, ast.Name) and target.value.id == "self"):
            yield target


def foreign_changes(source: str) -> list[str]:
    """The fields that a module changes and none of its own classes has."""
    tree = ast.parse(source)
    own = fields_of(tree)
    return [f"{ast.unparse(target)} in line {target.lineno}" for target in changed_in(tree) if target.attr not in own]


def test_a_change_of_another_parts_table_is_seen() -> None:
    assert foreign_changes("site.paused = True") == ["site.paused in line 1"]
    assert foreign_changes("del site.graces[0]\nsite.lost[1].clear()") == [
        "site.graces in line 1", "site.lost in line 2"]
    assert foreign_changes("self.delivery.seen['SFO'][one] += 1") == ["self.delivery.seen in line 1"]
    assert foreign_changes("class A:\n    a: int\n    def b(self, other):\n        other.a = 1; self.c = 2") == []


@pytest.mark.parametrize("path", sorted(ROOM.rglob("*.py")), ids=lambda path: str(path.relative_to(ROOM)))
def test_no_part_changes_what_another_one_owns(path: Path) -> None:
    """Tables, and rows of tables, are changed by methods of the module that defines them."""
    assert foreign_changes(path.read_text()) == []
