"""Stacks for simulated members, made from protocol names and settings."""
from __future__ import annotations

from typing import Any

from jgroups_py.config.spec import LayerSpec, StackSpec
from jgroups_py.protocols import ALIASES, KNOWN

Layer = str | tuple[str, dict[str, Any]]


def make_stack(*layers: Layer) -> StackSpec:
    """A stack, lowest first, of names or (name, {configuration field: value}).

    >>> make_stack(("UDP", {"ip_ttl": 0})).config_of("UDP").ip_ttl
    0
    """
    made = []
    for layer in layers:
        name, settings = (layer, {}) if isinstance(layer, str) else layer
        name = ALIASES.get(name, name)
        made.append(LayerSpec(name, KNOWN[name].load().Config(**settings)))
    return StackSpec(tuple(made), "simulator")
