"""What setup.cfg declares is imported, and what is imported is declared."""
from __future__ import annotations

import ast
import configparser
import json
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.documents.markdown import blocks, user_pages
from tests.release.audit import audit

ROOT = Path(__file__).parents[1]
MODULE_OF = {"pyyaml": "yaml", "grpcio": "grpc", "pyzmq": "zmq", "toxiproxy-python": "toxiproxy", "protobuf": "google",
             "pytest-timeout": "", "pytest-xdist": "xdist", "cosmic-ray": "cosmic_ray", "paho-mqtt": "paho",
             "types-pyyaml": "", "types-defusedxml": "", "sortedcontainers-stubs": "", "tox": "", "mypy": "",
             "ruff": "", "pandas": "", "httpx2": "", "dnspython": "dns",
             "opentelemetry-api": "opentelemetry", "opentelemetry-sdk": "opentelemetry",
             "sphinx": "", "furo": "", "myst-parser": "", "sphinx-copybutton": ""}
"""Distribution -> the module it installs, where the names differ; "": a tool or plugin that is run, not imported, or
what another one imports (pyspark makes frames of pandas, FastAPI's test client uses httpx2)."""
OF_OTHER_ENVIRONMENTS = {"pyaeron", "no_such_module"}
"""tests/aeron has an environment of its own (tox -e aeron); a test asks for a module that does not exist."""
OURS = {"jgroups_py", "tests", "benchmarks", "examples"}


def declared() -> dict[str, set[str]]:
    """"install" or the name of an extra -> the modules of its distributions."""
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    lists = {"install": config["options"]["install_requires"], **config["options.extras_require"]}
    found: dict[str, set[str]] = {}
    for name, text in lists.items():
        names = [re.split(r"[<>=;\[ ]", line)[0].lower() for line in text.split("\n") if line.strip()]
        found[name] = {MODULE_OF.get(each, each) for each in names} - {""}
    return found


def imported(*folders: str) -> dict[str, list[str]]:
    """Third-party module -> where the folders import it, `path:line`; loads by name (`import_module("x")`) too."""
    found: dict[str, list[str]] = {}
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*.py")):
            for line, module in imports(ast.parse(path.read_text(encoding="utf-8"))):
                beside = not (path.parent / "__init__.py").exists() and (path.parent / f"{module}.py").exists()
                if module and not beside and module not in OURS and module not in sys.stdlib_module_names:
                    found.setdefault(module, []).append(f"{path.relative_to(ROOT)}:{line}")
    return found


def imports(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """(line, first part of the module's name) of each import."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name.partition(".")[0]) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.lineno, (node.module or "").partition(".")[0]
        elif (isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant)
                and isinstance(node.args[0].value, str) and isinstance(node.func, ast.Name | ast.Attribute)
                and (node.func.id if isinstance(node.func, ast.Name) else node.func.attr)
                in ("import_module", "require", "importorskip")):
            yield node.lineno, node.args[0].value.partition(".")[0]


def test_what_an_installation_requires_is_imported_by_the_package():
    unused = declared()["install"] - set(imported("jgroups_py"))
    assert not unused, f"setup.cfg requires {', '.join(sorted(unused))}, which no module of jgroups_py imports"


def test_what_an_extra_requires_is_imported():
    everywhere = set(imported("jgroups_py", "tests", "benchmarks", "examples")) | {
        module for page in user_pages() for block in blocks(page) if block.language == "python"
        for _, module in imports(ast.parse(block.text))}
    unused = {f"{extra}: {module}" for extra, modules in declared().items() for module in modules - everywhere}
    assert not unused, f"declared in setup.cfg and imported nowhere: {', '.join(sorted(unused))}"


def test_what_the_package_imports_is_declared():
    known = set.union(*(modules for extra, modules in declared().items() if extra != "dev")) | {"pytest"}
    undeclared = {module: places for module, places in imported("jgroups_py").items() if module not in known}
    assert not undeclared, f"imported and not declared in setup.cfg: {undeclared}"


def test_what_the_tests_import_is_declared():
    known = set.union(*declared().values()) | OF_OTHER_ENVIRONMENTS
    undeclared = {module: places[:3] for module, places in imported("tests", "benchmarks", "examples").items()
                  if module not in known}
    assert not undeclared, f"imported and not declared in setup.cfg: {undeclared}"


AUDITED = "{}"
WEAKNESS = json.dumps({"dependencies": [{"name": "urllib3", "version": "1.24.1", "vulns": [{"id": "PYSEC-2019-133"}]}]})
SKIPPED = json.dumps({"dependencies": [{"name": "urllib3", "skip_reason": "not found on PyPI"}]})


@pytest.mark.parametrize(("pypi", "osv", "list_code", "code", "shown"), [
    (WEAKNESS, "", 0, 0, "asked pypi"), (WEAKNESS, "", 1, 1, "asked pypi"), (SKIPPED, WEAKNESS, 0, 0, "asked osv"),
    (SKIPPED, "", 0, 2, "NOTHING WAS AUDITED"), (AUDITED, AUDITED, 0, 2, "NOTHING WAS AUDITED")])
def test_an_audit_that_reached_no_database_does_not_pass(pypi, osv, list_code, code, shown) -> None:
    """pip-audit itself exits with 0 then, or with an error that reads as one of the first package."""
    printed: list[str] = []

    def run(words: Sequence[str]) -> subprocess.CompletedProcess[str]:
        if "--strict" in words:
            return subprocess.CompletedProcess(words, list_code, "the list\n", "")
        return subprocess.CompletedProcess(words, 0, {"pypi": pypi, "osv": osv}[words[1]], "no route")

    assert audit(run, ROOT / ".ci" / "requirements.txt", printed.append) == code
    assert shown in "\n".join(printed)
    assert ("no route" in "\n".join(printed)) == (code == 2)


def numbers(version: str) -> tuple[int, ...]:
    """The numbers of a version, as far as they go."""
    found = re.match(r"\d+(\.\d+)*", version)
    return tuple(map(int, found[0].split("."))) if found else ()


def test_the_packages_of_development_are_pinned_with_hashes_within_their_bounds() -> None:
    """.ci/requirements.txt is what `tox -e pinned` installs and `tox -e audit` asks about, so it must be complete."""
    text = (ROOT / ".ci" / "requirements.txt").read_text(encoding="utf-8")
    pinned: dict[str, str] = {}
    for part in re.split(r"\n(?=\w)", text[text.index("\n", text.rindex("# ")) + 1:]):
        lines = part.strip().split(" \\\n    ")
        name, _, rest = lines[0].partition("==")
        assert rest, f"{lines[0]!r} has no exact version"
        assert lines[1:], f"{name} has no hash"
        assert all(re.fullmatch(r"--hash=sha256:[0-9a-f]{64}", line) for line in lines[1:]), name
        pinned[name.lower()] = rest.partition(" ")[0]
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    for listed in (config["options"]["install_requires"], config["options.extras_require"]["dev"]):
        for line in filter(None, listed.split("\n")):
            name = re.split(r"[<>=;\[ ]", line)[0].lower().replace("_", "-")
            version = numbers(pinned[name])
            for sign, bound in re.findall(r"(>=|<)([\d.]+)", line):
                assert version >= numbers(bound) if sign == ">=" else version < numbers(bound), line
