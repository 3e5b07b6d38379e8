"""Runs `jgroups bench` with several sets of options and prints one line each; the other modules here say which.

Each module beside this one measures one claim of docs/reference/measured.md: `python -m benchmarks.throughput`, and so
on. Options after the module's name go to every run: `--repeat 3`, `--seconds 1`, `--stack tcp`. With `--json` all
documents are printed.
"""
from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable, Sequence
from typing import Any


def bench(arguments: Sequence[str]) -> dict[str, Any]:
    """The document of one run; ends the program if the run failed."""
    done = subprocess.run([sys.executable, "-m", "jgroups_py", "bench", *arguments, "--json", "--quiet"],
                          stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        sys.exit(f"failed ({done.returncode}): jgroups bench {' '.join(arguments)}\n{done.stdout}")
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def measure(runs: Iterable[Sequence[str]], shown: Sequence[str]) -> list[dict[str, Any]]:
    """All runs, one after the other; prints the medians (and spreads) of `shown` as they come."""
    given = [word for word in sys.argv[1:] if word != "--json"]
    table = len(given) == len(sys.argv) - 1
    documents = []
    for run in runs:
        document = bench([*run, *given])
        documents.append(document)
        if table:
            cells = [f"{name} {document[name]['median']:,g} ({document[name]['min']:,g} to {document[name]['max']:,g})"
                     for name in shown if name in document]
            print(f"{' '.join(run):60} {', '.join(cells)}", flush=True)
    if not table:
        print(json.dumps(documents, indent=2))
    return documents
