"""What `jgroups top` shows: rates between two surveys, and lines that fit a terminal. Pure: no terminal, no clock.

A survey is what ops/survey.py returns. Members of earlier versions leave out what they sent and all bytes: there the
table has "-", and the totals count the others.
"""
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs
from rich.cells import cell_len, set_cell_size

from jgroups_py.model.text import escaped

Facts = dict[str, Any]
COUNTED = ("sent", "delivered", "sent_bytes", "delivered_bytes")
"""Fields of an answer that only grow; each has a rate, NAME_per_second."""
SUMMED = (*COUNTED, *(f"{name}_per_second" for name in COUNTED), "held", "kept_back_bytes", "backlog_bytes")
SHOWN_CHANGES = ("state", "view", "coordinator", "relay")
NAME_CELLS = 24                             # of a name, at most
BOLD, REVERSE, PLAIN = "\x1b[1m", "\x1b[7m", "\x1b[0m"
KEYS = "q quit   s sort   p pause"


@attrs.frozen
class Column:
    """A column. rank: those of the highest are left out first where the terminal is narrow."""

    head: str
    rank: int
    of: Callable[[Facts], str]
    to_the_right: bool = True


def shown(number: float | None) -> str:
    """A number in five characters.

    >>> [shown(number) for number in (None, 0, 7.25, 9999, 12345, 3.2e6, 7e9)]
    ['-', '0', '7.2', '9999', '12.3k', '3.20M', '7.00G']
    """
    if number is None:
        return "-"
    for unit, factor in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if number >= (factor if unit != "k" else 1e4):
            value = number / factor
            return (f"{value:.2f}" if value < 10 else f"{value:.1f}" if value < 100 else f"{value:.0f}") + unit
    return f"{number:.0f}" if number == int(number) or number >= 100 else f"{number:.1f}"


def roles(member: Facts) -> str:
    """What a member is in its group."""
    return "+".join(short for role, short in (("coordinator", "coord"), ("relay", "relay")) if member.get(role))


COLUMNS = (
    Column("site", 0, lambda member: member["site"] or "-", to_the_right=False),
    Column("member", 0, lambda member: member["name"], to_the_right=False),
    Column("state", 0, lambda member: member["state"], to_the_right=False),
    Column("role", 1, lambda member: roles(member) or "-", to_the_right=False),
    Column("sent", 4, lambda member: shown(member.get("sent"))),
    Column("recv", 4, lambda member: shown(member.get("delivered"))),
    Column("sent/s", 1, lambda member: shown(member["sent_per_second"])),
    Column("recv/s", 1, lambda member: shown(member["delivered_per_second"])),
    Column("outB/s", 3, lambda member: shown(member["sent_bytes_per_second"])),
    Column("inB/s", 3, lambda member: shown(member["delivered_bytes_per_second"])),
    Column("held", 1, lambda member: shown(member["held"])),
    Column("waitB", 5, lambda member: shown(member.get("kept_back_bytes"))),
    Column("backB", 5, lambda member: shown(member.get("backlog_bytes"))),
    Column("suspected by", 2, lambda member: ",".join(member["suspected_by"]) or "-", to_the_right=False),
    Column("view", 6, lambda member: member.get("view") or "-", to_the_right=False),
)
ORDERS: Mapping[str, Callable[[Facts], Any]] = {
    "site": lambda member: (member["site"] or "", member["name"]),
    "sent/s": lambda member: -(member["sent_per_second"] or 0),
    "recv/s": lambda member: -(member["delivered_per_second"] or 0),
    "held": lambda member: (-(member["held"] or 0), -member.get("backlog_bytes", 0)),
}
"""What the rows may be sorted by."""


def with_rates(survey: Facts, before: Facts | None) -> Facts:
    """The survey with what each member did a second since the survey before, what its relay holds, and totals.

    A rate is taken by the member's own clock between its two answers; None: there is no earlier answer, or no count.
    """
    earlier = {} if before is None else {member["uuid"]: member for member in before["members"]}
    members = [_with_rates(member, earlier.get(member["uuid"], {})) for member in survey["members"]]
    total = {name: sum(member.get(name) or 0 for member in members) for name in SUMMED}
    return {**survey, "members": members, "total": total}


