"""The architecture that a machine can check, read from the tree itself (design/architecture.md: rooms, rings, laws).

A room is a package directly below jgroups_py; the docstring of its `__init__.py` ends with its ring ("Ring 2."). The
other files there are doors: names for users, imported by no room, but for the template of protocols, which shows how an
author outside the package imports. Every finding reads `path:line: what: do this instead`.
"""
from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path

import attrs

from tests.trees import freed as freed
from tests.trees import parsed

ROOT = Path(__file__).parents[1]
PACKAGE = "jgroups_py"
MOST_ROOMS = 20
PURE_RINGS = 3
PURE_BLOCKS = "jgroups_py/blocks/mqtt/"
ADAPTERS = ("server/server.py", "server/listeners.py", "server/client_socket.py", "server/dial.py", "server/admin.py",
            "federation/channel_link.py", "gmqtt/grpc.py", "node/node.py", "node/group.py", "node/joining.py",
            "node/snapshot.py", "mosquitto/sidecar.py")
"""A block with a pure core, and its files that are its hands: sockets, HTTP, other brokers."""
TEMPLATE = "jgroups_py/protocols/example.py"
WORLDS = ("runtime", "simulator")
IMPURE = ("socket", "threading", "asyncio", "selectors", "select", "time", "os", "random", "zmq", "subprocess",
          "multiprocessing", "concurrent", "uuid", "secrets", "datetime", "pathlib", "shutil", "tempfile", "signal")
ALLOWED_IMPURE = {
    # Random, the class: a seeded generator is handed in; the module's own functions stay forbidden.
    ("random", "Random"): "",
    # Times of certificates, as values: their library takes and gives no others.
    ("datetime", "UTC"): "", ("datetime", "datetime"): "", ("datetime", "timedelta"): "",
    # The one place that reads files.
    ("pathlib", "Path"): "jgroups_py/config/load.py",
}
RING = re.compile(r"\bRing (\d)\.\Z")


@attrs.frozen
class Import:
    """A module imports a name of another (`name` is "" for `import module`)."""

    line: int
    module: str
    name: str


@attrs.frozen
class Module:
    """One file of the package. name: dotted, an `__init__.py` by its package."""

    path: str
    name: str
    text: str
    imports: tuple[Import, ...]

    @property
    def tree(self) -> ast.Module:
        """Parsed."""
        return parsed(self.text)

    @property
    def room(self) -> str:
        """The room that it is in; "" for doors and the package itself."""
        parts = self.path.split("/")
        return parts[1] if len(parts) > 2 else ""


