"""`jgroups archive`: its options and its output."""
from __future__ import annotations

import json
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from jgroups_py.cli.archive.key_file import add_key_file
from jgroups_py.cli.archive.times import moment, show_time
from jgroups_py.cli.showing import complain, show
from jgroups_py.cli.stack_file import add_property_argument
from jgroups_py.model.errors import ChannelError, ConfigError

if TYPE_CHECKING:
    from jgroups_py.archive.layout import RecorderId
    from jgroups_py.archive.verifying import Report, Summary

VERBS = {
    "ls": "list the recorders of an archive",
    "verify": "read all files and check checksums, row numbers and gaps; exit 1 if anything is damaged or missing",
    "cat": "print rows, oldest first",
    "audit": "judge what was sent and delivered, without Spark: lost, duplicated, out of order; exit 1 if there are "
             "faults, 3 if records are missing",
    "report": "run the pipeline's jobs without Spark, and write tables and one page",
    "encrypt": "encrypt what is in clear, and what is encrypted with another key than the active one",
    "replay": "multicast the recorded multicasts into a group",
}
PLACES = ("cluster", "site", "member", "incarnation")


def add_parser(subparsers: Any) -> None:
    """Add `archive` to the command line."""
    parser: ArgumentParser = subparsers.add_parser(
        "archive", help="list, check, show and replay what members recorded",
        description="What members recorded with ARCHIVE in their stacks. Needs jgroups_py[archive].")
    verbs = parser.add_subparsers(metavar="WHAT", required=True, dest="verb")
    for verb, text in VERBS.items():
        _arguments(verbs.add_parser(verb, help=text, description=text[0].upper() + text[1:] + "."), verb)
    parser.set_defaults(run=run)


def _arguments(parser: ArgumentParser, verb: str) -> None:
    parser.add_argument("directory", type=Path, metavar="DIR", help="folder of the archive")
    add_key_file(parser)
    if verb in ("audit", "report"):
        from jgroups_py.cli.archive.report import add_arguments
        add_arguments(parser, verb)
        return
    parser.add_argument("--only", metavar="WHAT=VALUE", action="append", default=[], type=place,
                        help=f"only recorders with this {', '.join(PLACES[:-1])} or {PLACES[-1]}; may be given again")
    parser.add_argument("--json", action="store_true", help="print one JSON object a line" if verb == "cat" else
                        "print one JSON document")
    if verb in ("cat", "replay"):
        parser.add_argument("--from", dest="begin_ns", type=moment, default=0, metavar="T",
                            help="only rows from this time on: 2026-11-21T20:15:00 (UTC), or seconds since 1970")
        parser.add_argument("--to", dest="end_ns", type=moment, default=None, metavar="T",
                            help="only rows before this time")
    if verb == "verify":
        parser.add_argument("--complete", action="store_true", help="gaps that the recorder declared are errors too")
        parser.add_argument("--seal", action="store_true", help="first seal the segments that crashed recorders left "
                            "open, without their torn tails")
    if verb == "cat":
        parser.add_argument("--kind", action="append", default=[], help="only rows of this kind; may be given again")
        parser.add_argument("--limit", type=int, default=None, metavar="N", help="at most N rows")
    if verb == "replay":
        _replay_arguments(parser)


def _replay_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--cluster", required=True, metavar="C", help="the group to multicast into")
    parser.add_argument("--stack", required=True, metavar="S", help="a stack file, or a packaged stack's name")
    parser.add_argument("--name", default="replay", help="logical name of the member that sends (%(default)s)")
    parser.add_argument("--speed", type=speed, default=1.0, metavar="X", help='"1x": as recorded; "10x": ten times as '
                        'fast; "max": without waiting (default: 1x)')
    add_property_argument(parser)


def place(text: str) -> tuple[str, str]:
    """The two sides of WHAT=VALUE."""
    what, equals, value = text.partition("=")
    if what not in PLACES or not equals:
        raise ArgumentTypeError(f"{text!r} is not WHAT=VALUE; WHAT is one of {', '.join(PLACES)}")
    return what, value


def speed(text: str) -> float:
    """How many times as fast as recorded; 0: without waiting.

    >>> speed("1x"), speed("2.5x"), speed("max")
    (1.0, 2.5, 0.0)
    """
    if text == "max":
        return 0.0
    try:
        found = float(text.removesuffix("x"))
    except ValueError:
        found = 0.0
    if found <= 0:
        raise ArgumentTypeError(f'{text!r} is not a speed; write "1x", "2.5x" or "max"')
    return found


