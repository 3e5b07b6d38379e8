"""The house rules that a machine can check (architecture: rings; style: lengths, determinism, docs, leftovers).

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
from tests.wire.collect import collected

ROOT = Path(__file__).parents[1]
MAX_FUNCTION_LINES = 60

RATCHET: dict[str, int] = {}
"""path::function -> lines of a function, where they exceed the limit. May only shrink."""

# Ring -> the modules and folders of jgroups_py that are in it.
RING_NAMES = {
    0: "address batch blockheaders codec counters disk errors events gossip jumps logs members naming outputs plugins "
       "ports recording resolver strangers streams swim_events texts topics units userevents view windows wire",
    1: "base_transport protocol",
    2: "protocols",
    3: "config node road skipping stack",
    4: "archive children filesystem runtime sim",
    5: "aio aioduty arguments block channel control delivery duty message news receipts receiver reports session "
       "subscriber watching",
    6: "__init__ __main__ blocks cli pipeline pytest_plugin simulation",
}
RINGS = {name: ring for ring, names in RING_NAMES.items() for name in names.split()}
PURE_RINGS = 3
WORLDS = ("runtime", "sim")
IMPURE = ("socket", "threading", "asyncio", "selectors", "select", "time", "os", "random", "zmq", "subprocess",
          "multiprocessing", "concurrent", "uuid", "secrets", "datetime", "pathlib", "shutil", "tempfile", "signal")
ALLOWED_IMPURE = {
    # Random, the class: a seeded generator is handed in; the module's own functions stay forbidden.
    ("random", "Random"): "",
    # The one place that reads files.
    ("pathlib", "Path"): "jgroups_py/config/load.py",
}
PRINTING = ("jgroups_py/cli/", "examples/", "benchmarks/")
LEFTOVER = re.compile(r"\b(FIX" r"ME|X" r"XX|HA" r"CK)\b|\bTO" r"DO\b(?!.*#\d)")


@attrs.frozen
class Source:
    """One Python file of the project."""

    path: str
    text: str
    tree: ast.Module

    @property
    def module(self) -> str:
        """Below jgroups_py, dotted ("protocols.gms.merge"); "" outside it."""
        parts = Path(self.path).with_suffix("").parts
        return ".".join(parts[1:]) if parts[0] == "jgroups_py" else ""

    @property
    def ring(self) -> int:
        return RINGS.get(self.module.partition(".")[0], 6) if self.module else 6


def sources() -> list[Source]:
    found = []
    for folder in ("jgroups_py", "tests", "benchmarks", "examples"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            text = path.read_text(encoding="utf-8")
            found.append(Source(path.relative_to(ROOT).as_posix(), text, ast.parse(text)))
    return found


SOURCES = sources()
OURS = [source for source in SOURCES if source.module]


def report(findings: Iterator[str]) -> None:
    found = list(findings)
    assert not found, "\n" + "\n".join(found)


# --- imports --------------------------------------------------------------------------------------------------------

def imports(source: Source) -> Iterator[tuple[int, str, str]]:
    """(line, module, name) of every import that runs; what is for the type checker only does not count."""
    hidden = {id(node) for test in ast.walk(source.tree) if isinstance(test, ast.If)
              and "TYPE_CHECKING" in ast.dump(test.test) for node in ast.walk(test)}
    for node in ast.walk(source.tree):
        if id(node) in hidden:
            continue
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name, ""
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                yield node.lineno, node.module or "", alias.name


def inner_module(module: str, name: str) -> str:
    """The imported module below jgroups_py ("protocols.gms"), "" if it is none of ours."""
    if module == "jgroups_py":
        return name if name in RINGS else "__init__"
    return module.removeprefix("jgroups_py.") if module.startswith("jgroups_py.") else ""


def test_every_module_has_its_ring():
    report(f"{source.path}:1: in no ring: add {source.module.partition('.')[0]!r} to RING_NAMES in tests/test_tidy.py"
           for source in OURS if source.module.partition(".")[0] not in RINGS)


def test_every_ring_holds_modules_that_exist():
    there = {source.module.partition(".")[0]: None for source in OURS}
    report(f"tests/test_tidy.py:1: {name!r} is gone: take it out of RING_NAMES" for name in RINGS if name not in there)


def test_imports_point_inwards():
    def findings() -> Iterator[str]:
        for source in OURS:
            for line, module, name in imports(source):
                target = inner_module(module, name)
                ring = RINGS.get(target.partition(".")[0], 0) if target else 0
                if target and ring > source.ring:
                    yield (f"{source.path}:{line}: ring {source.ring} imports {target} of ring {ring}: "
                           "pass it in, or ask by a port or tell by an event")
    report(findings())


def test_rooms_do_not_import_rooms():
    def findings() -> Iterator[str]:
        for source in OURS:
            if source.ring != RINGS["protocols"] or source.module == "protocols.__init__":
                continue
            room = source.module.split(".")[1]
            for line, module, name in imports(source):
                target = inner_module(module, name)
                if target == "protocols" or (target.startswith("protocols.") and target.split(".")[1] != room):
                    yield f"{source.path}:{line}: room {room} imports {target}: ask by a port or tell by an event"
    report(findings())


def test_runtime_and_simulator_do_not_know_each_other():
    def findings() -> Iterator[str]:
        for source in OURS:
            mine = source.module.partition(".")[0]
            if mine not in WORLDS:
                continue
            for line, module, name in imports(source):
                target = inner_module(module, name).partition(".")[0]
                if target in WORLDS and target != mine:
                    yield f"{source.path}:{line}: {mine} imports {target}: move what both need inwards"
    report(findings())


def test_the_pure_rings_import_no_sockets_threads_clocks_or_chance():
    def findings() -> Iterator[str]:
        for source in OURS:
            if source.ring > PURE_RINGS:
                continue
            for line, module, name in imports(source):
                if module.partition(".")[0] not in IMPURE:
                    continue
                allowed = ALLOWED_IMPURE.get((module, name))
                if allowed is None or allowed not in ("", source.path):
                    yield (f"{source.path}:{line}: a pure ring imports {module}: time and chance come in as arguments "
                           "(now_ns, self.rng), everything else goes out as an output")
    report(findings())


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


def test_the_pure_rings_catch_no_exception_they_cannot_name():
    def findings() -> Iterator[str]:
        for source in OURS:
            for node in ast.walk(source.tree):
                if source.ring > PURE_RINGS or not isinstance(node, ast.ExceptHandler):
                    continue
                caught = ast.dump(node.type) if node.type is not None else "'BaseException'"
                if "'Exception'" in caught or "'BaseException'" in caught:
                    yield f"{source.path}:{node.lineno}: catches every exception: a bug must not be hidden; name them"
    report(findings())


# --- documentation --------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("name", list(KNOWN))
def test_every_property_is_documented(name):
    config = KNOWN[name].load().Config
    report(f"{config.__module__}: {config.__name__}.{field.name} has no doc: declare it with a helper of units.py"
           for field in attrs.fields(config) if not field.metadata.get("doc"))


@pytest.mark.parametrize("name", list(KNOWN))
def test_every_protocol_has_a_design_note(name):
    room = KNOWN[name].where.partition(":")[0].split(".")
    candidates = [f"design/protocols/{word}.md" for word in (name.lower(), room[0], room[-1])]
    if not any((ROOT / candidate).is_file() for candidate in candidates):
        pytest.fail(f"design/protocols/{room[0]}.md: missing: write goal, state, \"on reception of\", source and "
                    f"deviations of {name}")


@pytest.mark.parametrize("source", OURS, ids=lambda source: source.path)
def test_every_module_says_what_it_is_for(source):
    if source.text.strip() and not ast.get_docstring(source.tree):
        pytest.fail(f"{source.path}:1: no docstring: say the problem, the idea, the place, the source")


def test_every_header_has_golden_bytes():
    for known in KNOWN.values():
        known.load()
    golden = {type(header): None for header, _ in collected()}
    report(f"{header.__module__}: {header.__name__} ({header.proto}/{header.kind}) has no golden bytes: add it to "
           "CASES of a tests/wire/golden_*.py" for header in wire.known_headers()
           if header not in golden and header.__module__.startswith("jgroups_py."))


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
