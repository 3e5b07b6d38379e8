"""Loads the stack that an application names, as a checked StackSpec. Only this module of the package reads files.

A source is a path (.xml .yaml .yml), the name of a packaged stack ("udp"), a StackSpec, or a list of protocols:
"PING", ("UDP", {"mcast_port": 45588}), {"UDP": {...}}, or (name, configuration object); in place of a name also the
class of a protocol from outside this package, MyProtocol or (MyProtocol, {...}). Properties of a list are read as in a
file, also numbers without a unit (milliseconds, bytes).
"""
from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from jgroups_py.config import xml, yaml
from jgroups_py.config.build import build_layers
from jgroups_py.config.problems import Place, Problems, did_you_mean, shown, stop
from jgroups_py.config.raw import Include, RawItem, RawLayer, RawProperty
from jgroups_py.config.spec import PYTHON, LayerSpec, StackSpec
from jgroups_py.config.substitute import Substitution
from jgroups_py.model.errors import ConfigError
from jgroups_py.stack.protocol import Protocol

Source = str | Path | StackSpec | Sequence[Any]
FORMATS: dict[str, Callable[[str, str], list[RawItem]]] = {
    ".xml": xml.parse, ".yaml": yaml.parse, ".yml": yaml.parse,
}
DEFAULT_STACK = "udp"
PARTS = "parts"                                    # folder of files that other files include
MAX_FILE_BYTES = 1 << 20
MAX_INCLUDE_DEPTH = 8
BRIDGE_ABSENT = {
    "RELAY": "a bridge connects relays and is not relayed",
    "FLOW": "it would slow a site down to the relays of other sites, and no site waits for another; use MFC",
}
"""Protocol that must not be in a bridge stack -> reason."""


def load(source: Source = DEFAULT_STACK, properties: Mapping[str, object] | None = None) -> StackSpec:
    """The checked StackSpec of `source`, with its `${name:default}` filled from `properties`.

    The file of RELAY's bridge_props is loaded too, so that its errors are found now and not when a member becomes
    coordinator.

    Raises:
        ConfigError: with every problem of the source, each with its file and line.
    """
    if isinstance(source, StackSpec):
        return source
    fill = Substitution(properties or {})
    problems = Problems()
    if isinstance(source, str | Path):
        spec = _from_file(find(str(source)), fill, problems)
    elif isinstance(source, Sequence) and not isinstance(source, bytes | bytearray):
        spec = _from_list(source, fill, problems)
    else:
        raise stop(PYTHON, f"{shown(source)} is not a stack; allowed are the path of a file, the name of a packaged "
                           f"stack ({', '.join(packaged())}), a StackSpec or a list of protocols")
    spec = _with_bridge_checked(spec, fill, problems)
    for name in fill.unused():
        problems.warn(Place(spec.source), f"property {shown(name)} is used nowhere{did_you_mean(name, fill.asked)}"
                                          f" (properties fill ${{name}}; names here: "
                                          f"{', '.join(fill.asked) or 'none'})")
    return attrs.evolve(spec, warnings=tuple(problems.warnings), placeholders=tuple(fill.asked))


def parse(text: str, file: str, properties: Mapping[str, object] | None = None) -> StackSpec:
    """The checked StackSpec of a text. file: its name in errors, whose ending gives the format."""
    fill, problems = Substitution(properties or {}), Problems()
    spec = _from_text(text, Path(file), fill, problems)
    return attrs.evolve(spec, warnings=tuple(problems.warnings))


def resolve_bridge(props: str, base: str, properties: Mapping[str, object] | None = None) -> StackSpec:
    """The bridge stack that RELAY's bridge_props names. base: the folder of the stack file.

    Raises:
        ConfigError: it cannot be found or has errors, or it contains a protocol of BRIDGE_ABSENT.
    """
    fill, problems = Substitution(properties or {}), Problems()
    spec = _bridge(props, base, fill, problems)
    return attrs.evolve(spec, warnings=tuple(problems.warnings))


def bridge_loader(spec: StackSpec) -> Callable[[str], StackSpec]:
    """A function for a Node's `load_bridge`: bridge_props -> its stack, from the same folder, with the same properties.
    """
    return lambda props: resolve_bridge(props, spec.folder, spec.properties)


# --- finding files --------------------------------------------------------------------------------------------------

def stacks_folder() -> Path:
    """The folder of the packaged stacks: inside an installed package, or beside it in a checkout."""
    package = Path(__file__).parents[1]
    installed = package / "stacks"
    return installed if installed.is_dir() else package.parent / "stacks"


def packaged() -> list[str]:
    """The names of the packaged stacks."""
    return sorted({path.stem for path in stacks_folder().glob("*.xml")})


def find(source: str, base: str = "") -> Path:
    """The file that `source` names: a path (relative to `base`), or a packaged stack with or without its ending.

    Raises:
        ConfigError: there is no such file, or its ending is not known.
    """
    path = Path(base, source)
    if path.suffix.lower() in FORMATS:
        shipped = [stacks_folder() / source, stacks_folder() / PARTS / source] if len(Path(source).parts) == 1 else []
        found = next((candidate for candidate in [path, *shipped] if _is_file(candidate)), None)
        if found is None:
            raise stop(Place(source), f"no such file{' in ' + base if base else ''}; packaged stacks are "
                                      f"{', '.join(packaged())}")
        return found
    if source in packaged():
        return stacks_folder() / f"{source}.xml"
    raise stop(Place(shown(source)), "is neither a path that ends in .xml, .yaml or .yml nor a packaged stack"
                                     f"{did_you_mean(source, packaged())} (packaged: {', '.join(packaged())})")


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):              # a name that the system does not allow
        return False