def run(args: Namespace) -> int:
    """Run the verb. Returns 0: done, 1: the archive is damaged, has faults, or a replay failed, 2: usage error, 3: an
    audit without a fault, but records are missing."""
    try:
        return _run(args)
    except (ConfigError, ChannelError) as error:
        complain(error)
        return 2 if isinstance(error, ConfigError) else 1


def _run(args: Namespace) -> int:
    if args.verb in ("audit", "report"):
        from jgroups_py.cli.archive.report import report
        return report(args)
    from jgroups_py.archive.encryption import keys_of
    from jgroups_py.archive.layout import recorders
    found = [recorder for recorder in recorders(args.directory)
             if all(getattr(recorder, what) == value for what, value in args.only)]
    if not found:
        raise ConfigError(f"{args.directory} contains no archive" + (" of these recorders" if args.only else ""))
    args.keys = keys_of(args.key_file)
    if args.verb == "encrypt":
        from jgroups_py.cli.archive.encrypt import encrypt
        return encrypt(args, found)
    if args.verb == "ls":
        return show_list(args, found)
    if args.verb == "verify":
        return show_checks(args, found)
    if args.verb == "cat":
        from jgroups_py.cli.archive.cat import show_rows
        return show_rows(args, found)
    from jgroups_py.cli.archive.replay import replay
    return replay(args, found)


# --- ls and verify --------------------------------------------------------------------------------------------------

def show_list(args: Namespace, recorders: list[RecorderId]) -> int:
    """Print a line per recorder."""
    from jgroups_py.archive.verifying import summary
    found = [summary(args.directory, recorder, args.keys) for recorder in recorders]
    if args.json:
        print(json.dumps([attrs.asdict(each) for each in found], indent=2))
    else:
        show(f"{'recorder':40} {'state':10} {'rows':>12} {'segments':>9} {'bytes':>14}  from, to (UTC)")
        for each in found:
            show(list_line(each))
    return 0


def list_line(found: Summary) -> str:
    """One recorder as a line of text."""
    sealed = f"{found.segments - found.open_segments}+{found.open_segments}"
    return (f"{name_of(found.recorder):40} {found.state:10} {found.stop - found.first:>12,} {sealed:>9} "
            f"{found.nbytes:>14,}  {show_time(found.began_ns)}, {show_time(found.ended_ns)}")


def show_checks(args: Namespace, recorders: list[RecorderId]) -> int:
    """Verify all recorders; 1 if anything is wrong."""
    from jgroups_py.archive.sealing import seal_abandoned
    from jgroups_py.archive.verifying import verify
    if args.seal:
        seal_abandoned(args.directory, recorders, keys=args.keys)
    found = [verify(args.directory, recorder, args.keys) for recorder in recorders]
    good = all(report.whole and not (args.complete and report.gaps) for report in found)
    if args.json:
        print(json.dumps({"whole": good, "recorders": [{**attrs.asdict(report), "whole": report.whole}
                                                       for report in found]}, indent=2))
    else:
        for report in found:
            show(*check_lines(report))
        show(f"{args.directory}: {'whole' if good else 'NOT whole'}: {len(found)} recorders, "
              f"{sum(report.rows for report in found):,} rows, "
              f"{sum(report.gaps for report in found):,} messages dropped by recorders")
    return 0 if good else 1


def check_lines(report: Report) -> list[str]:
    """The result of one recorder as lines of text."""
    word = "whole" if report.whole else "DAMAGED"
    notes = [f"{number:,} {kind}" for kind, number in report.messages.items()]
    if report.gaps:
        notes.append(f"{report.gaps:,} messages dropped by the recorder")
    if report.cut_bytes:
        notes.append(f"{report.cut_bytes:,} bytes of unfinished rows, after a crash")
    lines = [f"{name_of(report.recorder):40} {word}: {report.rows:,} rows, {', '.join(notes)}"]
    lines += [f"    {problem}" for problem in report.problems]
    return lines + [f"    rows {first} to {stop} are missing" for first, stop in report.missing]


def name_of(recorder: RecorderId) -> str:
    """A recorder as "cluster: member@site incarnation"; of the incarnation the first 8 digits."""
    where = f"@{recorder.site}" if recorder.site else ""
    return f"{recorder.cluster}: {recorder.member}{where} {recorder.incarnation[:8]}"
