"""The house rules that a machine can check (style: lengths, determinism, docs, leftovers).

Every finding reads `path:line: what: do this instead`. The ratchet holds what is over a limit today; entries may only
shrink and go.
"""
from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest

from jgroups_py import wire
from jgroups_py.protocols import KNOWN
from tests import test_architecture as architecture
from tests.trees import freed as freed
from tests.trees import parsed
from tests.wire.collect import collected
from tests.wire.describe import FIRST_OF_OTHERS

ROOT = Path(__file__).parents[1]
MAX_FUNCTION_LINES = 60

RATCHET: dict[str, int] = {}
"""path::function -> lines of a function, where they exceed the limit. May only shrink."""

PRINTING = ("jgroups_py/cli/", "examples/", "benchmarks/")
LEFTOVER = re.compile(r"\b(FIX" r"ME|X" r"XX|HA" r"CK)\b|\bTO" r"DO\b(?!.*#\d)")


@attrs.frozen
class Source:
    """One Python file of the project."""

    path: str
    text: str

    @property
    def tree(self) -> ast.Module:
        """Parsed."""
        return parsed(self.text)

    @property
    def module(self) -> str:
        """Below jgroups_py, dotted ("protocols.gms.merge"); "" outside it."""
        parts = Path(self.path).with_suffix("").parts
        return ".".join(parts[1:]) if parts[0] == "jgroups_py" else ""