def module_of(path: str, text: str) -> Module:
    """The module at a path below the root of the project."""
    parts = Path(path).with_suffix("").parts
    found = []
    for node in ast.walk(parsed(text)):
        if isinstance(node, ast.Import):
            found += [Import(node.lineno, alias.name, "") for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: relative import: write the whole name"
            found += [Import(node.lineno, node.module or "", alias.name) for alias in node.names]
    name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
    return Module(path, name, text, tuple(found))


def read(path: Path) -> Module:
    return module_of(path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8"))


@cache
def modules() -> dict[str, Module]:
    """Name -> module, all of the package."""
    return {module.name: module for module in map(read, sorted((ROOT / PACKAGE).rglob("*.py")))}


def rooms() -> list[str]:
    return sorted({module.room for module in modules().values()} - {""})


def rings() -> dict[str, int]:
    """Room -> ring, as its docstring says."""
    found = {}
    for room in rooms():
        match = RING.search((ast.get_docstring(modules()[f"{PACKAGE}.{room}"].tree) or "").rstrip())
        assert match, f"{PACKAGE}/{room}/__init__.py:1: no ring: end its docstring with \"Ring N.\""
        found[room] = int(match[1])
    return found


def target(wanted: Import) -> Module | None:
    """The module of the package that an import loads, None if it is none of the package."""
    return modules().get(f"{wanted.module}.{wanted.name}") or modules().get(wanted.module)


def arrows() -> Iterator[tuple[Module, int, Module]]:
    """(importing module, line, imported module), each import in the package; those for the type checker too."""
    for module in modules().values():
        for wanted in module.imports:
            other = target(wanted)
            if other is not None and other is not module:
                yield module, wanted.line, other


def circles(graph: Mapping[str, Iterable[str]]) -> list[list[str]]:
    """The strongly connected components of more than one node (Tarjan).

    >>> circles({"a": ["b"], "b": ["a", "c"], "c": []})
    [['a', 'b']]
    """
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found = []

    def visit(node: str) -> None:
        index[node] = low[node] = len(index)
        stack.append(node)
        for other in graph.get(node, ()):
            if other not in index:
                visit(other)
            if other in stack:
                low[node] = min(low[node], low[other])
        if low[node] == index[node]:
            at = stack.index(node)
            if len(stack) - at > 1:
                found.append(sorted(stack[at:]))
            del stack[at:]

    for node in graph:
        if node not in index:
            visit(node)
    return found


def report(findings: Iterable[str]) -> None:
    found = sorted(findings)
    assert not found, "\n" + "\n".join(found)


def test_there_are_few_rooms():
    found = rooms()
    assert len(found) <= MOST_ROOMS, f"{len(found)} rooms at the top of {PACKAGE}: {', '.join(found)}"


def test_rooms_import_inwards():
    ring = rings()
    report(f"{module.path}:{line}: ring {ring[module.room]} imports {other.name} of ring {ring[other.room]}: "
           "pass it in, ask by a port or send an event"
           for module, line, other in arrows() if module.room and other.room and ring[other.room] > ring[module.room])


def test_rooms_import_one_way():
    between: dict[str, dict[str, str]] = defaultdict(dict)
    for module, line, other in arrows():
        if module.room and other.room and module.room != other.room:
            between[module.room].setdefault(other.room, f"{module.path}:{line} imports {other.name}")
    report("a circle of rooms: " + "; ".join(between[a][b] for a in circle for b in circle if b in between[a])
           for circle in circles(between))


def test_modules_import_one_way():
    between: dict[str, list[str]] = defaultdict(list)
    for module, _, other in arrows():
        between[module.name].append(other.name)
    report(f"a circle of modules: {' <-> '.join(circle)}" for circle in circles(between))


def package_of(module: Module) -> str:
    """The package that a class name belongs to: the room, or the protocol or building block.

    >>> package_of(modules()["jgroups_py.protocols.gms.config"]), package_of(modules()["jgroups_py.cli.bench.cost"])
    ('protocols.gms', 'cli')
    """
    parts = module.path.removesuffix(".py").split("/")[1:]
    return ".".join(parts[:2]) if parts[0] in ("protocols", "blocks") else parts[0]


def test_a_class_name_is_in_one_package():
    found: dict[str, dict[str, str]] = defaultdict(dict)
    for module in modules().values():
        for node in ast.walk(module.tree):
            if isinstance(node, ast.ClassDef):
                found[node.name].setdefault(package_of(module), f"{module.path}:{node.lineno}")
    report(f"{places[0]}: {name} is a class in {', '.join(places[1:])} too: rename one"
           for name, places in ((name, list(places.values())) for name, places in found.items())
           if len(places) > 1)


def test_rooms_import_no_doors():
    report(f"{module.path}:{line}: imports {other.name}: doors are for users, import from the room itself"
           for module, line, other in arrows()
           if module.room and module.path != TEMPLATE and not other.room and other.name != PACKAGE)


def test_layers_do_not_import_layers():
    def layer(module: Module) -> str:
        parts = module.path.split("/")
        return parts[2].removesuffix(".py") if module.room == "protocols" else ""
    report(f"{module.path}:{line}: the layer {layer(module)} imports {other.name}: ask by a port or send an event"
           for module, line, other in arrows()
           if layer(module) not in ("", "__init__") and layer(other) not in ("", layer(module)))


def test_runtime_and_simulator_do_not_import_each_other():
    report(f"{module.path}:{line}: {module.room} imports {other.name}: move inwards what both need"
           for module, line, other in arrows()
           if module.room in WORLDS and other.room in WORLDS and module.room != other.room)


def test_the_pure_rings_import_no_sockets_threads_clocks_or_chance():
    ring = rings()
    report(f"{module.path}:{wanted.line}: a pure ring imports {wanted.module}: time and chance come in as arguments "
           "(now_ns, self.rng), everything else goes out as an output"
           for module in modules().values() if module.room and ring[module.room] <= PURE_RINGS
           for wanted in module.imports if wanted.module.partition(".")[0] in IMPURE
           and ALLOWED_IMPURE.get((wanted.module, wanted.name)) not in ("", module.path))


def test_the_mqtt_broker_is_pure_but_for_its_adapters():
    report(f"{module.path}:{wanted.line}: the broker's core imports {wanted.module}: give it bytes, packets and the "
           f"clock, or move it to one of {', '.join(ADAPTERS)}"
           for module in modules().values()
           if module.path.startswith(PURE_BLOCKS) and module.path.removeprefix(PURE_BLOCKS) not in ADAPTERS
           for wanted in module.imports if wanted.module.partition(".")[0] in IMPURE
           and ALLOWED_IMPURE.get((wanted.module, wanted.name)) not in ("", module.path))


def test_the_template_imports_from_the_door_alone():
    own = {wanted.module for wanted in modules()[f"{PACKAGE}.protocols.example"].imports
           if wanted.module.startswith(PACKAGE)}
    assert own == {f"{PACKAGE}.spi"}


def test_the_pure_rings_catch_no_exception_that_they_cannot_name():
    ring = rings()

    def findings() -> Iterator[str]:
        for module in modules().values():
            for node in ast.walk(module.tree):
                if not module.room or ring[module.room] > PURE_RINGS or not isinstance(node, ast.ExceptHandler):
                    continue
                caught = ast.dump(node.type) if node.type is not None else "'BaseException'"
                if "'Exception'" in caught or "'BaseException'" in caught:
                    yield f"{module.path}:{node.lineno}: catches every exception: a bug must not be hidden; name them"
    report(findings())


def test_no_key_token_or_challenge_of_sealing_is_made_by_chance_that_can_be_guessed():
    """Random bytes of secrets come from the port Secrets; `self.rng` and `rng_seed` follow from the node's seed."""
    rooms = ("jgroups_py/sealing/", "jgroups_py/protocols/encrypt/", "jgroups_py/protocols/auth/")
    found = [f"{module.path}:{node.lineno}" for module in modules().values() if module.path.startswith(rooms)
             for node in ast.walk(module.tree) if isinstance(node, ast.Attribute) and node.attr in ("rng", "rng_seed")]
    # One use makes no secret: when a member reports which keys it holds.
    assert len(found) == 1, found


RUNS_INPUT = ("pickle", "_pickle", "cPickle", "marshal", "shelve", "dill", "cloudpickle", "joblib", "jsonpickle")
"""Modules whose loading of bytes runs code that the bytes name."""
EVALUATES = ("eval", "exec", "compile", "__import__")
LOADS_UNSAFELY = ("unsafe_load", "full_load", "UnsafeLoader", "FullLoader", "allow_pickle", "read_pickle")


def what_runs_input(module: Module) -> Iterator[str]:
    """Each place of a module that could run what it reads."""
    for wanted in module.imports:
        if wanted.module.partition(".")[0] in RUNS_INPUT:
            yield f"{module.path}:{wanted.line}: imports {wanted.module}: encode with jgroups_py.wire, or msgspec"
    for node in ast.walk(module.tree):
        match node:
            case ast.Call(func=ast.Name(id=name)) if name in EVALUATES:
                yield f"{module.path}:{node.lineno}: calls {name}: nothing that is read may be run"
            case ast.Attribute(attr=name) | ast.keyword(arg=name) | ast.Name(id=name) if name in LOADS_UNSAFELY:
                yield f"{module.path}:{node.lineno}: {name}: it makes objects that the input names"


def test_nothing_that_is_read_is_run_as_code():
    """No pickle, marshal or eval in the package (case 21 of the blocks), whatever a peer or a file sends."""
    report(finding for module in modules().values() for finding in what_runs_input(module))


def test_what_runs_input_is_found():
    planted = ("import pickle", "from marshal import loads", "import dill.source", "eval(text)", "exec(code)",
               "compile(text, '', 'exec')", "__import__(name)", "yaml.load(text, Loader=yaml.UnsafeLoader)",
               "numpy.load(path, allow_pickle=True)")
    for text in planted:
        assert len(list(what_runs_input(module_of(f"{PACKAGE}/planted.py", text)))) == 1, text
    assert not list(what_runs_input(module_of(f"{PACKAGE}/clean.py", "re.compile(text)\nimport json\nself.eval(x)")))
