"""The checks of test_tidy.py and test_architecture.py find what they look for."""
from __future__ import annotations

import ast
import socket
import subprocess
import threading
from collections.abc import Callable

import pytest

from tests import test_architecture as architecture
from tests import test_tidy as tidy
from tests.trees import freed as freed
from tests.unit.conftest import pure


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
    (tidy.test_nothing_iterates_over_a_set, "for x in set(): pass"),
    (tidy.test_functions_are_short, "def f():\n" + "    pass\n" * 61),
    (tidy.test_every_module_has_a_docstring, "def f(): pass"),
    (tidy.test_nothing_is_left_over, "print(1)"),
    (tidy.test_nothing_is_left_over, "x = 1  # FIX" "ME"),
])
def test_the_checks_find_what_they_look_for(check: Callable[[], None], code, monkeypatch):
    planted = tidy.Source("jgroups_py/protocols/planted.py", code)
    monkeypatch.setattr("tests.test_tidy.SOURCES", [planted])
    monkeypatch.setattr("tests.test_tidy.OURS", [planted])
    with pytest.raises(AssertionError, match=r"jgroups_py/protocols/planted\.py:\d+: "):
        check()


def test_a_module_that_only_names_what_others_define_needs_no_docstring(monkeypatch):
    code = "from jgroups_py.wire.codec import encode as encode\n__all__ = ['encode']"
    monkeypatch.setattr("tests.test_tidy.OURS", [tidy.Source("jgroups_py/wire/planted.py", code)])
    tidy.test_every_module_has_a_docstring()


@pytest.mark.parametrize("code", [
    "import threading", "from time import sleep", "import concurrent.futures",
    "from jgroups_py.channel.io_thread import LoopThread", "from tests.runtime.helpers import eventually",
    "def test_it():\n    from subprocess import run",
])
def test_the_check_of_unit_tests_finds_what_opens_something(code, monkeypatch):
    monkeypatch.setattr("tests.test_tidy.SOURCES", [tidy.Source("tests/unit/test_planted.py", code)])
    with pytest.raises(AssertionError, match=r"tests/unit/test_planted\.py:\d+: a unit test imports "):
        tidy.test_unit_tests_are_pure()


@pytest.mark.parametrize("opens", [
    lambda: socket.socket(), lambda: subprocess.Popen(["true"]), lambda: threading.Thread(target=print).start(),
])
def test_a_unit_test_that_opens_something_fails_where_it_does(opens):
    with pytest.raises(pytest.fail.Exception, match="a unit test is pure"), pure():
        opens()
    socket.socket().close()


@pytest.mark.parametrize(("check", "code"), [
    (architecture.test_rooms_import_inwards, "from jgroups_py.channel.sync import JChannel"),
    (architecture.test_layers_do_not_import_layers, "from jgroups_py.protocols.gms import Gms"),
    (architecture.test_rooms_import_no_doors, "from jgroups_py.spi import Protocol"),
    (architecture.test_the_pure_rings_import_no_sockets_threads_clocks_or_chance, "import random"),
    (architecture.test_the_pure_rings_import_no_sockets_threads_clocks_or_chance, "from time import monotonic_ns"),
    (architecture.test_the_pure_rings_catch_no_exception_that_they_cannot_name,
     "try:\n    pass\nexcept Exception:  # why\n    0"),
])
def test_the_checks_of_the_architecture_find_what_they_look_for(check: Callable[[], None], code, monkeypatch):
    plant(monkeypatch, "protocols/planted.py", code)
    with pytest.raises(AssertionError, match=r"jgroups_py/protocols/planted\.py:\d+: "):
        check()


def test_circles_of_modules_and_of_rooms_are_found(monkeypatch):
    plant(monkeypatch, "windows/planted.py",
          "from jgroups_py.windows.other import x\nfrom jgroups_py.wire.planted import y")
    plant(monkeypatch, "windows/other.py", "from jgroups_py.windows.planted import x")
    plant(monkeypatch, "wire/planted.py", "from jgroups_py.windows.other import y")
    with pytest.raises(AssertionError, match=r"jgroups_py\.windows\.other <-> jgroups_py\.windows\.planted"):
        architecture.test_modules_import_one_way()
    with pytest.raises(AssertionError, match=r"a circle of rooms: .*windows/planted\.py:2 imports jgroups_py\.wire"):
        architecture.test_rooms_import_one_way()


def plant(monkeypatch, inside: str, code: str) -> None:
    """Add a module to those that the checks read."""
    path = f"jgroups_py/{inside}"
    module = architecture.module_of(path, code)
    monkeypatch.setitem(architecture.modules(), module.name, module)
