"""Known weaknesses of the packages of .ci/requirements.txt, by pip-audit: `tox -e audit`.

Where no service can be reached pip-audit finds no weakness in anything, or names a package that "could not be audited".
So each service is asked first about a package whose weaknesses have been known for years. The list is put to the
first service that names them; if none does, nothing was audited, and that is what is printed.
Exit codes: 0 no weakness is known, 1 some are, or a package could not be asked about, 2 nothing was audited.
"""
from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

REQUIREMENTS: Final = Path(__file__).parents[2] / ".ci" / "requirements.txt"
WEAK: Final = "urllib3==1.24.1"          # CVE-2019-11324, CVE-2019-11236 and later ones
SERVICES: Final = ("pypi", "osv")
SECONDS: Final = 300.0

Run = Callable[[Sequence[str]], "subprocess.CompletedProcess[str]"]


def pip_audit(words: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Run pip-audit with these arguments."""
    return subprocess.run([sys.executable, "-m", "pip_audit", "--disable-pip", "--progress-spinner", "off", *words],
                          capture_output=True, text=True, check=False, timeout=SECONDS)


def unusable(run: Run, service: str) -> str:
    """Why a service is of no use here; "": it names weaknesses of WEAK."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "weak.txt"
        path.write_text(WEAK + "\n")
        done = run(["--vulnerability-service", service, "--no-deps", "--format", "json", "--requirement", str(path)])
    try:
        (found,) = json.loads(done.stdout)["dependencies"]
    except (ValueError, KeyError, TypeError):
        last = done.stderr.strip().splitlines()[-1:]
        return last[0] if last else f"it ended with {done.returncode}, and printed no answer"
    if found.get("vulns"):
        return ""
    return str(found.get("skip_reason") or f"it knows no weakness of {WEAK}")


def audit(run: Run, requirements: Path, show: Callable[[str], object]) -> int:
    """Ask about all packages of the list. Returns the exit code of the module."""
    reasons = {}
    for service in SERVICES:
        reasons[service] = unusable(run, service)
        if not reasons[service]:
            done = run(["--vulnerability-service", service, "--strict", "--require-hashes", "--requirement",
                        str(requirements)])
            show(f"asked {service}:\n{done.stdout}{done.stderr}")
            return 1 if done.returncode else 0
    show(f"NOTHING WAS AUDITED: no database of known weaknesses can be reached from here. What they say of {WEAK}, "
         "which has some:")
    for service, reason in reasons.items():
        show(f"  {service}: {reason}")
    return 2


if __name__ == "__main__":
    sys.exit(audit(pip_audit, REQUIREMENTS, print))
