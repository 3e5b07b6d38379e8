"""`jgroups keys rotate` and `status`: a group's key is changed in three phases without a pause.

Which phase is next follows from the file: a key behind the active one was added and is to be activated; one in front of
it was active and is to be retired; with neither, a key is added. Activate and retire ask the group first: a member that
has not read the file would open nothing any more.
"""
from __future__ import annotations

import json
import time
from argparse import Namespace
from typing import Any, Final

from jgroups_py.cli.control_client import CLAIM_FAILED, WHICH
from jgroups_py.cli.showing import complain, show
from jgroups_py.model.errors import ConfigError
from jgroups_py.model.text import escaped
from jgroups_py.ops.control import ANSWER_SLACK_SECONDS, RENEW_KEY, ask
from jgroups_py.ops.key_control import ANSWER_SECONDS
from jgroups_py.sealing.keyring import ACCEPTED, RETIRED, GroupKey, GroupKeyring
from jgroups_py.sealing.primitives import KEY_BYTES
from jgroups_py.system.secrets import SECRETS, read_keyring, write_keyring

ADD, ACTIVATE, RETIRE = PHASES = ("add", "activate", "retire")
ASK_AGAIN_SECONDS: Final = 0.2


def next_phase(keyring: GroupKeyring) -> tuple[str, GroupKey | None]:
    """The next phase, and the key that it is about; None: a new one."""
    live = [key for key in keyring.keys if key.state != RETIRED]
    at = live.index(keyring.active)
    newer, older = live[at + 1:], live[:at]
    if older:
        return RETIRE, older[0]
    return (ACTIVATE, newer[-1]) if newer and newer[-1].state == ACCEPTED else (ADD, None)


def rotate(args: Namespace) -> int:
    """Begin the next phase, or without a file order a new key of the view; 1 if some members are not ready for it."""
    if args.file is None:
        return renew_view_key(args)
    if args.bridge:
        raise ConfigError("--bridge is for the key of a view: give no file")
    keyring = read_keyring(args.file)[0]
    phase, key = next_phase(keyring)
    if args.phase not in (None, phase):
        raise ConfigError(f"{args.file}: the next phase is {phase}, not {args.phase}")
    if phase == ADD:
        changed = keyring.with_key(SECRETS.draw(KEY_BYTES))
        write_keyring(args.file, changed)
        return told(args, 1, f"key {changed.keys[-1].name} is accepted", ACTIVATE)
    assert key is not None, "it is one of the file"
    asked, column, words = (key, "not_held_by", "lack") if phase == ACTIVATE else (
        keyring.active, "not_active_at", "do not seal with")
    if not args.unchecked:
        if not args.control:
            raise ConfigError(f"to {phase} key {key.name} all members must be ready: {WHICH}; or take --unchecked")
        problem = behind(args.control, asked.name, column, words, args.wait)
        if problem:
            complain(escaped(f"jgroups keys: {problem}"))
            return CLAIM_FAILED
    if phase == ACTIVATE:
        write_keyring(args.file, keyring.activated(key.name))
        return told(args, 2, f"key {key.name} is active", RETIRE)
    write_keyring(args.file, keyring.without(key.name))
    return told(args, 3, f"key {key.name} is retired", "")


def renew_view_key(args: Namespace) -> int:
    """Order a new key of the view of a running group."""
    if not args.control:
        raise ConfigError(f"give the file of a keyring, or, for a new key of a running group's view: {WHICH}")
    if args.phase is not None or args.unchecked:
        raise ConfigError("--phase and --unchecked are for keyrings: give the file of one")
    answer = ask(args.control, {"command": RENEW_KEY, "bridge": args.bridge}, ANSWER_SECONDS + ANSWER_SLACK_SECONDS)
    if not answer["ok"]:
        complain(escaped(f"jgroups keys: {answer['error']}"))
        return CLAIM_FAILED
    stack, what = ("bridge", "bridge") if args.bridge else ("local", "group")
    report = holders_of_view_key(args.control, stack, args.wait)
    show(f"the {what} has a new view of the same members, and its key")
    show(escaped(view_key_line(report)))
    return CLAIM_FAILED if args.wait and report["view_key"]["not_held_by"] else 0


def holders_of_view_key(control: str, stack: str, seconds: float) -> dict[str, Any]:
    """What a member says of the key of its view, once all members have reported that they hold it, or `seconds` are
    over.

    Raises:
        ConfigError: it is in no view of that stack any more.
    """
    until = time.monotonic() + seconds
    while True:
        report = next((each for each in reports(control) if each["stack"] == stack and each["view_key"]), None)
        if report is None:
            raise ConfigError(f"the member has left the {stack} group since the order was obeyed")
        if not report["view_key"]["not_held_by"] or time.monotonic() >= until:
            return report
        time.sleep(ASK_AGAIN_SECONDS)


def view_key_line(report: dict[str, Any]) -> str:
    """Who has reported to hold the key of the view, as n of m."""
    key, missing = report["view_key"], report["view_key"]["not_held_by"]
    return (f"{key['id']}  of view   held by {key['held_by']} of {report['members']} members"
            + (f"; not reported yet by {', '.join(missing)}" if missing else ""))


def told(args: Namespace, number: int, text: str, following: str) -> int:
    """Print what was done and what comes next."""
    then = f", then: jgroups keys rotate {args.file}  ({following})" if following else ""
    show(f"{args.file}: phase {number} of 3: {text}; copy the file to all members{then}")
    return 0


def behind(control: str, name: str, column: str, words: str, seconds: float) -> str:
    """Which members are not ready for the next phase after `seconds`; "": all are."""
    until = time.monotonic() + seconds
    while True:
        found = [(report, key) for report in reports(control) for key in report["keys"] if key["id"] == name]
        problem = "" if found else f"the member has no key {name}: copy the file to it first"
        for report, key in found:
            if key[column]:
                problem = (f"{len(key[column])} of {report['members']} members {words} key {name}: "
                           f"{', '.join(key[column])}")
        if not problem or time.monotonic() >= until:
            return problem
        time.sleep(ASK_AGAIN_SECONDS)


def status(args: Namespace) -> int:
    """Which members have which keys, as n of m."""
    if not args.control:
        raise ConfigError(WHICH)
    found = reports(args.control)
    if args.json:
        print(json.dumps(found, indent=2))
        return 0
    for report in found:
        members = report["members"]
        show(escaped(f"{report['stack']}: {report['keyring'] or 'no keyring'}, {members} members"))
        for key in report["keys"]:
            missing = f"; not at {', '.join(key['not_held_by'])}" if key["not_held_by"] else ""
            show(escaped(f"{key['id']}  {key['state']:<8}  held by {key['held_by']} of {members} members, "
                         f"active at {key['active_at']} of {members}{missing}"))
        if report["view_key"]:
            show(escaped(view_key_line(report)))
        for name, number in report["refused"].items():
            show(escaped(f"  {name} {number:g}"))
    return 0


def reports(control: str) -> list[dict[str, Any]]:
    """What the member says of the keys of its stacks.

    Raises:
        ConfigError, ChannelError: it says nothing.
    """
    answer = ask(control, {"command": "keys"}, ANSWER_SLACK_SECONDS)
    if not answer["ok"]:
        raise ConfigError(answer["error"])
    found: list[dict[str, Any]] = answer["stacks"]
    return found
