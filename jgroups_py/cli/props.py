"""`jgroups props [PROTOCOL]`: every property with its default, unit and meaning, from the configuration classes."""
from __future__ import annotations

import json
import shutil
from argparse import Namespace
from typing import Any

from jgroups_py.cli import showing
from jgroups_py.cli.showing import complain, reasons
from jgroups_py.config.docs import ProtocolDoc, as_text, doc_of, known_names
from jgroups_py.config.own import imported
from jgroups_py.config.problems import did_you_mean
from jgroups_py.config.properties import canonical
from jgroups_py.model.errors import ConfigError
from jgroups_py.protocols import KNOWN, MEANINGLESS

USAGE_ERROR = 2
MIN_WIDTH, MAX_WIDTH = 60, 120


def add_parser(subparsers: Any) -> None:
    """Add `props` to the command line."""
    parser = subparsers.add_parser("props", help="list the properties of protocols", description=__doc__)
    parser.add_argument("protocol", metavar="PROTOCOL", nargs="?", help="one protocol, by any name that JGroups files "
                        "use, or package.module.Class; default: all")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.set_defaults(run=run)


def run(args: Namespace) -> int:
    """Print the tables; 2 if there is no such protocol."""
    names = list(KNOWN)
    if args.protocol is not None:
        name = canonical(args.protocol) or canonical(args.protocol.upper())
        if name is None and "." in args.protocol:
            return show_own(args)
        if name is None:
            complain(f"jgroups props: no protocol {args.protocol!r}{did_you_mean(args.protocol, known_names())} "
                     f"(known: {', '.join(KNOWN)})")
            return USAGE_ERROR
        if name in MEANINGLESS:
            print(f"{name} is accepted in stack files and left out: {MEANINGLESS[name]}")
            return 0
        names = [name]
    return show([doc_of(KNOWN[name].load()) for name in names], args)


def show_own(args: Namespace) -> int:
    """Print the table of a protocol from outside this package; returns the exit code."""
    try:
        return show([doc_of(imported(args.protocol))], args)
    except ConfigError as error:
        complain(*reasons(error, "jgroups props: "))
        return USAGE_ERROR


def show(docs: list[ProtocolDoc], args: Namespace) -> int:
    """Print the tables; returns the exit code."""
    if args.json:
        print(json.dumps([doc.as_json() for doc in docs], indent=2))
    else:
        width = max(MIN_WIDTH, min(MAX_WIDTH, shutil.get_terminal_size().columns))
        showing.show(*"\n\n".join(as_text(doc, width) for doc in docs).split("\n"))
    return 0
