"""The checks of test_tidy.py find what they look for."""
from __future__ import annotations

import ast
from collections.abc import Callable

import pytest

from tests import test_tidy as tidy


@pytest.mark.parametrize(("code", "caught"), [
    ("for x in {1, 2}: pass", True),
    ("y = [x for x in set(z)]", True),
    ("y = list({1} | z)", True),
    ("def f():\n    s = set()\n    return [*s]", True),
    ("class A:\n    def f(self):\n        self.s: set[int] = set()\n        for x in self.s: pass", True),
    ("y = sorted(set(z))", False),
    ("y = len({1, 2})", False),
    ("for x in {1: 2}: pass", False),
    ("y = ','.join(set(z))", True),
])
def test_the_set_check_sees_sets(code, caught):
    tree = ast.parse(code)
    names = {name: None for scope in ast.walk(tree) for name in tidy.set_names(scope)}
    assert any(tidy.is_set(node, names) for node in tidy.iterated(tree)) is caught


@pytest.mark.parametrize(("check", "code"), [
    (tidy.test_imports_point_inwards, "from jgroups_py.channel import JChannel"),
    (tidy.test_rooms_do_not_import_rooms, "from jgroups_py.protocols.gms import Gms"),
    (tidy.test_the_pure_rings_import_no_sockets_threads_clocks_or_chance, "import random"),
    (tidy.test_the_pure_rings_import_no_sockets_threads_clocks_or_chance, "from time import monotonic_ns"),
    (tidy.test_nothing_iterates_over_a_set, "for x in set(): pass"),
    (tidy.test_the_pure_rings_catch_no_exception_they_cannot_name, "try:\n    pass\nexcept Exception:  # why\n    0"),
    (tidy.test_functions_are_short, "def f():\n" + "    pass\n" * 61),
    (tidy.test_nothing_is_left_over, "print(1)"),
    (tidy.test_nothing_is_left_over, "x = 1  # FIX" "ME"),
])
def test_the_checks_find_what_they_look_for(check: Callable[[], None], code, monkeypatch):
    planted = tidy.Source("jgroups_py/protocols/planted.py", code, ast.parse(code))
    monkeypatch.setattr("tests.test_tidy.SOURCES", [planted])
    monkeypatch.setattr("tests.test_tidy.OURS", [planted])
    with pytest.raises(AssertionError, match=r"jgroups_py/protocols/planted\.py:\d+: "):
        check()
