"""What documents, examples and stack files name exists: files of this project, and modules of the package."""
from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from jgroups_py.simulator.profiles import PROFILES
from tests.documents.markdown import INLINE, ROOT, pages, prose, text_of

HISTORY = {"CHANGELOG.md", "design/track-record.md", "design/evidence.md"}
"""Pages about earlier states: what they name may have another name today. So may what decisions name."""
WRITTEN = {"tests/mutants/results.jsonl"}
"""Files that a long run writes beside the sources."""
NOT_MODULES = {"jgroups_py.drops", "jgroups_py.trace", "jgroups_py.name_resolvers"}
"""Names of loggers, and of a group of entry points."""
FOLDERS = ("jgroups_py", "tests", "design", "docs", "stacks", "examples", "benchmarks")
PATH = re.compile(rf"(?<![\w/.~-])(?:{'|'.join(FOLDERS)})/[\w./*-]*[\w/]")
FILE = re.compile(r"(?<![\w/.~<-])(?:[a-z_0-9]+/)+[a-z_0-9]+\.py\b")
MODULE = re.compile(r"\bjgroups_py(?:\.[a-z_]\w*)+")
MAPPED = re.compile(r"(?<![\w/.<-])(?P<path>(?:[a-z_0-9-]+/)+[\w.*-]*|[a-z_0-9]+\.py)(?![\w>])")
FILES = sorted([*(path for path in (ROOT / "stacks").rglob("*") if path.is_file()), *(ROOT / "examples").glob("*.py")])


def today() -> list[Path]:
    """The pages about the sources as they are."""
    return [page for page in pages() if str(page.relative_to(ROOT)) not in HISTORY
            and (ROOT / "design" / "decisions") not in page.parents]


def exists(path: str) -> bool:
    """Whether a path of the project exists; it may have a *, or be a module without its ending."""
    return any(next(ROOT.glob(name), None) is not None for name in (path.rstrip("/."), f"{path}.py") if name)


def is_somewhere(path: str) -> bool:
    """Whether there is such a file or folder in the project, or in a room of the package, or in tests."""
    wanted = path.rstrip("/.")
    return exists(wanted) or any(next((ROOT / room).rglob(wanted), None) is not None
                                 for room in ("jgroups_py", "tests", "design"))


def unknown_modules(text: str) -> Iterator[str]:
    """Dotted names of modules of this package that cannot be imported, up to the first part that is no module."""
    for found in MODULE.finditer(text):
        parts = found[0].split(".")
        if found[0] not in NOT_MODULES and not is_module_or_attribute(parts):
            yield found[0]


def is_module_or_attribute(parts: list[str]) -> bool:
    """Whether the first names lead to a module, and the next one, if there is one, to something in it."""
    for last in range(len(parts), 1, -1):
        name = ".".join(parts[:last])
        try:
            spec = find_spec(name)
        except ModuleNotFoundError:
            continue
        if spec is not None:
            rest = parts[last:]
            return not rest or rest[0] in Path(str(spec.origin)).read_text(encoding="utf-8")
    return parts[1] in (ROOT / "jgroups_py" / "__init__.py").read_text(encoding="utf-8")


@pytest.mark.parametrize("page", today(), ids=lambda page: str(page.relative_to(ROOT)))
def test_the_files_that_a_page_names_exist(page: Path) -> None:
    assert [found[0] for found in PATH.finditer(prose(page)) if not exists(found[0])
            and found[0] not in WRITTEN] == []


@pytest.mark.parametrize("page", [page for page in today() if ROOT / "design" in page.parents],
                         ids=lambda page: page.stem)
def test_the_modules_that_a_page_of_the_design_names_by_room_and_file_exist(page: Path) -> None:
    assert [found[0] for found in FILE.finditer(prose(page)) if not is_somewhere(found[0])] == []


@pytest.mark.parametrize("path", [*today(), *FILES], ids=lambda path: str(path.relative_to(ROOT)))
def test_the_modules_that_a_text_names_can_be_imported(path: Path) -> None:
    assert list(unknown_modules(text_of(path))) == []


def test_every_place_on_the_map_exists() -> None:
    text = INLINE.sub(lambda span: span["code"], text_of(ROOT / "design" / "map.md"))
    named = [found["path"] for found in MAPPED.finditer(text)]
    assert len(named) > 80
    assert [path for path in named if not is_somewhere(path)] == []


def test_a_name_that_does_not_exist_is_found() -> None:
    assert exists("tests/test_tidy")
    assert not exists("tests/no_such_file.py")
    assert is_somewhere("stack/fifo.py")
    assert not is_somewhere("stack/no_such_file.py")
    assert list(unknown_modules("jgroups_py.blocks.rpc.Rpc, jgroups_py.no_room.x")) == ["jgroups_py.no_room.x"]


def test_the_table_of_profiles_has_each_once() -> None:
    table = text_of(ROOT / "design" / "simulator.md").partition("| profile | world |")[2].partition("\n\n")[0]
    rows = [name for row in table.split("\n")[2:] for name in row.split("|")[1].strip().split(", ")]
    assert sorted(rows) == sorted(PROFILES)
