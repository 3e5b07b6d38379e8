"""Names of hosts to resolve."""
from __future__ import annotations

import attrs

from jgroups_py.model.name_resolution import Chain
from jgroups_py.model.outputs.base import Output


@attrs.frozen(eq=False)
class Resolve(Output):
    """Resolve a name by `chain`, on another thread than the node's; NameResolved follows up the stack of `net`."""

    net: int
    name: str
    port: int
    chain: Chain
    parameter: str
    again: bool
