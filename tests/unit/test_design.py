"""The documents of the design are true to the code."""
import re
from pathlib import Path

import jgroups_py
from jgroups_py import wire
from jgroups_py.protocols import KNOWN
from tests.wire.describe import rewritten

DESIGN = Path(__file__).parents[2] / "design"


def test_the_wire_document_lists_every_protocol_id():
    text = (DESIGN / "wire.md").read_text(encoding="utf-8").partition("## Protocol ids")[2].partition("## Headers")[0]
    rows = {int(match[1]): match[2] for match in re.finditer(r"^\| (\d+) \| (.*) \|$", text, re.MULTILINE)}
    for known in KNOWN.values():
        if known.wire_id:
            assert known.name in rows[known.wire_id], f"design/wire.md: id {known.wire_id} is {known.name}"


def test_the_wire_document_names_the_version_that_is_spoken():
    text = (DESIGN / "wire.md").read_text(encoding="utf-8")
    assert f"# The wire format, version {wire.VERSION}\n" in text
    assert f"magic `{wire.MAGIC.hex(' ').upper()}`" in text
    assert f"at most {wire.MAX_EMPTY_MESSAGES} of them" in text


def test_every_module_that_the_map_names_exists():
    text = (DESIGN / "map.md").read_text(encoding="utf-8")
    root = DESIGN.parent
    for name in dict.fromkeys(re.findall(r"(?<![\w/])((?:[a-z_]+/)*[a-z_]+\.py)\b", text)):
        found = (root / name).exists() if name.startswith("tests/") else list(root.glob(f"jgroups_py/**/{name}"))
        assert found, f"design/map.md names {name}"


def test_the_head_of_the_package_names_every_room_and_door():
    package = DESIGN.parent / "jgroups_py"
    there = {path.stem for path in package.glob("*.py")} | {path.parent.name for path in package.glob("*/__init__.py")}
    named = set(re.findall(r"[a-z_]+", jgroups_py.__doc__ or ""))
    assert not sorted(there - named - {"__init__", "__main__"})


def test_the_wire_document_describes_every_header_as_it_is():
    text = (DESIGN / "wire.md").read_text(encoding="utf-8")
    assert text == rewritten(text), "design/wire.md: run python -m tests.wire.describe"


def test_the_wire_document_has_the_offsets_of_a_frame():
    text = (DESIGN / "wire.md").read_text(encoding="utf-8")
    source, cluster = wire.SOURCE_OFFSET, wire.SOURCE_OFFSET - len(wire.cluster_id(""))
    assert f"| {source} | {wire.SOURCE_END - source} | source address |" in text
    assert f"| {cluster} | 8 | cluster:" in text
    assert f"| {wire.SOURCE_END} or {wire.SOURCE_END + 16} | | the body" in text
