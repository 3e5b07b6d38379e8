"""`jgroups counters [PROTOCOL]`: every counter with its meaning, from the classes that count."""
from __future__ import annotations

import json
import shutil
from argparse import Namespace
from typing import Any

from jgroups_py.cli import showing
from jgroups_py.cli.counter_docs import OTHERS, Section, as_page, as_text, in_order, section_names, section_of
from jgroups_py.cli.showing import complain, reasons
from jgroups_py.config.docs import known_names, summary_of
from jgroups_py.config.own import imported
from jgroups_py.config.problems import did_you_mean
from jgroups_py.config.properties import canonical
from jgroups_py.model.errors import ConfigError
from jgroups_py.protocols import KNOWN, MEANINGLESS

USAGE_ERROR = 2
MIN_WIDTH, MAX_WIDTH = 60, 120


def add_parser(subparsers: Any) -> None:
    """Add `counters` to the command line."""
    parser = subparsers.add_parser("counters", help="list what protocols count", description=__doc__)
    parser.add_argument("protocol", metavar="PROTOCOL", nargs="?", help="one protocol, by any name that JGroups files "
                        f"use, or package.module.Class; or one of {', '.join(OTHERS)}; default: all")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print one JSON document")
    form.add_argument("--markdown", action="store_true", help="print a page, docs/reference/counters.md")
    parser.set_defaults(run=run)


def run(args: Namespace) -> int:
    """Print the tables; 2 if there is no such protocol."""
    try:
        sections = wanted(args.protocol)
    except ConfigError as error:
        complain(*reasons(error, "jgroups counters: "))
        return USAGE_ERROR
    if args.json:
        print(json.dumps([section.as_json() for section in sections], indent=2))
    elif args.markdown:
        print(as_page(sections), end="")
    else:
        width = max(MIN_WIDTH, min(MAX_WIDTH, shutil.get_terminal_size().columns))
        showing.show(*"\n\n".join(as_text(section, width) for section in sections).split("\n"))
    return 0


def wanted(name: str | None) -> list[Section]:
    """The sections of a name, None: all.

    Raises:
        ConfigError: nothing has this name.
    """
    if name is None:
        return [section_of(one) for one in section_names()]
    if name in OTHERS:
        return [section_of(name)]
    known = canonical(name) or canonical(name.upper())
    if known in KNOWN and known not in MEANINGLESS:
        return [section_of(known)]
    if "." in name:
        protocol = imported(name)
        return [Section(protocol.name or protocol.__name__, summary_of(protocol), in_order([protocol]))]
    raise ConfigError(f"no protocol {name!r}{did_you_mean(name, [*known_names(), *OTHERS])} "
                      f"(known: {', '.join(section_names())})")
