"""`jgroups key`: makes keyrings for ENCRYPT, and changes a group's key in three phases without a pause.

    jgroups key new group.keys                  a keyring with one active key (mode 0600; an existing file stays)
    jgroups key add group.keys                  phase 1: one more key, which members accept
    jgroups key activate group.keys ID          phase 2: members seal with it
    jgroups key retire group.keys ID            phase 3: the former key opens no frame any longer; its bytes are erased
    jgroups key show group.keys                 ids and states; keys are never printed
    jgroups key show --control PATH             how many members of a running group have each key

All members have the same file: copy it to every host after each phase. Members read a changed file within about a
second (ENCRYPT's `reread`). Begin a phase when all members have the file of the one before: with --control PATH,
activate and retire ask the member that listens there, and if some members do not have it yet, they print the names of
these and change nothing.
"""
from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from jgroups_py.cli.control_client import CLAIM_FAILED, WHICH, add_control_argument, wrong
from jgroups_py.cli.showing import complain, show
from jgroups_py.model.errors import ChannelError, ConfigError
from jgroups_py.model.text import escaped
from jgroups_py.ops.control import ANSWER_SLACK_SECONDS, ask
from jgroups_py.sealing.keyring import GroupKeyring, new_keyring
from jgroups_py.sealing.primitives import KEY_BYTES, require_library
from jgroups_py.system.secrets import SECRETS, read_keyring, write_keyring


def add_parser(subparsers: Any) -> None:
    """Add `key` to the command line."""
    parser: ArgumentParser = subparsers.add_parser(
        "key", help="make and change the keys of ENCRYPT", description=__doc__,
        formatter_class=RawDescriptionHelpFormatter)
    actions = parser.add_subparsers(metavar="ACTION", required=True, dest="action")
    for name, text in (("new", "make a keyring with one active key"), ("add", "add a key that members accept"),
                       ("activate", "let members seal with another key"),
                       ("retire", "let members open no frame with a key any longer")):
        action = actions.add_parser(name, help=text, description=text)
        action.add_argument("file", type=Path, help="the keyring")
        if name in ("activate", "retire"):
            action.add_argument("id", help="the key's id, or its first digits (jgroups key show)")
            add_control_argument(action)
    shown = actions.add_parser("show", help="list keys, or how many members of a running group have each",
                               description="list ids and states of keys; keys are not printed")
    shown.add_argument("file", type=Path, nargs="?", help="the keyring")
    add_control_argument(shown)
    shown.add_argument("--json", action="store_true", help="the answer of the member as JSON")
    parser.set_defaults(run=run)


def run(args: Namespace) -> int:
    """Do the action; 1 if members are behind, 2 if it cannot be done."""
    try:
        require_library("jgroups key")
        return ACTIONS[args.action](args)
    except (ConfigError, ChannelError) as error:
        return wrong("key", str(error))


def _new(args: Namespace) -> int:
    keyring = new_keyring(SECRETS.draw(KEY_BYTES))
    write_keyring(args.file, keyring, new=True)
    show(f"{args.file}: key {keyring.active.name} is active; give the same file, mode 0600, to all members")
    return 0


def _add(args: Namespace) -> int:
    keyring = _read(args.file).with_key(SECRETS.draw(KEY_BYTES))
    write_keyring(args.file, keyring)
    name = keyring.keys[-1].name
    show(f"{args.file}: key {name} is accepted; copy the file to all members, then: "
         f"jgroups key activate {args.file} {name}")
    return 0


def _activate(args: Namespace) -> int:
    keyring = _read(args.file)
    before, name = keyring.active.name, keyring.find(args.id).name
    changed = keyring.activated(args.id)
    if args.control and (behind := _behind(args.control, name, "not_held_by", "lack")):
        return behind
    write_keyring(args.file, changed)
    show(f"{args.file}: key {name} is active; copy the file to all members, then: "
         f"jgroups key retire {args.file} {before}")
    return 0


def _retire(args: Namespace) -> int:
    keyring = _read(args.file)
    changed = keyring.without(args.id)
    if args.control and (behind := _behind(args.control, keyring.active.name, "not_active_at", "do not seal with")):
        return behind
    write_keyring(args.file, changed)
    show(f"{args.file}: key {keyring.find(args.id).name} is retired; copy the file to all members")
    return 0


def _behind(control: str, name: str, column: str, words: str) -> int:
    """0 if all members of each stack with this key are ready for the next phase; else print which are not, and 1."""
    found = [(report, key) for report in _reports(control) for key in report["keys"] if key["id"] == name]
    if not found:
        complain(f"jgroups key: the member has no key {name}: copy the file to it first")
        return CLAIM_FAILED
    for report, key in found:
        if key[column]:
            complain(escaped(f"jgroups key: {len(key[column])} of {report['members']} members {words} key {name}: "
                             f"{', '.join(key[column])}"))
            return CLAIM_FAILED
    return 0


def _show(args: Namespace) -> int:
    if args.file is not None:
        for key in _read(args.file).keys:
            show(f"{key.name}  {key.state}")
        return 0
    if not args.control:
        return wrong("key", f"a file, or {WHICH}")
    reports = _reports(args.control)
    if args.json:
        print(json.dumps(reports, indent=2))
        return 0
    for report in reports:
        show(escaped(f"{report['stack']}: {report['keyring']}, {report['members']} members"))
        for key in report["keys"]:
            behind = f"; not at {', '.join(key['not_held_by'])}" if key["not_held_by"] else ""
            show(escaped(f"{key['id']}  {key['state']:<8}  held by {key['held_by']} of {report['members']} members, "
                         f"active at {key['active_at']}{behind}"))
        for name, number in report["refused"].items():
            show(escaped(f"  {name} {number:g}"))
    return 0


def _reports(control: str) -> list[dict[str, Any]]:
    answer = ask(control, {"command": "keys"}, ANSWER_SLACK_SECONDS)
    if not answer["ok"]:
        raise ConfigError(answer["error"])
    reports: list[dict[str, Any]] = answer["stacks"]
    return reports


def _read(path: Path) -> GroupKeyring:
    return read_keyring(path)[0]


ACTIONS: dict[str, Callable[[Namespace], int]] = {
    "new": _new, "add": _add, "activate": _activate, "retire": _retire, "show": _show}
