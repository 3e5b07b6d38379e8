"""Builds the checked layers of a StackSpec from names and texts, for XML, YAML and Python alike.

All problems are collected with their file and line (problems.py), so that one run shows them all. Protocols in JGroups'
files that have no meaning here are left out with a warning; so are properties of Java threads and buffers.
"""
from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from jgroups_py.config.check import check_layers
from jgroups_py.config.own import checked, imported
from jgroups_py.config.problems import Problems, did_you_mean, shown
from jgroups_py.config.properties import PACKAGES, Property, PropertyTable, canonical, table_of
from jgroups_py.config.raw import RawLayer, RawProperty
from jgroups_py.config.spec import LayerSpec
from jgroups_py.config.substitute import Substitution, text_of
from jgroups_py.model.errors import ConfigError
from jgroups_py.protocols import ALIASES, KNOWN, MEANINGLESS
from jgroups_py.stack.protocol import Protocol

NOT_OFFERED = (
    "ASYM_ENCRYPT", "BPING", "CENTRAL_LOCK", "COMPRESS", "COUNTER", "DAISYCHAIN", "DH_KEY_EXCHANGE", "DNS_PING",
    "DROP", "FD_HOST", "FLUSH", "FORK", "JDBC_PING", "JDBC_PING2", "LOCAL_PING", "MPING", "RATE_LIMITER",
    "RELAY2", "RELAY3", "REVERSE", "RSVP", "SHARED_LOOPBACK", "SHARED_LOOPBACK_PING",
    "SIZE", "SNIFF", "SSL_KEY_EXCHANGE", "STATS", "STOMP", "SYM_ENCRYPT", "TCPGOSSIP", "TIME", "TRACE", "TUNNEL",
)
"""Protocols of JGroups that change what a stack does: they are refused, since leaving them out would be wrong."""

INSTEAD = {
    "SYM_ENCRYPT": "write ENCRYPT directly above the transport, with keyring= (jgroups keys generate makes one): its "
                   "keystore and cipher cannot be used, whole frames are sealed and not payloads "
                   "(encrypt_entire_message=false has no counterpart), and what stands below it would be clear",
    "ASYM_ENCRYPT": "write ENCRYPT directly above the transport: RSA keys of members and a secret of the coordinator "
                    "are not used here, and whole frames are sealed and not payloads",
    "SSL_KEY_EXCHANGE": "take it out: ENCRYPT needs no other protocol to exchange keys",
}
"""Protocols of JGroups -> what does their work here. Their properties mean other things, so none of them is taken for
ENCRYPT in silence."""


def build_layers(raw: Iterable[RawLayer], fill: Substitution, problems: Problems) -> tuple[LayerSpec, ...]:
    """The layers that `raw` describes, lowest first, checked one by one and as a stack.

    Errors are added to `problems`; if there are any, the result must not be used.
    """
    built = [build_layer(item, fill, problems) for item in raw]
    layers = tuple(layer for layer in built if layer is not None)
    if not problems.found:                                # else a layer is missing, and rules would report its absence
        check_layers(layers, problems)
    return layers


def build_layer(raw: RawLayer, fill: Substitution, problems: Problems) -> LayerSpec | None:
    """One layer; None if it is left out, or if `problems` has an error about it."""
    if canonical(raw.name) in MEANINGLESS:
        problems.warn(raw.place, f"{raw.name} is left out: {MEANINGLESS[str(canonical(raw.name))]}")
        return None
    try:
        cls, own = class_of(raw)
    except ConfigError as error:
        problems.add(raw.place, str(error))
        return None
    if raw.config is not None:
        return finished(cls, own, raw, problems)
    before = len(problems.found)
    table = table_of(cls)
    values = collect(raw, table, fill, problems)
    for item in table.properties:
        if item.required and item.field not in values:
            problems.add(raw.place, f"{raw.name}: property {item.name!r} is missing: {item.doc}")
    if len(problems.found) > before:
        return None
    try:
        return LayerSpec(cls.name, cls.Config(**values), raw.place, own)
    except ConfigError as error:                          # values that contradict each other
        problems.add(raw.place, f"{raw.name}: {error}")
        return None


def class_of(raw: RawLayer) -> tuple[type[Protocol], type[Protocol] | None]:
    """(the class of a layer, the same again if it comes from outside this package, else None).

    Raises:
        ConfigError: the name is not known, or its class cannot be a layer.
    """
    if raw.own is not None:
        return checked(raw.own), raw.own
    name = canonical(raw.name)
    if name is not None:
        return KNOWN[name].load(), None
    if "." not in raw.name or raw.name.startswith(PACKAGES):
        raise ConfigError(unknown_protocol(raw.name))
    own = imported(raw.name)
    return own, own


def finished(
    cls: type[Protocol], own: type[Protocol] | None, raw: RawLayer, problems: Problems,
) -> LayerSpec | None:
    """A layer whose configuration object was given in Python; None if it is of the wrong class."""
    if isinstance(raw.config, cls.Config):
        return LayerSpec(cls.name, raw.config, raw.place, own)
    problems.add(raw.place, f"{raw.name}: a {type(raw.config).__name__} is not its configuration; it takes a "
                            f"{cls.Config.__name__}")
    return None


def collect(raw: RawLayer, table: PropertyTable, fill: Substitution, problems: Problems) -> dict[str, Any]:
    """Field of the configuration -> text, for all properties of `raw` that are known and have a valid value."""
    values: dict[str, Any] = {}
    for written in raw.properties:
        item = table.by_name.get(written.name)
        if item is None:
            not_a_property(raw, written, table, problems)
            continue
        if item.field in values:
            problems.add(written.place, f"{raw.name}: {item.name!r} is given twice")
            continue
        value = converted(raw, written, item, fill, problems)
        if value is not None:
            values[item.field] = value
    return values


def not_a_property(raw: RawLayer, written: RawProperty, table: PropertyTable, problems: Problems) -> None:
    """Report a name that is no property: a warning if JGroups has it and it means nothing here, else an error."""
    why = table.ignored.get(written.name)
    if why is not None:
        problems.warn(written.place, f"{raw.name}: {written.name} has no meaning here and is ignored: {why}")
        return
    hint = did_you_mean(written.name, table.by_name)
    allowed = ", ".join(table.names()) or "none"
    problems.add(written.place, f"{raw.name}: unknown property {shown(written.name)}{hint} (allowed: {allowed})")


def converted(
    raw: RawLayer, written: RawProperty, item: Property, fill: Substitution, problems: Problems,
) -> str | None:
    """The text of a property with its placeholders filled; None if it has no value, or one that its converter refuses.
    """
    try:
        value = fill.fill(text_of(written.value))
        if value is not None:
            item.convert(value)
            return value
        problems.warn(written.place, f"{raw.name}: {written.value} has no value, so {item.name} keeps its default")
    except ConfigError as error:
        problems.add(written.place, f"{raw.name}: {item.name}: {error}")
    return None


def unknown_protocol(name: str) -> str:
    """The error for a protocol that is not known."""
    short = name.rpartition(".")[2]
    if short in INSTEAD:
        return f"{name} is a protocol of JGroups that is not offered here; {INSTEAD[short]}"
    if short in NOT_OFFERED:
        return f"{name} is a protocol of JGroups that is not offered here; remove it or use another stack"
    hint = did_you_mean(name, [*KNOWN, *ALIASES, *MEANINGLESS])
    return (f"unknown protocol {shown(name)}{hint} (allowed: {', '.join(KNOWN)}, or package.module.Class of a protocol "
            "of your own)")
