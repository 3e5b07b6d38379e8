"""The figures of decision 12: how the package is built, counted from its sources.

    python -m tests.measures                        # of this tree
    python -m tests.measures --tree DIR             # of another one, as `git archive COMMIT | tar -x -C DIR` makes it

Rooms are what stands at the top of the package: a package, or a loose module (doors, which hold names only, are not
counted). Prose is every line of a docstring and every line with a comment, among the lines that are not blank.
"""
from __future__ import annotations

import argparse
import ast
import io
import re
import sys
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from statistics import median

from tests.trees import parsed

PACKAGE = "jgroups_py"
ROOT = Path(__file__).parents[1]
PERSONS = re.compile(r"\b(who|whoever|whom|whose|he|him|his|somebody|anybody|nobody|everybody|tells?|told|telling|says?"
                     r"|said|ours)\b", re.IGNORECASE)
CHAIN = re.compile(r"(?<!protocols\.)\brelay\.[a-z_]+\.[a-z_]+")
DEEPER = re.compile(r"(?<!protocols\.)\brelay\.[a-z_]+\.[a-z_]+\.[a-z_]+")
PART = re.compile(r"self(\.\w+){2,}\Z")
PROSE_OF = ("protocols/gms", "protocols/relay", "protocols/nakack", "protocols/unicast", "channel/io_thread.py",
            "channel/duty.py")
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
DOCUMENTED = (ast.Module, ast.ClassDef, *FUNCTIONS)


def docstring(node: ast.AST) -> ast.Constant | None:
    """The docstring of a module, class or function."""
    body = node.body if isinstance(node, DOCUMENTED) else []
    if body and isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant):
        return body[0].value if isinstance(body[0].value.value, str) else None
    return None


