"""`jgroups demo`: its options and its output."""
from __future__ import annotations

import json
import tempfile
from argparse import Namespace
from pathlib import Path
from typing import Any

import attrs

from jgroups_py.cli.argument_types import within
from jgroups_py.cli.demo import auditing
from jgroups_py.cli.demo.director import DemoError, DemoPlan, Director
from jgroups_py.cli.demo.picture import Plain, picture
from jgroups_py.cli.demo.recording import archive_of, sealed
from jgroups_py.cli.demo.report import as_lines, verdict
from jgroups_py.cli.demo.securing import make_keys
from jgroups_py.cli.demo.text import made_text
from jgroups_py.cli.showing import complain, show
from jgroups_py.model.errors import ConfigError

DESCRIPTION = (
    "Two sites replicate: A B C in NYC and D E F in SFO, UDP inside a site, TCP between the sites. C multicasts the "
    "lines of a file, the others send numbered messages, F answers some lines. Meanwhile the coordinators of both "
    "sites are killed, one member leaves, and the first one killed returns. At the end every copy is compared byte for "
    "byte, and every message is counted. Exit 1 if one was lost, duplicated or out of order, 3 if the audit finds no "
    "fault, but a record is missing.")


RATE = 1000


def add_parser(subparsers: Any) -> None:
    """Add `demo` to the command line."""
    parser = subparsers.add_parser("demo", help="two sites replicate while their relays are killed",
                                   description=DESCRIPTION)
    parser.add_argument("--input", metavar="FILE", help="the file that is replicated (default: a generated text)")
    parser.add_argument("--out", metavar="DIR", help="folder for the copies (default: a new temporary folder)")
    parser.add_argument("--rate", type=within(1, 100_000), help="lines a second (default 1000; "
                        "with --mqtt messages of each publisher, 2000 at most, default 200)")
    parser.add_argument("--mqtt", action="store_true", help="two sites of two MQTT brokers each, mosquitto's clients, "
                        "and kill -9 of both relays and of a broker; of the other options it has --rate, --out, --json")
    parser.add_argument("--members", type=within(1, 8), default=3, help="members a site (default 3)")
    parser.add_argument("--sites", type=within(2, 5), default=2, help="sites (default 2)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the generated text and of the times of the kills")
    parser.add_argument("--no-kill", action="store_true", help="no member is killed, none leaves")
    parser.add_argument("--archive", metavar="DIR", help="folder in which all members record what they send and "
                        "deliver (default: archive, beside the copies)")
    parser.add_argument("--no-archive", action="store_true", help="record nothing")
    parser.add_argument("--no-audit", action="store_true", help="no audit on Spark at the end")
    parser.add_argument("--secure", action="store_true", help="every frame sealed and every member known by its key, "
                        "inside the sites and between them, and the archive encrypted; keys are made in a new "
                        "temporary folder. Needs the extra [security]")
    parser.add_argument("--json", action="store_true", help="print one JSON document at the end, nothing else")
    parser.set_defaults(run=run)


def run(args: Namespace) -> int:
    """Run the demo. Returns 0: all replicated, 1: not all, 2: usage error, 3: no fault, but a record is missing."""
    if args.mqtt and args.secure:
        complain("jgroups demo: --secure is for the demo of sites, not for --mqtt")
        return 2
    if args.mqtt:
        from jgroups_py.cli.demo import mqtt  # needs the extra [mqtt]
        return mqtt.run(args)
    try:
        plan = plan_of(args)
    except (OSError, ConfigError) as error:
        complain(f"jgroups demo: {error}")
        return 2
    view = Plain(lambda text: None) if args.json else picture()
    try:
        with view:
            director = Director(plan, view)
            director.perform()
        result = verdict(director)
        result["archive"] = None if plan.archive is None else sealed(plan.archive, plan.archive_keys)
        if plan.keys is not None:
            result["keys"] = str(plan.keys.folder)
        result["audit"] = audit(args, plan)
    except DemoError as error:
        complain(f"jgroups demo: {error}")
        return 1
    except KeyboardInterrupt:
        complain("jgroups demo: interrupted; all members were ended")
        return 130
    ok = result["ok"] and (result["audit"] is None or result["audit"]["ok"])
    if args.json:
        print(json.dumps({**result, "ok": ok}, indent=2))
    else:
        show(*as_lines(result), *(auditing.as_lines(result["audit"]) if result["audit"] else []))
    return auditing.exit_code(result["audit"]) if result["ok"] and result["audit"] else int(not ok)


def audit(args: Namespace, plan: DemoPlan) -> dict[str, Any] | None:
    """The audit over the archive; None without an archive, or with --no-audit."""
    if plan.archive is None or args.no_audit:
        return None
    return auditing.audited(plan.archive, plan.out, lambda text: None if args.json else complain(text),
                            plan.archive_keys)


def plan_of(args: Namespace) -> DemoPlan:
    """The plan that the arguments describe.

    Raises:
        OSError, ConfigError: the input cannot be read, the output not be written, or an argument is wrong.
    """
    out = Path(args.out or tempfile.mkdtemp(prefix="jgroups-demo-"))
    out.mkdir(parents=True, exist_ok=True)
    data = Path(args.input).read_bytes() if args.input else made_text(args.seed)
    if not data.strip():
        raise ConfigError(f"{args.input} is empty; it needs at least one line")
    plan = DemoPlan(data=data, out=out, rate=args.rate or RATE, members=args.members, sites=args.sites, seed=args.seed,
                    kill=not args.no_kill, archive=archive_of(args, out))
    if not args.secure:
        return plan
    return attrs.evolve(plan, keys=make_keys(Path(tempfile.mkdtemp(prefix="jgroups-demo-keys-")), plan.named()))
