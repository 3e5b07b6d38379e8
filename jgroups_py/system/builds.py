"""Which modules can be compiled, and whether this process uses them so.

They hold mechanics only (batches, frames, routes, windows) in plain Python, which mypyc compiles:
`JGROUPS_COMPILE=1 pip install .` does. Their source stays beside them; `JGROUPS_PURE=1` makes Python load that.
setup.py reads MODULES without the package, so this module imports the standard library only.
"""
from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import EXTENSION_SUFFIXES, SOURCE_SUFFIXES, FileFinder, ModuleSpec, SourceFileLoader
from pathlib import Path
from types import ModuleType

MODULES = (
    "jgroups_py.model.batch", "jgroups_py.wire.frame", "jgroups_py.stack.fifo",
    "jgroups_py.stack.routes", "jgroups_py.windows.numbered_batches", "jgroups_py.windows.ranges",
    "jgroups_py.windows.receive",
)
PURE = "JGROUPS_PURE"


class SourceFinder(MetaPathFinder):
    """Finds the source of MODULES, where Python would prefer an extension module beside it."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        if fullname not in MODULES:
            return None
        specs = (FileFinder(folder, (SourceFileLoader, SOURCE_SUFFIXES)).find_spec(fullname) for folder in path or ())
        return next(filter(None, specs), None)


def choose(package: Path) -> bool:
    """Make ready what is loaded of MODULES from now on; returns whether that is compiled code.

    Raises:
        ImportError: JGROUPS_PURE is neither 0 nor 1.
    """
    asked = os.environ.get(PURE, "") or "0"
    if asked not in ("0", "1"):
        raise ImportError(f"{PURE} is {asked!r}; 1 chooses the source of what is compiled, 0 the compiled modules")
    if asked == "1":
        sys.meta_path.insert(0, SourceFinder())
        return False
    base = package.joinpath(*MODULES[0].split(".")[1:])
    return any(Path(f"{base}{suffix}").exists() for suffix in EXTENSION_SUFFIXES)