def forwards(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether its one statement calls a method of something that its object holds (`self.part.method(...)`)."""
    body = function.body[1:] if docstring(function) is not None else function.body
    if len(body) != 1 or function.name.startswith("__"):
        return False
    call = body[0].value if isinstance(body[0], (ast.Expr, ast.Return)) else None
    return isinstance(call, ast.Call) and PART.match(ast.unparse(call.func)) is not None


def prose(text: str) -> tuple[int, int]:
    """(lines of prose, lines that are not blank)."""
    lines = {token.start[0] for token in tokenize.generate_tokens(io.StringIO(text).readline)
             if token.type == tokenize.COMMENT}
    for node in ast.walk(parsed(text)):
        found = docstring(node)
        if found is not None:
            lines.update(range(found.lineno, (found.end_lineno or 0) + 1))
    written = {number for number, line in enumerate(text.split("\n"), 1) if line.strip()}
    return len(lines & written), len(written)


def texts(text: str) -> Iterator[str]:
    """Its docstrings, and its comments (those on neighbouring lines are one)."""
    for node in ast.walk(parsed(text)):
        found = docstring(node)
        if found is not None:
            yield str(found.value)
    block, last = "", 0
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            if token.start[0] != last + 1 and block:
                yield block
                block = ""
            block, last = f"{block} {token.string}", token.start[0]
    if block:
        yield block


def circles(graph: Mapping[str, Iterable[str]]) -> list[int]:
    """Sizes of the sets of nodes that reach each other, largest first."""
    reached: dict[str, set[str]] = {}
    for start in graph:
        seen: set[str] = set()
        todo = [start]
        while todo:
            todo += (fresh := [other for other in graph.get(todo.pop(), ()) if other not in seen])
            seen.update(fresh)
        reached[start] = seen
    sets = {frozenset(other for other in reached[node] if node in reached.get(other, ())) for node in graph}
    return sorted((len(one) for one in sets if len(one) > 1), reverse=True)


class Sources:
    """The package below a tree. files: path below the package -> text."""

    def __init__(self, tree: Path) -> None:
        top = tree / PACKAGE
        self.tree = tree
        self.files = {str(path.relative_to(top)): path.read_text() for path in sorted(top.rglob("*.py"))}
        self.names = {self.name(path): path for path in self.files}

    @staticmethod
    def name(path: str) -> str:
        """Dotted."""
        return ".".join((PACKAGE, *Path(path).with_suffix("").parts)).removesuffix(".__init__")

    def arrows(self) -> Iterator[tuple[str, str]]:
        """(path, path that it imports); those for the type checker too."""
        for path, text in self.files.items():
            for node in ast.walk(parsed(text)):
                wanted = []
                if isinstance(node, ast.Import):
                    wanted = [alias.name for alias in node.names]
                elif isinstance(node, ast.ImportFrom) and node.module:
                    wanted = [f"{node.module}.{alias.name}" for alias in node.names]
                for name in wanted:
                    found = self.names.get(name) or self.names.get(name.rpartition(".")[0])
                    if found is not None and found != path:
                        yield path, found

    def room(self, path: str) -> str:
        """The package or loose module at the top; "" for the package itself and for doors."""
        first = Path(path).parts[0]
        return "" if first in ("__init__.py", "spi.py", "aio.py", "__main__.py") else first.removesuffix(".py")

    def functions(self, under: str = "") -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
        """All functions and methods of files below `under`."""
        for path, text in self.files.items():
            if path.startswith(under):
                yield from (node for node in ast.walk(parsed(text)) if isinstance(node, FUNCTIONS))

    # --- figures ------------------------------------------------------------------------------------------------------

    def graph(self) -> Iterator[tuple[str, str]]:
        """Rooms, arrows and circles."""
        modules: dict[str, set[str]] = {path: set() for path in self.files}
        rooms: dict[str, set[str]] = {self.room(path): set() for path in self.files if self.room(path)}
        for path, other in self.arrows():
            modules[path].add(other)
            if self.room(path) and self.room(other) and self.room(path) != self.room(other):
                rooms[self.room(path)].add(self.room(other))
        yield "rooms at the top", str(len(rooms))
        yield "arrows between rooms", str(sum(map(len, rooms.values())))
        yield "circles of rooms (sizes)", str(circles(rooms) or "none")
        yield "circles of modules (sizes)", str(circles(modules) or "none")

    def classes(self) -> Iterator[tuple[str, str]]:
        """Names of classes."""
        named: Counter[str] = Counter()
        packages: dict[str, set[str]] = defaultdict(set)
        for path, text in self.files.items():
            for node in ast.walk(parsed(text)):
                if isinstance(node, ast.ClassDef):
                    named[node.name] += 1
                    packages[node.name].add(str(Path(path).parent))
        yield "classes", str(sum(named.values()))
        yield "class names used twice or more", str(sum(1 for number in named.values() if number > 1))
        yield "class names in more than one package", str(sum(1 for where in packages.values() if len(where) > 1))

    def relay(self) -> Iterator[tuple[str, str]]:
        """RELAY, and what RELAY and GMS forward."""
        own = {path: text for path, text in self.files.items() if "protocols/relay" in path}
        lines, folders = sum(text.count("\n") for text in own.values()), {Path(path).parent for path in own}
        yield "RELAY: lines, files, folders", f"{lines}, {len(own)}, {len(folders)}"
        yield "`relay.part.attr` chains in RELAY, files, deeper", (
            f"{sum(len(CHAIN.findall(text)) for text in own.values())}, "
            f"{sum(1 for text in own.values() if CHAIN.search(text))}, "
            f"{sum(len(DEEPER.findall(text)) for text in own.values())}")
        found = [function for under in ("protocols/relay", "protocols/gms") for function in self.functions(under)
                 if forwards(function)]
        yield "one-line forwarders in RELAY and GMS, handlers too", str(len(found))

    def shapes(self) -> Iterator[tuple[str, str]]:
        """Functions."""
        lengths = sorted((function.end_lineno or 0) - function.lineno + 1 for function in self.functions())
        yield "functions", str(len(lengths))
        yield "function lines: median, p90, longest", (
            f"{median(lengths):.0f}, {lengths[len(lengths) * 9 // 10]}, {lengths[-1]}")
        yield "functions of 1 to 3 lines", f"{sum(1 for length in lengths if length <= 3) / len(lengths):.0%}"

    def words(self) -> Iterator[tuple[str, str]]:
        """Prose."""
        counted = {path: prose(text) for path, text in self.files.items()}
        for under in ("", *PROSE_OF):
            chosen = [count for path, count in counted.items() if path.startswith(under)]
            if chosen:
                share = sum(one for one, _ in chosen) / sum(of for _, of in chosen)
                yield f"prose, share of lines, {under or 'all'}", f"{share:.2f}"
        prosaic = [text for source in self.files.values() for text in texts(source)]
        yield "docstrings and comments", str(len(prosaic))
        yield "of them with a person word", str(sum(1 for text in prosaic if PERSONS.search(text)))


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description="Count how the package is built.")
    parser.add_argument("--tree", type=Path, default=ROOT, help="the root of a tree (default: this one)")
    sources = Sources(parser.parse_args().tree)
    for figures in (sources.graph(), sources.classes(), sources.relay(), sources.shapes(), sources.words()):
        for name, value in figures:
            sys.stdout.write(f"{name:55} {value}\n")


if __name__ == "__main__":
    main()
