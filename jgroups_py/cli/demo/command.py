"""`jgroups demo`: its options and its output."""
from __future__ import annotations

import json
import tempfile
import threading
from argparse import Namespace
from contextlib import suppress
from pathlib import Path
from typing import Any

import attrs

from jgroups_py.cli.argument_types import within
from jgroups_py.cli.demo import auditing
from jgroups_py.cli.demo.director import DemoError, DemoPlan, Director
from jgroups_py.cli.demo.options import DESCRIPTION, add_options
from jgroups_py.cli.demo.picture import Plain, picture
from jgroups_py.cli.demo.recording import archive_of, sealed
from jgroups_py.cli.demo.report import as_lines, verdict
from jgroups_py.cli.demo.securing import make_keys
from jgroups_py.cli.demo.text import LINES, made_text
from jgroups_py.cli.showing import complain, show
from jgroups_py.model.errors import ConfigError

RATE = 1000
SECONDS = 120                                # of text, with --web


def add_parser(subparsers: Any) -> None:
    """Add `demo` to the command line."""
    parser = subparsers.add_parser("demo", help="two sites replicate while their relays are killed",
                                   description=DESCRIPTION)
    add_options(parser, within)
    parser.set_defaults(run=run)


def run(args: Namespace) -> int:
    """Run the demo. Returns 0: all replicated, 1: not all, 2: usage error, 3: no fault, but a record is missing."""
    if args.secure and (args.mqtt or args.web is not None):
        complain(f"jgroups demo: --secure is not for --{'mqtt' if args.mqtt else 'web'}")
        return 2
    if args.mqtt:
        from jgroups_py.cli.demo import mqtt  # needs the extra [mqtt]
        return mqtt.run(args)
    try:
        plan = plan_of(args)
    except (OSError, ConfigError) as error:
        complain(f"jgroups demo: {error}")
        return 2
    try:
        result = on_the_page(args, plan) if args.web is not None else performed(args, plan)
    except ConfigError as error:
        complain(f"jgroups demo: {error}")
        return 2
    except DemoError as error:
        complain(f"jgroups demo: {error}")
        return 1
    except KeyboardInterrupt:
        complain("jgroups demo: interrupted; all members were ended")
        return 130
    ok = result["ok"] and (result["audit"] is None or result["audit"]["ok"])
    if args.json:
        print(json.dumps({**result, "ok": ok}, indent=2))
    return auditing.exit_code(result["audit"]) if result["ok"] and result["audit"] else int(not ok)


def performed(args: Namespace, plan: DemoPlan) -> dict[str, Any]:
    """Run the programme, shown on the terminal; returns the result.

    Raises:
        DemoError: it could not run to its end.
    """
    with Plain(lambda text: None) if args.json else picture() as view:
        director = Director(plan, view)
        director.perform()
    return finished(args, plan, verdict(director))


def on_the_page(args: Namespace, plan: DemoPlan) -> dict[str, Any]:
    """Run what is ordered on the live page; the page shows the result until a Ctrl-C.

    Raises:
        ConfigError: the page cannot be served. DemoError: the demo could not run to its end.
    """
    from jgroups_py.cli.demo.web.director import LiveDirector  # needs the extra [http]
    from jgroups_py.cli.demo.web.server import WebView
    with WebView(args.web) as view:
        show(f"open {view.url}")
        director = view.director = LiveDirector(plan, view)
        director.perform()
        result = verdict(director)
        view.show_result(result)
        finished(args, plan, result)
        show("the page stays until Ctrl-C")
        with suppress(KeyboardInterrupt):
            threading.Event().wait()
    return result


def finished(args: Namespace, plan: DemoPlan, result: dict[str, Any]) -> dict[str, Any]:
    """Seal the archive, audit it, and print all, unless --json prints the document; returns the result with both."""
    result["archive"] = None if plan.archive is None else sealed(plan.archive, plan.archive_keys)
    if plan.keys is not None:
        result["keys"] = str(plan.keys.folder)
    result["audit"] = audit(args, plan)
    if not args.json:
        show(*as_lines(result), *(auditing.as_lines(result["audit"]) if result["audit"] else []))
    return result


def audit(args: Namespace, plan: DemoPlan) -> dict[str, Any] | None:
    """The audit over the archive; None without an archive, or with --no-audit."""
    if plan.archive is None or args.no_audit:
        return None
    return auditing.audited(plan.archive, plan.out, lambda text: None if args.json else complain(text),
                            plan.archive_keys, spark=not args.no_spark)


def plan_of(args: Namespace) -> DemoPlan:
    """The plan that the arguments describe.

    Raises:
        OSError, ConfigError: the input cannot be read, the output not be written, or an argument is wrong.
    """
    if args.web is None and args.seconds is not None:
        raise ConfigError("--seconds needs --web")
    if args.web is not None and (args.no_kill or args.json or args.input):
        raise ConfigError("--web takes no --no-kill, --json or --input: what happens is ordered on the page")
    out = Path(args.out or tempfile.mkdtemp(prefix="jgroups-demo-"))
    out.mkdir(parents=True, exist_ok=True)
    rate = args.rate or RATE
    lines = LINES if args.web is None else rate * (args.seconds or SECONDS)
    data = Path(args.input).read_bytes() if args.input else made_text(args.seed, lines)
    if not data.strip():
        raise ConfigError(f"{args.input} is empty; it needs at least one line")
    plan = DemoPlan(data=data, out=out, rate=rate, members=args.members, sites=args.sites, seed=args.seed,
                    kill=not args.no_kill, archive=archive_of(args, out))
    if not args.secure:
        return plan
    return attrs.evolve(plan, keys=make_keys(Path(tempfile.mkdtemp(prefix="jgroups-demo-keys-")), plan.named()))