def _with_rates(member: Facts, before: Facts) -> Facts:
    seconds = member["clock"] - before["clock"] if "clock" in member and "clock" in before else 0.0
    held = sum(int(site.get("held", 0)) for site in member["sites"].values()) if member.get("relay") else None
    found = {**member, "suspected_by": member.get("suspected_by", []), "held": held}
    for name in COUNTED:
        grown = member[name] - before[name] if name in member and name in before else -1
        found[f"{name}_per_second"] = round(grown / seconds, 1) if seconds > 0 and grown >= 0 else None
    return found


def lines_of(
    survey: Facts, width: int, height: int, order: str, *, note: str = "", before: Facts | None = None,
    styled: bool = True, keys: str = KEYS,
) -> list[str]:
    """The screen: `height` lines at most, each of `width` cells at most. survey: with rates; note: shown in the head.

    before: the survey before; members that changed since are in bold. styled: with sequences of ANSI terminals.
    """
    members = sorted(survey["members"], key=ORDERS[order])
    answered, total = sum("view" in member for member in members), survey["total"]
    lines = [_fit(f"{survey['cluster']}, asked by {survey['asked_by']}: {answered} of {len(members)} members answered "
                  f"in {survey['took_ms']:.1f} ms, by {order}{note and ': ' + note}", width),
             _fit(_sentence(survey, total), width)]
    head, rows = _table(members, width)
    room = max(0, height - len(lines) - 2)                   # the head of the table, and the keys
    fits = rows if len(rows) <= room else rows[:max(0, room - 1)]
    lines.append(f"{REVERSE}{head.ljust(width)}{PLAIN}" if styled else head)
    changed = _changed(before)
    for member, row in zip(members, fits, strict=False):
        is_marked = styled and (member["state"] != "alive" or member["suspected_by"] or changed(member))
        lines.append(f"{BOLD}{row}{PLAIN}" if is_marked else row)
    if len(fits) < len(rows) and room:
        lines.append(_fit(f"... and {len(rows) - len(fits)} more", width))
    return [*lines, _fit(keys, width)][:height] if keys else lines[:height]


def _sentence(survey: Facts, total: Mapping[str, float]) -> str:
    parts = [f"sent {shown(total['sent_per_second'])}/s", f"received {shown(total['delivered_per_second'])}/s",
             f"held for other sites {shown(total['held'])}"]
    parts += [f"not asked: {site} is {status}" for site, status in survey["sites"].items() if status != "UP"]
    if survey["not_asked"]:
        parts.append(f"{survey['not_asked']} members not asked")
    differ = [name for name, agrees in survey["agree"].items() if not agrees]
    return ", ".join(parts + ([f"members differ in {' and '.join(differ)}"] if differ else []))


def _changed(before: Facts | None) -> Callable[[Facts], bool]:
    if before is None:
        return lambda member: False
    earlier = {member["uuid"]: member for member in before["members"]}

    def is_changed(member: Facts) -> bool:
        old = earlier.get(member["uuid"])
        return old is None or any(member.get(name) != old.get(name) for name in SHOWN_CHANGES)
    return is_changed


def _table(members: Sequence[Facts], width: int) -> tuple[str, list[str]]:
    """The head and a row for each member, with as many columns as fit, those of the lowest ranks."""
    columns = list(COLUMNS)
    while True:
        cells = [[set_to(escaped(column.of(member)), NAME_CELLS) for column in columns] for member in members]
        widths = [max([len(column.head), *(cell_len(row[at]) for row in cells)]) for at, column in enumerate(columns)]
        last = max(column.rank for column in columns)
        if sum(widths) + 2 * (len(columns) - 1) <= width or last == 0:
            break
        columns = [column for column in columns if column.rank < last]
    table = [_fit("  ".join(_set(cell, size, column.to_the_right)
                            for cell, size, column in zip(row, widths, columns, strict=True)).rstrip(), width)
             for row in ([column.head for column in columns], *cells)]
    return table[0], table[1:]


def set_to(text: str, cells: int) -> str:
    """A text of at most so many cells; what is cut off is shown by a tilde.

    >>> set_to("a long name", 6), set_to("short", 6)
    ('a lon~', 'short')
    """
    return text if cell_len(text) <= cells else set_cell_size(text, cells - 1).rstrip() + "~"


def _set(text: str, cells: int, to_the_right: bool) -> str:
    room = " " * max(0, cells - cell_len(text))
    return room + text if to_the_right else text + room


def _fit(line: str, width: int) -> str:
    return set_to(escaped(line), width) if width > 1 else ""
