"""The real kustomize: what it makes of a folder is what `kubectl apply -k` would send.

`python -m tests.deploy.kustomize` gets it, once, into the virtual environment, from Go's module proxy. A `kustomize` on
the PATH is taken as it is.
"""
from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

from tests.programs import go_install, tell_where

MODULE = "sigs.k8s.io/kustomize/kustomize/v5@v5.6.0"
HOW_TO_GET_IT = (f"kustomize is needed: go install {MODULE}, which wants Go 1.23 or newer and Go's module proxy within "
                 "reach; `python -m tests.deploy.kustomize` does it.")


def ensure_kustomize() -> Path:
    """Get the program if it is not there.

    Raises:
        RuntimeError: it cannot be had; the text says how to get it.
    """
    folder = Path(sys.prefix) / "bin"
    found = shutil.which("kustomize") or shutil.which("kustomize", path=str(folder))
    if found is not None:
        return Path(found)
    try:
        go_install(MODULE, folder)
    except RuntimeError as error:
        raise RuntimeError(f"{error}\n{HOW_TO_GET_IT}") from error
    return folder / "kustomize"


def rendered(folder: Path) -> dict[tuple[str, str], dict[str, Any]]:
    """(kind, name) -> the object, of all that a folder makes."""
    done = subprocess.run([ensure_kustomize(), "build", str(folder)], capture_output=True, text=True, check=False,
                          timeout=120)
    assert done.returncode == 0, done.stderr
    return {(each["kind"], each["metadata"]["name"]): each for each in yaml.safe_load_all(done.stdout)}


if __name__ == "__main__":
    sys.exit(tell_where(ensure_kustomize))