def sources() -> list[Source]:
    found = []
    for folder in ("jgroups_py", "tests", "benchmarks", "examples"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            found.append(Source(path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")))
    return found


SOURCES = sources()
OURS = [source for source in SOURCES if source.module]


def report(findings: Iterator[str]) -> None:
    found = list(findings)
    assert not found, "\n" + "\n".join(found)


# --- lengths --------------------------------------------------------------------------------------------------------

def lengths() -> Iterator[tuple[str, int, int, int]]:
    """(what, line, lines, limit) of all functions. Their docstrings do not count."""
    for source in SOURCES:
        for node in ast.walk(source.tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (node.end_lineno or node.lineno) - node.lineno + 1
                if ast.get_docstring(node) is not None:
                    first = node.body[0]
                    lines -= (first.end_lineno or first.lineno) - first.lineno + 1
                yield f"{source.path}::{node.name}", node.lineno, lines, MAX_FUNCTION_LINES


def test_functions_are_short():
    def findings() -> Iterator[str]:
        for what, line, lines, limit in lengths():
            allowed = RATCHET.get(what, limit)
            if lines > allowed:
                path, _, function = what.partition("::")
                yield (f"{path}:{line}: {function} has {lines} lines, {allowed} are allowed: "
                       "make two of it, pure helpers first")
    report(findings())


def test_the_ratchet_only_shrinks():
    def findings() -> Iterator[str]:
        now = {what: (lines, limit) for what, _, lines, limit in lengths()}
        for what, allowed in RATCHET.items():
            lines, limit = now.get(what, (0, MAX_FUNCTION_LINES))
            if lines <= limit:
                yield f"tests/test_tidy.py:1: {what} is within its limit: take it out of RATCHET"
            elif lines < allowed:
                yield f"tests/test_tidy.py:1: {what} has {lines} lines now: lower it in RATCHET"
    report(findings())


# --- determinism and errors -----------------------------------------------------------------------------------------

SET_METHODS = ("union", "intersection", "difference", "symmetric_difference")
ORDER_TAKERS = ("list", "tuple", "iter", "enumerate", "zip", "map", "filter", "reversed", "dict",
                "join")


def is_set_type(node: ast.expr) -> bool:
    """Whether an annotation says set or frozenset."""
    name = node.value if isinstance(node, ast.Subscript) else node
    return isinstance(name, ast.Name) and name.id in ("set", "frozenset", "Set", "AbstractSet")


def label(node: ast.expr) -> str:
    """What a variable or attribute is known as inside its file; "" for anything else."""
    if isinstance(node, ast.Name):
        return node.id
    return f".{node.attr}" if isinstance(node, ast.Attribute) else ""


def is_set(node: ast.expr, names: dict[str, None]) -> bool:
    """Whether an expression is a set for sure."""
    if isinstance(node, ast.Set | ast.SetComp):
        return True
    if isinstance(node, ast.Call):
        if isinstance(node.func, ast.Name):
            return node.func.id in ("set", "frozenset")
        return (isinstance(node.func, ast.Attribute) and node.func.attr in SET_METHODS
                and is_set(node.func.value, names))
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr | ast.BitAnd | ast.Sub | ast.BitXor):
        return is_set(node.left, names) or is_set(node.right, names)
    return bool(label(node)) and label(node) in names


def set_names(tree: ast.AST) -> dict[str, None]:
    """Variables and attributes that hold a set everywhere in this scope."""
    names: dict[str, None] = {}
    others: dict[str, None] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.arg):
            (names if node.annotation is not None and is_set_type(node.annotation) else others)[node.arg] = None
        elif isinstance(node, ast.AnnAssign):
            (names if is_set_type(node.annotation) else others)[label(node.target)] = None
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                (names if is_set(node.value, {}) else others)[label(target)] = None
    return {name: None for name in names if name and name not in others}


def iterated(tree: ast.AST) -> Iterator[ast.expr]:
    """Every expression whose order of items matters to the program."""
    for node in ast.walk(tree):
        if isinstance(node, ast.For | ast.AsyncFor | ast.comprehension):
            yield node.iter
        elif isinstance(node, ast.Starred):
            yield node.value
        elif isinstance(node, ast.Call):
            if label(node.func).lstrip(".") in ORDER_TAKERS:
                yield from node.args
            elif isinstance(node.func, ast.Attribute) and node.func.attr == "pop" and not node.args:
                yield node.func.value


def test_nothing_iterates_over_a_set():
    def findings() -> Iterator[str]:
        for source in OURS:
            attributes = {name: None for name in set_names(source.tree) if name.startswith(".")}
            scopes = [node for node in ast.walk(source.tree) if isinstance(node, ast.FunctionDef)]
            lines: dict[int, None] = {}
            for scope in [source.tree, *scopes]:
                names = attributes | (set_names(scope) if scope is not source.tree else {})
                lines.update({node.lineno: None for node in iterated(scope) if is_set(node, names)})
            for line in lines:
                yield (f"{source.path}:{line}: iterates over a set, whose order differs from process to process: "
                       "use a dict with None values, or sorted()")
    report(findings())


# --- unit tests -----------------------------------------------------------------------------------------------------

OPENING = ("socket", "socketserver", "select", "selectors", "ssl", "threading", "_thread", "concurrent",
           "multiprocessing", "subprocess", "asyncio", "signal", "sched", "queue", "time", "zmq")
"""Modules of sockets, threads, processes, waiting and clocks. Files are allowed: some subjects are codecs of files."""
OPENING_TESTS = ("runtime", "integration", "chaos", "spark", "fuzz", "documents", "aeron", "gmqtt")
"""Folders of tests whose kits open something."""


def opened_by(wanted: architecture.Import) -> str:
    """What an import of a unit test may open, "" if nothing.

    >>> opened_by(architecture.Import(1, "time", "sleep"))
    'time'
    >>> opened_by(architecture.Import(1, "jgroups_py.runtime", "loop"))
    'jgroups_py.runtime.loop, which imports socket'
    """
    parts = wanted.module.split(".")
    if parts[0] in OPENING:
        return wanted.module
    if parts[0] == "tests" and len(parts) > 1 and parts[1] in OPENING_TESTS:
        return wanted.module
    module = architecture.target(wanted)
    if module is None:
        return ""
    inside = [other.module for other in module.imports if other.module.partition(".")[0] in OPENING]
    return f"{module.name}, which imports {inside[0]}" if inside else ""


def test_unit_tests_are_pure():
    """By their imports; what an import does not show, tests/unit/conftest.py finds while they run."""
    def findings() -> Iterator[str]:
        for source in SOURCES:
            if source.path.startswith("tests/unit/") and source.path != "tests/unit/conftest.py":
                for wanted in architecture.module_of(source.path, source.text).imports:
                    if opened := opened_by(wanted):
                        yield (f"{source.path}:{wanted.line}: a unit test imports {opened}: give it time and outputs "
                               "as values, or move it to tests/runtime (one member) or tests/integration")
    report(findings())


# --- documentation --------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("name", list(KNOWN))
def test_every_property_is_documented(name):
    config = KNOWN[name].load().Config
    report(f"{config.__module__}: {config.__name__}.{field.name} has no doc: declare it with a helper of model/units.py"
           for field in attrs.fields(config) if not field.metadata.get("doc"))


@pytest.mark.parametrize("name", list(KNOWN))
def test_every_protocol_has_a_design_note(name):
    room = KNOWN[name].where.partition(":")[0].split(".")
    candidates = [f"design/protocols/{word}.md" for word in (name.lower(), room[0], room[-1])]
    if not any((ROOT / candidate).is_file() for candidate in candidates):
        pytest.fail(f"design/protocols/{room[0]}.md: missing: write goal, state, \"on reception of\", source and "
                    f"deviations of {name}")


def defines(tree: ast.Module) -> bool:
    """Whether a module has functions or classes of its own; one that only passes on names needs no docstring."""
    return any(isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) for node in tree.body)


def test_every_module_has_a_docstring():
    report(f"{source.path}:1: no docstring: say the problem, the idea, the place, the source"
           for source in OURS if defines(source.tree) and not ast.get_docstring(source.tree))


def test_every_header_has_golden_bytes():
    for known in KNOWN.values():
        known.load()
    golden = {type(header): None for header, _ in collected()}
    report(f"{header.__module__}: {header.__name__} ({header.proto}/{header.kind}) has no golden bytes: add it to "
           "CASES of a tests/wire/golden_*.py" for header in wire.known_headers()
           if header not in golden and header.__module__.startswith("jgroups_py.") and header.proto < FIRST_OF_OTHERS)


# --- leftovers ------------------------------------------------------------------------------------------------------

def test_nothing_is_left_over():
    def findings() -> Iterator[str]:
        for source in SOURCES:
            program = source.path.startswith(PRINTING) or '\nif __name__ == "__main__":' in source.text
            for token in tokenize.generate_tokens(io.StringIO(source.text).readline):
                if token.type == tokenize.COMMENT and LEFTOVER.search(token.string):
                    yield f"{source.path}:{token.start[0]}: {token.string[:40]}: do it, or name the issue"
            for node in ast.walk(source.tree):
                if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name)):
                    continue
                if node.func.id == "breakpoint":
                    yield f"{source.path}:{node.lineno}: breakpoint(): take it out"
                if node.func.id == "print" and not program:
                    yield f"{source.path}:{node.lineno}: print(): use logging, an output or an assertion"
    report(findings())
