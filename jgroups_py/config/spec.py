"""StackSpec: the checked contents of a stack file, independent of its format."""
from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from jgroups_py.config.problems import Place
from jgroups_py.protocols import KNOWN
from jgroups_py.stack.protocol import Protocol

PYTHON = Place("python")


@attrs.frozen
class LayerSpec:
    """One protocol of a stack. name: as in XML; own: its class, if that comes from outside this package, else None."""

    name: str
    config: Any
    place: Place = PYTHON
    own: type[Protocol] | None = None

    def build(self) -> Protocol:
        """A new layer with this configuration."""
        return self.protocol()(self.config)

    def protocol(self) -> type[Protocol]:
        """The class of the layer."""
        return KNOWN[self.name].load() if self.own is None else self.own


@attrs.frozen
class StackSpec:
    """The protocols of a stack, lowest first.

    source: the file, or "python"; warnings: for the log; folder: of the file ("": from Python), to which bridge_props
    is relative; properties: those that filled the file's placeholders, and will fill those of the bridge's file;
    placeholders: the names of its `${...}`.
    """

    layers: tuple[LayerSpec, ...]
    source: str = "python"
    warnings: tuple[str, ...] = ()
    folder: str = ""
    properties: Mapping[str, object] = attrs.field(factory=dict, eq=False, repr=False)
    placeholders: tuple[str, ...] = attrs.field(default=(), eq=False, repr=False)

    def build(self) -> list[Protocol]:
        """New layers, lowest first; every stack needs its own."""
        return [layer.build() for layer in self.layers]

    def config_of(self, name: str) -> Any:
        """The configuration of the first layer called `name`, None if it is not in the stack."""
        return next((layer.config for layer in self.layers if layer.name == name), None)
