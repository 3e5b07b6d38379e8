"""StackSpec: the contents of a stack file, checked, independent of the format it was written in."""
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
    """One protocol of a stack: its canonical XML name, its configuration, where it stood.

    own: its class, if that comes from outside this package.
    """

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

    source: the file, or what else it came from; warnings: what the reader of the file should know, for the log;
    folder: where the file stands (""; from Python), against which bridge_props is resolved; properties: what the
    file was filled with, so that the bridge's file is filled with the same; placeholders: the names of its `${...}`.
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
