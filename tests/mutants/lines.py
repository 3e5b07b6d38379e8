"""Which statements a piece of work executes: the sources are given a mark before each statement.

A store into a byte array costs a few hundredths of what a trace function does, so a whole seed can be followed, and it
is the same on every version of Python.
"""
from __future__ import annotations

import ast
from collections.abc import Iterable

NAME = "_executed"
MODULE = "tests.mutants.lines"

_marks: dict[str, bytearray] = {}


def marks_of(path: str, lines: int) -> bytearray:
    """The marks of a file: one byte a line, 1 if the statement that begins there was executed."""
    return _marks.setdefault(path, bytearray(lines + 1))


def forget() -> None:
    """Nothing was executed."""
    for marks in _marks.values():
        marks[:] = bytes(len(marks))


def executed() -> dict[str, str]:
    """File -> its marked lines, as the hexadecimal digits of a number with a bit for each."""
    return {path: format(sum(1 << at for at, mark in enumerate(marks) if mark), "x")
            for path, marks in _marks.items() if 1 in marks}


def has_line(lines: str, line: int) -> bool:
    """Whether a line is among those of `executed`."""
    return bool(int(lines, 16) >> line & 1)


def marked(path: str, source: str) -> str:
    """The source with its marks."""
    tree = ast.parse(source)
    count = len(source.splitlines())
    for node in ast.walk(tree):
        for field in ("body", "orelse", "finalbody"):
            block = getattr(node, field, None)
            if isinstance(block, list):
                setattr(node, field, _with_marks(block))
    head = ast.parse(f"from {MODULE} import marks_of as {NAME}_of\n{NAME} = {NAME}_of({path!r}, {count})\n").body
    at = _first_that_runs(tree.body)
    tree.body[at:at] = head
    return ast.unparse(ast.fix_missing_locations(tree))


def statement_at(source: str, line: int) -> tuple[int, bool]:
    """(the line where the innermost statement around a line begins, whether it stands in a function)."""
    found, inside = line, False

    def visit(nodes: Iterable[ast.AST], function: bool) -> None:
        nonlocal found, inside
        for node in nodes:
            if isinstance(node, ast.stmt) and node.lineno <= line <= (node.end_lineno or node.lineno):
                found, inside = node.lineno, function
            visit(ast.iter_child_nodes(node), function or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    visit(ast.parse(source).body, False)
    return found, inside


def _first_that_runs(body: list[ast.stmt]) -> int:
    """Behind the docstring and `from __future__`."""
    at = 0
    while at < len(body) and _only_heads(body[at]):
        at += 1
    return at


def _only_heads(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.ImportFrom):
        return statement.module == "__future__"
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _with_marks(block: list[ast.stmt]) -> list[ast.stmt]:
    first = _first_that_runs(block)
    result = block[:first]
    for statement in block[first:]:
        mark = ast.parse(f"{NAME}[{statement.lineno}] = 1").body[0]
        result += [ast.copy_location(mark, statement), statement]
    return result
