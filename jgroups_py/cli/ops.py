"""`jgroups ops files DIR`: alert rules for Prometheus, a scrape configuration to begin with, a Grafana dashboard, and
a unit of systemd for members."""
from __future__ import annotations

import json
from argparse import Namespace
from importlib.resources import files
from pathlib import Path
from typing import Any

from jgroups_py.cli.showing import complain
from jgroups_py.ops.dashboard import dashboard

RULES = "jgroups.rules.yml"
UNIT = "jgroups-member@.service"
SCRAPE = """\
# Members started with `jgroups member --http ADDRESS:PORT`, each a target.
global:
  scrape_interval: 15s
rule_files: [jgroups.rules.yml]
scrape_configs:
  - job_name: jgroups                       # the alert rules ask for this name
    static_configs:
      - targets: ["127.0.0.1:7580"]
    # authorization: {credentials_file: token}          # with --http-token-file
"""


def add_parser(subparsers: Any) -> None:
    """Add `ops` to the command line."""
    parser = subparsers.add_parser("ops", help="files for operators", description=__doc__)
    commands = parser.add_subparsers(metavar="WHAT", required=True)
    write = commands.add_parser("files", help="write the files to a folder", description=__doc__)
    write.add_argument("folder", metavar="DIR", type=Path, help="made if it is missing; its files of these names are "
                       "replaced")
    write.set_defaults(run=run)


def run(args: Namespace) -> int:
    """Write the files; 2 if that is not possible."""
    contents = {
        RULES: packaged(RULES),
        "prometheus.yml": SCRAPE,
        "jgroups.dashboard.json": json.dumps(dashboard(), indent=1) + "\n",
        UNIT: packaged(UNIT),
    }
    try:
        args.folder.mkdir(parents=True, exist_ok=True)
        for name, text in contents.items():
            (args.folder / name).write_text(text, encoding="utf-8")
            print(args.folder / name)
    except OSError as error:
        complain(f"jgroups ops files: {args.folder}: {error.strerror or error}")
        return 2
    return 0


def packaged(name: str) -> str:
    """The text of a file that is part of the package."""
    return files("jgroups_py.ops").joinpath("files", name).read_text(encoding="utf-8")