def read(path: Path) -> str:
    """The text of a stack file.

    Raises:
        ConfigError: it cannot be read, is too large, or is not UTF-8.
    """
    try:
        with path.open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise stop(Place(str(path)), f"cannot be read: {error.strerror or error}") from None
    return decode(data, str(path))


def decode(data: bytes, file: str) -> str:
    """Bytes of a stack file as text."""
    if len(data) > MAX_FILE_BYTES:
        raise stop(Place(file), f"larger than {MAX_FILE_BYTES} bytes, so it is not a stack file")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise stop(Place(file, line), f"not UTF-8 ({error.reason})") from None


# --- from a file ----------------------------------------------------------------------------------------------------

def _from_file(path: Path, fill: Substitution, problems: Problems) -> StackSpec:
    return _from_text(read(path), path, fill, problems)


def _from_text(text: str, path: Path, fill: Substitution, problems: Problems) -> StackSpec:
    raw = _expand(_items(text, path), path, fill, 0)
    layers = build_layers(raw, fill, problems)
    problems.raise_if_any()
    return StackSpec(layers, str(path), folder=str(path.resolve().parent), properties=dict(fill.properties))


def _items(text: str, path: Path) -> list[RawItem]:
    reader = FORMATS.get(path.suffix.lower())
    if reader is None:
        raise stop(Place(str(path)), f"a stack file ends in {', '.join(FORMATS)}")
    items = reader(text, str(path))
    if not items:
        raise stop(Place(str(path)), "the stack is empty; it starts with a transport: UDP or TCP")
    return items


def _expand(items: Iterable[RawItem], path: Path, fill: Substitution, depth: int) -> list[RawLayer]:
    """The protocols of a file, with each include replaced by the protocols of its file."""
    layers: list[RawLayer] = []
    for item in items:
        if isinstance(item, Include):
            layers += _included(item, path, fill, depth + 1)
        else:
            layers.append(item)
    return layers


def _included(include: Include, path: Path, fill: Substitution, depth: int) -> list[RawLayer]:
    if depth > MAX_INCLUDE_DEPTH:
        raise stop(include.place, f"more than {MAX_INCLUDE_DEPTH} includes inside each other")
    try:
        name = fill.expand(str(include.file.value), 0)
        found = find(name, str(path.parent))
    except ConfigError as error:
        raise stop(include.place, f"include: {error}") from None
    return _expand(_items(read(found), found), found, fill, depth)


# --- from a list ----------------------------------------------------------------------------------------------------

def _from_list(items: Iterable[Any], fill: Substitution, problems: Problems) -> StackSpec:
    layers = build_layers([_raw(item) for item in items], fill, problems)
    problems.raise_if_any()
    return StackSpec(layers, properties=dict(fill.properties))


def _raw(item: Any) -> RawLayer:
    """One entry of a Python list; see the module's docstring."""
    if isinstance(item, str) or _is_class(item):
        item = (item, None)
    if isinstance(item, LayerSpec):
        return RawLayer(item.name, (), item.place, item.config, item.own)
    if isinstance(item, Mapping) and len(item) == 1:
        item = next(iter(item.items()))
    if isinstance(item, tuple) and len(item) == 2 and (isinstance(item[0], str) or _is_class(item[0])):
        first, content = item
        name, own = (first, None) if isinstance(first, str) else (first.__qualname__, first)
        if content is None:
            return RawLayer(name, (), PYTHON, own=own)
        if isinstance(content, Mapping):
            properties = tuple(RawProperty(str(key), value, PYTHON) for key, value in content.items())
            return RawLayer(name, properties, PYTHON, own=own)
        if attrs.has(type(content)):
            return RawLayer(name, (), PYTHON, content, own)
    raise stop(PYTHON, f"{shown(item)} is not a protocol; write \"PING\", (\"UDP\", {{\"mcast_port\": 45588}}), "
                       "{\"UDP\": {...}}, (name, configuration), or in place of the name the class of a protocol")


def _is_class(item: object) -> bool:
    return isinstance(item, type) and issubclass(item, Protocol)


# --- the bridge -----------------------------------------------------------------------------------------------------

def _with_bridge_checked(spec: StackSpec, fill: Substitution, problems: Problems) -> StackSpec:
    relay = spec.config_of("RELAY")
    if relay is None:
        return spec
    place = next(layer.place for layer in spec.layers if layer.name == "RELAY")
    try:
        bridge = _bridge(relay.bridge_props, spec.folder, fill, problems)
    except ConfigError as error:
        raise stop(place, f"RELAY: bridge_props: {error}") from None
    auth = bridge.config_of("AUTH")
    if relay.trust and not relay.trusted_relays and (auth is None or auth.authority == "psk"):
        proof = "no AUTH" if auth is None else 'AUTH authority="psk", whose members name themselves'
        raise stop(place, f"RELAY: trust: the bridge {relay.bridge_props} has {proof}, so a relay of a site that the "
                          "trust file limits or revokes could introduce itself as another one: put AUTH with keys, "
                          "x509 or token there, with identities that name their site, or say trusted_relays=\"true\" "
                          "if all relays are trusted to name their own site")
    return spec


def _bridge(props: str, base: str, fill: Substitution, problems: Problems) -> StackSpec:
    spec = _from_file(find(props, base), fill, problems)
    for layer in spec.layers:
        if layer.name in BRIDGE_ABSENT:
            raise stop(layer.place, f"{layer.name} in a bridge stack: {BRIDGE_ABSENT[layer.name]}")
    return spec
