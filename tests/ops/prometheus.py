"""Prometheus and promtool for tests: those of this machine, or those of Debian's package, unpacked, not installed.

    python -m tests.ops.prometheus          # gets them, prints where they are
"""
from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import urllib.parse
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from jgroups_py.system.free_ports import free_range
from tests.integration.serf_agent import run, until

TOOLS = ("prometheus", "promtool")
HOW_TO_GET_IT = ("prometheus and promtool are needed: apt-get install prometheus (it starts a service), or as root "
                 "`python -m tests.ops.prometheus`, which unpacks Debian's package")


def ensure(tool: str) -> Path:
    """Where a tool is; as root it is had if it is not there.

    Raises:
        RuntimeError: there is none; the text says how to get it.
    """
    kept = Path(sys.prefix) / "bin"
    found = shutil.which(tool) or (str(kept / tool) if (kept / tool).exists() else None)
    if found is not None:
        return Path(found)
    with tempfile.TemporaryDirectory(prefix="prometheus-") as name:
        folder = Path(name)
        folder.chmod(0o755)                                  # apt fetches as a user of its own
        try:
            if os.geteuid() == 0:
                run(["apt-get", "-qq", "update"], {})
            run(["sh", "-c", f"cd {folder} && apt-get -qq download prometheus"], {})
            (package,) = folder.glob("prometheus_*.deb")
            run(["dpkg-deb", "--extract", str(package), str(folder / "unpacked")], {})
        except (RuntimeError, ValueError) as error:
            raise RuntimeError(f"{error}\n{HOW_TO_GET_IT}") from None
        for each in TOOLS:
            shutil.copy(folder / "unpacked" / "usr" / "bin" / each, kept / f"{each}.new")
            os.replace(kept / f"{each}.new", kept / each)
    return kept / tool


class Prometheus:
    """A server on loopback that scrapes each second; `with` ends it."""

    def __init__(self, folder: Path, targets: dict[str, str]) -> None:
        """targets: a name -> host:port."""
        self.port = free_range()
        scrapes = "".join(f'      - {{targets: ["{place}"], labels: {{instance: "{name}"}}}}\n'
                          for name, place in targets.items())
        (folder / "prometheus.yml").write_text(
            "global: {scrape_interval: 1s, evaluation_interval: 1s}\nrule_files: [jgroups.rules.yml]\n"
            f"scrape_configs:\n  - job_name: jgroups\n    static_configs:\n{scrapes}")
        self._log = (folder / "prometheus.log").open("wb")
        self._process = subprocess.Popen(
            [str(ensure("prometheus")), f"--config.file={folder / 'prometheus.yml'}",
             f"--storage.tsdb.path={folder / 'data'}", f"--web.listen-address=127.0.0.1:{self.port}"],
            stdout=self._log, stderr=self._log)

    def __enter__(self) -> Self:
        until(lambda: self.value("count(up)") is not None, "Prometheus scrapes")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None,
    ) -> None:
        self._process.kill()
        self._process.wait()
        self._log.close()

    def ask(self, path: str, **query: str) -> Any:
        """The data of an answer of its API; None while it does not answer."""
        url = f"http://127.0.0.1:{self.port}/api/v1/{path}?{urllib.parse.urlencode(query)}"
        try:
            with urllib.request.urlopen(url, timeout=30) as answer:
                return json.load(answer)["data"]
        except OSError:
            return None

    def value(self, expression: str) -> float | None:
        """The value of an expression with one series; None: there is none."""
        found = self.ask("query", query=expression)
        return float(found["result"][0]["value"][1]) if found and found["result"] else None

    def firing(self) -> dict[str, dict[str, str]]:
        """The alerts that fire: name -> labels."""
        found = self.ask("alerts")["alerts"]
        return {each["labels"]["alertname"]: each["labels"] for each in found if each["state"] == "firing"}


if __name__ == "__main__":
    print(*map(ensure, TOOLS), sep="\n")  # noqa: T201
