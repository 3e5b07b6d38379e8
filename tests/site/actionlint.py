"""actionlint judges workflows of a forge: `python -m tests.site.actionlint` builds it, from Go's module proxy."""
from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path

from tests.programs import go_install, tell_where

VERSION = "v1.7.7"
MODULE = f"github.com/rhysd/actionlint/cmd/actionlint@{VERSION}"


def ensure() -> Path:
    """The program, in the virtual environment; it is built if it is not there.

    Raises:
        RuntimeError: it cannot be built.
    """
    path = Path(sys.prefix) / "bin" / f"actionlint-{VERSION}"
    if not path.exists():
        with tempfile.TemporaryDirectory(prefix="actionlint-") as folder:
            go_install(MODULE, Path(folder))
            shutil.copy(Path(folder) / "actionlint", path.with_suffix(".new"))
            os.replace(path.with_suffix(".new"), path)
    return path


if __name__ == "__main__":
    sys.exit(tell_where(ensure))
