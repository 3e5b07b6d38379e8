"""`jgroups lint STACK`: checks a stack file. Prints every error with its line, and what is allowed instead.

Loads the stack as a channel does, with RELAY's bridge. Warns of a stack, or a bridge, that leaves this host without
ENCRYPT: every process that reaches its ports can read, forge and replay; and of a bridge with ENCRYPT without AUTH.
Exit 0: no errors (there may be warnings), 1: errors.
"""
from __future__ import annotations

import json
import os
from argparse import Namespace
from collections.abc import Mapping
from typing import Any

from jgroups_py.cli.environment import properties_of
from jgroups_py.cli.showing import show
from jgroups_py.cli.stack_file import add_stack_arguments
from jgroups_py.config.load import bridge_loader, load
from jgroups_py.config.problems import StackError
from jgroups_py.config.spec import StackSpec
from jgroups_py.model.errors import ConfigError


def add_parser(subparsers: Any) -> None:
    """Add `lint` to the command line."""
    parser = subparsers.add_parser("lint", help="check a stack file", description=__doc__.split("\n\n")[0])
    add_stack_arguments(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.set_defaults(run=run)


def run(args: Namespace) -> int:
    """Check and report. Returns 0: no errors, 1: errors."""
    report = check(args.stack, properties_of(os.environ, dict(args.properties)))
    if args.json:
        print(json.dumps(report, indent=2))
    else:
        show(*as_lines(report))
    return 0 if report["ok"] else 1


def check(stack: str, properties: Mapping[str, object]) -> dict[str, Any]:
    """The errors and warnings of a stack."""
    report: dict[str, Any] = {"stack": stack, "ok": True, "errors": [], "warnings": [], "layers": []}
    try:
        spec = load(stack, properties)
    except StackError as error:
        report["errors"] = [{"file": problem.place.file, "line": problem.place.line, "text": problem.text}
                            for problem in error.problems]
    except ConfigError as error:
        report["errors"] = [{"file": stack, "line": 0, "text": str(error)}]
    else:
        report["warnings"] = [*spec.warnings, *unsealed(spec, properties)]
        report["layers"] = [layer.name for layer in spec.layers]
    report["ok"] = not report["errors"]
    return report


def unsealed(spec: StackSpec, properties: Mapping[str, object]) -> list[str]:
    """Warnings of stacks whose frames leave this host, or the site, in clear."""
    relay = spec.config_of("RELAY")
    bridge = bridge_loader(spec)(relay.bridge_props) if relay is not None else None
    found = [clear_text(spec, "this stack")] if leaves_host(spec) else []
    if bridge is not None:
        if leaves_host(bridge):
            found.append(clear_text(bridge, f"the bridge {relay.bridge_props}")
                         or unproven_text(bridge, relay.bridge_props))
        elif sealed(spec) and not sealed(bridge):
            found.append(f"W-SEC2: this stack has ENCRYPT and the bridge {relay.bridge_props} has none: what the site "
                         "seals crosses to other sites in clear")
    return [text for text in found if text]


def sealed(spec: StackSpec) -> bool:
    """Whether frames of the stack are sealed; MEMBERLIST and SERF have keys of their own."""
    return spec.config_of("ENCRYPT") is not None or bool(getattr(spec.layers[0].config, "encrypt", ""))


def clear_text(spec: StackSpec, what: str) -> str:
    """The warning of a stack that leaves this host; "" if it is sealed."""
    if sealed(spec):
        return ""
    code = "W-SEC1" if what == "this stack" else "W-SEC2"
    return (f"{code}: {what} leaves this host (bind_addr {spec.layers[0].config.bind_addr}) without ENCRYPT: whoever "
            "reaches its ports can read, forge and replay (docs/how-to/encrypt.md)")


def unproven_text(bridge: StackSpec, props: str) -> str:
    """The warning of a sealed bridge without AUTH; "": it has it."""
    if bridge.config_of("AUTH") is not None:
        return ""
    return (f"W-SEC3: the bridge {props} has ENCRYPT and no AUTH: a relay of one site that holds the bridge's keys can "
            "introduce itself as another site (docs/how-to/encrypt.md)")


def leaves_host(spec: StackSpec) -> bool:
    """Whether frames of a stack can leave this host."""
    address = str(getattr(spec.layers[0].config, "bind_addr", "")).lower()
    return address not in ("loopback", "localhost", "::1") and not address.startswith("127.")


def as_lines(report: dict[str, Any]) -> list[str]:
    """The report as lines of text."""
    lines = [f"{error['file']}{':' + str(error['line']) if error['line'] else ''}: error: {error['text']}"
             for error in report["errors"]]
    lines += [f"{warning} (warning)" for warning in report["warnings"]]
    errors, warnings = len(report["errors"]), len(report["warnings"])
    verdict = f"{len(report['layers'])} layers" if report["ok"] else f"{errors} error{'s' if errors != 1 else ''}"
    return [*lines, f"{report['stack']}: {'right' if report['ok'] else 'wrong'}: {verdict}, "
                    f"{warnings} warning{'s' if warnings != 1 else ''}"]
