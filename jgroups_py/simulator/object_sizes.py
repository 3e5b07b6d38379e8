"""How many bytes an object keeps alive, by walking everything that it refers to.

For bounds on memory: whatever a node keeps of frames, members, connections and large messages is reachable from its
layers, so nothing is missed that a layer fails to report. Classes, modules and functions belong to the program and do
not count, nor do objects in `shared` and all that only they refer to.
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
