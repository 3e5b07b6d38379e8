"""How many bytes an object keeps alive, by walking everything that it refers to.

For bounds on memory: what a node remembers of frames, members, connections and large messages is in containers of its
layers, whichever they are, so nothing that a layer forgets to report is missed. Classes, modules and functions belong
to the program and are left out, as are objects in `shared`, with all that only they refer to.
"""
from __future__ import annotations

import gc
import sys
from collections.abc import Iterable
from types import BuiltinFunctionType, CodeType, FrameType, FunctionType, ModuleType

PROGRAM = (type, ModuleType, FunctionType, BuiltinFunctionType, CodeType, FrameType)


def weigh(root: object, shared: Iterable[object] = ()) -> int:
    """The bytes of `root` and of all that it refers to, each object counted once."""
    seen = {id(one) for one in shared}
    total, waiting = 0, [root]
    while waiting:
        found: list[object] = []
        for one in waiting:
            if id(one) not in seen and not isinstance(one, PROGRAM):
                seen.add(id(one))
                total += sys.getsizeof(one)
                found.append(one)
        waiting = gc.get_referents(*found)
    return total
