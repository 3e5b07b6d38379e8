"""The real agent of Serf: had, started, asked and ended.

`python -m tests.integration.serf_agent` gets it, once, into the virtual environment: the program out of
Debian's package
`serf` (downloaded and unpacked, not installed: no service, no user), else built from Go's module proxy. A `serf` on the
PATH is taken as it is, and so is the one that JGROUPS_SERF names.
"""
from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import monotonic, sleep
from types import TracebackType
from typing import Self

from jgroups_py.system.child_processes import end_with_parent
from jgroups_py.system.free_ports import free_range
from tests.programs import go_install, run, tell_where

VARIABLE = "JGROUPS_SERF"
MODULE = "github.com/hashicorp/serf/cmd/serf@v0.10.2"
HOW_TO_GET_IT = (f"The serf agent is needed. On Debian and Ubuntu: apt-get install serf. Elsewhere: go install "
                 f"{MODULE}. `python -m tests.integration.serf_agent` tries both; "
                 f"{VARIABLE}=PATH names one that is there.")
ASK_SECONDS = 60.0
WAIT_SECONDS = 120.0
POLL_SECONDS = 0.05


def serf_path() -> Path | None:
    """Where the program is."""
    kept = Path(sys.prefix) / "bin" / "serf"
    found = os.environ.get(VARIABLE) or shutil.which("serf") or (str(kept) if kept.exists() else None)
    return None if found is None else Path(found)


def ensure_serf() -> Path:
    """Get the program if it is not there.

    Raises:
        RuntimeError: there is none; the text names the package to install.
    """
    found = serf_path()
    if found is not None:
        return found
    target, reasons = Path(sys.prefix) / "bin" / "serf", []
    for way in (from_debian, from_go):
        with tempfile.TemporaryDirectory(prefix="serf-") as folder:
            try:
                shutil.copy(way(Path(folder)), target.with_suffix(".new"))
            except (RuntimeError, OSError) as error:
                reasons.append(str(error))
            else:
                os.replace(target.with_suffix(".new"), target)
                return target
    raise RuntimeError("\n".join([*reasons, HOW_TO_GET_IT]))


def from_debian(folder: Path) -> Path:
    """The program out of the package; as root the list of packages is fetched if it must be."""
    folder.chmod(0o755)                                      # apt fetches as a user of its own
    here = ["sh", "-c", f"cd {folder} && apt-get -qq download serf"]
    try:
        run(here, {})
    except RuntimeError:
        if os.geteuid() != 0:
            raise
        run(["apt-get", "-qq", "update"], {})
        run(here, {})
    (package,) = folder.glob("serf_*.deb")
    run(["dpkg-deb", "--extract", str(package), str(folder / "unpacked")], {})
    return folder / "unpacked" / "usr" / "bin" / "serf"


def from_go(folder: Path) -> Path:
    """The program, built."""
    go_install(MODULE, folder)
    return folder / "serf"


def until(holds: Callable[[], object], what: str) -> None:
    """Wait until something holds that others bring about."""
    deadline = monotonic() + WAIT_SECONDS
    while not holds():
        assert monotonic() < deadline, f"waited {WAIT_SECONDS:g} s in vain: {what}"
        sleep(POLL_SECONDS)


class Agent:
    """An agent of our own on a loopback address, with Serf's settings for one host; `with` ends it."""

    def __init__(self, name: str, host: str, folder: Path, *options: str) -> None:
        self.name, self.place = name, (host, free_range(host=host))
        self.rpc = f"{host}:{free_range(host=host)}"
        self.log_path = folder / f"{name}.log"
        self.options = options

    def __enter__(self) -> Self:
        host, port = self.place
        with self.log_path.open("wb") as log:
            self.process = subprocess.Popen(
                [str(ensure_serf()), "agent", f"-node={self.name}", f"-bind={host}:{port}", f"-rpc-addr={self.rpc}",
                 "-profile=local", "-log-level=debug", *self.options],
                stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, preexec_fn=end_with_parent)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None,
    ) -> None:
        self.kill()

    def kill(self) -> None:
        """As kill -9."""
        self.process.kill()
        self.process.wait()

    def ask(self, command: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a command of `serf` against it."""
        return subprocess.run([str(ensure_serf()), command, f"-rpc-addr={self.rpc}", *arguments], text=True,
                              capture_output=True, timeout=ASK_SECONDS)

    def members(self) -> dict[str, tuple[str, dict[str, str]]]:
        """Name -> (status, tags), as `serf members` shows them; empty before the agent answers."""
        done = self.ask("members", "-format=json")
        if done.returncode:
            return {}
        return {member["name"]: (member["status"], member["tags"]) for member in json.loads(done.stdout)["members"]}

    def shows(self, name: str, status: str, tags: dict[str, str] | None = None) -> bool:
        """Whether it shows a member like that."""
        shown = self.members().get(name)
        return shown is not None and shown[0] == status and (tags is None or shown[1] == tags)

    @property
    def log(self) -> str:
        """What it has logged so far."""
        return self.log_path.read_text(errors="replace")


if __name__ == "__main__":
    sys.exit(tell_where(ensure_serf))
