"""StackSpec: what a stack file says, checked, independent of the format it was written in."""
from __future__ import annotations

from typing import Any

import attrs

from jgroups_py.protocol import Protocol
from jgroups_py.protocols import KNOWN


@attrs.frozen
class LayerSpec:
    """One protocol of a stack: its canonical XML name, its configuration, the line it stood on (0: none)."""

    name: str
    config: Any
    line: int = 0

    def build(self) -> Protocol:
        """A new layer with this configuration."""
        return KNOWN[self.name].load()(self.config)


@attrs.frozen
class StackSpec:
    """The protocols of a stack, lowest first. source: the file, or what else it came from."""

    layers: tuple[LayerSpec, ...]
    source: str = "python"

    def build(self) -> list[Protocol]:
        """New layers, lowest first; every stack needs its own."""
        return [layer.build() for layer in self.layers]

    def config_of(self, name: str) -> Any:
        """The configuration of the first layer called `name`, None if it is not in the stack."""
        return next((layer.config for layer in self.layers if layer.name == name), None)
