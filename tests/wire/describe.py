"""The section "Headers" of design/wire.md, made from the header classes.

`python -m tests.wire.describe` rewrites it; a test compares.
"""
from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import attrs

from jgroups_py import wire
from jgroups_py.model.batch import Header
from jgroups_py.protocols import KNOWN
from jgroups_py.wire import block_headers as blockheaders

DOCUMENT = Path(__file__).parents[2] / "design" / "wire.md"
HEAD = "## Headers\n"
FIRST_OF_OTHERS = 1024        # ids from here on are for protocols from outside the package, and for the simulator's


def name_of(codec: wire.Codec[Any]) -> str:
    """How design/wire.md calls a codec: by its name in wire/frame.py, put together from its parts, or by its writer."""
    for name, member in vars(wire).items():
        if member is codec and not name.startswith("_"):
            return name
    maker = codec.write.__qualname__.partition(".")[0]
    parts = inspect.getclosurevars(codec.write).nonlocals
    if maker == "fixed_bytes":
        return f"{parts['number']} bytes"
    if maker == "mapping":
        return f"mapping {name_of(parts['key'])} to {name_of(parts['value'])}"
    if maker == "record":
        return f"({', '.join(map(name_of, parts['codecs']))})"
    if maker in ("optional", "sequence"):
        return f"{maker.replace('sequence', 'sequence of')} {name_of(parts['codec'])}"
    return maker.removeprefix("_write_").upper()


def row(header: type[Header]) -> str:
    """One header: its kind, its name, its fields in the order of their bytes, its meaning."""
    fields = ", ".join(f"{field.name} {name_of(field.metadata['codec'])}"
                       for field in attrs.fields(header))                     # type: ignore[arg-type]
    meaning = " ".join((inspect.getdoc(header) or "").split("\n\n")[0].split()).replace("|", "/")
    kind = f"{header.kind}, may be skipped" if header.kind >= wire.SKIPPABLE else str(header.kind)
    return f"| {kind} | {header.__name__} | {fields or 'none'} | {meaning} |"


def section() -> str:
    """All headers of all protocols, by protocol id and kind."""
    for known in KNOWN.values():
        known.load()
    headers = [header for header in wire.known_headers()
               if header.__module__.startswith("jgroups_py.") and header.proto < FIRST_OF_OTHERS]
    blocks = ["building blocks rpc, anti_entropy"]
    names: dict[int, list[str]] = {1: ["the application"], blockheaders.Ask.proto: blocks}
    for known in KNOWN.values():
        names.setdefault(known.wire_id, []).append(known.name)
    lines = [HEAD]
    for proto in sorted({header.proto: None for header in headers}):
        lines += [f"### {proto}: {', '.join(names.get(proto, ['?']))}", "", "| kind | name | fields | meaning |",
                  "|---|---|---|---|", *(row(header) for header in headers if header.proto == proto), ""]
    return "\n".join(lines)


def rewritten(text: str) -> str:
    """The document with the section as it should be."""
    return text.partition(HEAD)[0].rstrip() + "\n\n" + section()


if __name__ == "__main__":
    DOCUMENT.write_text(rewritten(DOCUMENT.read_text(encoding="utf-8")), encoding="utf-8")
