"""The figures of a run and the table of them. Pure."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

import attrs


@attrs.frozen
class Row:
    """One measured thing. `digits`: how many significant ones are shown."""

    what: str
    unit: str
    more_is_better: bool = True
    digits: int = 3

    @property
    def label(self) -> str:
        """First column of the table."""
        return f"{self.what}, {self.unit}"


@attrs.define
class Cell:
    """What repetitions gave; those that stalled gave nothing."""

    runs: list[float] = attrs.Factory(list)
    stalled: int = 0

    @property
    def median(self) -> float | None:
        """None if nothing came to its end."""
        return median(self.runs) if self.runs else None

    def as_json(self) -> dict[str, Any]:
        """For a document."""
        return {"median": self.median, "min": min(self.runs, default=None), "max": max(self.runs, default=None),
                "runs": self.runs, "stalled": self.stalled}


class Figures:
    """Row -> column -> Cell, in the order in which they came; and what was wrong."""

    def __init__(self, ours: Sequence[str], theirs: Sequence[str]) -> None:
        self.ours = tuple(ours)
        self.theirs = tuple(theirs)
        self.cells: dict[Row, dict[str, Cell]] = {}
        self.remarks: list[str] = []

    def add(self, row: Row, column: str, value: float | None) -> None:
        """One more repetition; None: it stalled."""
        cell = self.cells.setdefault(row, {}).setdefault(column, Cell())
        if value is None:
            cell.stalled += 1
        else:
            cell.runs.append(value)

    def remark(self, column: str, text: str) -> None:
        """Something that the reader must know; said once."""
        if (line := f"{column}: {text}") not in self.remarks:
            self.remarks.append(line)


def best(cells: Mapping[str, Cell], columns: Sequence[str], more_is_better: bool) -> tuple[str, float] | None:
    """The best of the columns and its median, None if none has one.

    >>> best({"a": Cell([3.0]), "b": Cell([1.0, 2.0, 9.0]), "c": Cell(stalled=1)}, ["a", "b", "c"], False)
    ('b', 2.0)
    """
    found = [(column, value) for column in columns
             if column in cells and (value := cells[column].median) is not None]
    if not found:
        return None
    return (max if more_is_better else min)(found, key=lambda pair: pair[1])


def ratio(row: Row, cells: Mapping[str, Cell], ours: Sequence[str], theirs: Sequence[str]) -> float | None:
    """Our best column over theirs; None if one of both has nothing, or theirs is 0."""
    mine, other = best(cells, ours, row.more_is_better), best(cells, theirs, row.more_is_better)
    return mine[1] / other[1] if mine and other and other[1] else None


def number(value: float, digits: int = 3) -> str:
    """With so many significant digits, or all digits before the point.

    >>> number(123456.7), number(1.2345), number(0.04567), number(0.0)
    ('123,000', '1.23', '0.0457', '0')
    """
    if not value:
        return "0"
    short = float(f"{value:.{digits}g}")
    return f"{short:,.0f}" if abs(short) >= 10 ** (digits - 1) else f"{short:.{digits}g}"


def shown(cell: Cell | None, digits: int) -> str:
    """A cell as text: median (min-max), and how many repetitions stalled.

    >>> shown(Cell([1.0, 2.0, 4.0], 1), 3), shown(Cell(stalled=2), 3), shown(None, 3)
    ('2 (1-4), 1 of 4 stalled', 'stalled', '')
    """
    if cell is None:
        return ""
    if cell.median is None:
        return "stalled"
    spread = f" ({number(min(cell.runs), digits)}-{number(max(cell.runs), digits)})" if len(cell.runs) > 1 else ""
    stalled = f", {cell.stalled} of {len(cell.runs) + cell.stalled} stalled" if cell.stalled else ""
    return number(cell.median, digits) + spread + stalled


def markdown(figures: Figures) -> str:
    """The table."""
    columns = [*figures.theirs, *figures.ours]
    lines = ["| | " + " | ".join([*columns, "ours / best JGroups"]) + " |", "|---" * (len(columns) + 2) + "|"]
    for row, cells in figures.cells.items():
        share = ratio(row, cells, figures.ours, figures.theirs)
        better = "" if row.more_is_better else " (less is better)"
        lines.append("| " + " | ".join([
            row.label, *(shown(cells.get(column), row.digits) for column in columns),
            "" if share is None else f"{share:.2f}{better}"]) + " |")
    return "\n".join(lines)


def as_json(figures: Figures) -> list[dict[str, Any]]:
    """The table as a document."""
    return [{"what": row.what, "unit": row.unit, "more_is_better": row.more_is_better,
             "columns": {column: cell.as_json() for column, cell in cells.items()},
             "ratio": ratio(row, cells, figures.ours, figures.theirs)} for row, cells in figures.cells.items()]
