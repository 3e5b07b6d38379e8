"""Names of hosts to resolve."""
from __future__ import annotations

import attrs

from jgroups_py.model.name_resolution import Chain
from jgroups_py.model.outputs.base import Output


@attrs.frozen(eq=False)
class Resolve(Output):
    """Resolve a name by `chain`, on another thread than the node's; NameResolved follows up the stack of `net`.

    version: the IP version to look for first, 4 or 6; addresses of the other one are found if it has none.
    """

    net: int
    name: str
    port: int
    chain: Chain
    parameter: str
    again: bool
    version: int = 4
