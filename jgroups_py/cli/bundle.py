"""`jgroups bundle`: one zip archive about a running member and its group, to attach to a bug report.

It contains, each as JSON: versions (package, Python, system, packages), the stack as it runs, the counters of the
member, its members and sites, a survey of all members of the group and of the sites that are UP, and over HTTP the last
events. Members that do not answer the survey are named. It contains no payloads, no keys or tokens, and no variables of
the environment: properties with a name such as secret, token or password are masked. Names and addresses of members,
and paths of files, are in it: read it before you publish it. With --redact each IP address is replaced by one and the
same word all over the archive (private-1, loopback-1), so hosts can still be told apart.

It takes some three seconds at most. The archive is for this user alone (mode 0600), is never written over a file that
is there, and has 8 MB at most.
"""
from __future__ import annotations

import io
import json
import os
import time
import zipfile
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from pathlib import Path
from typing import Any

from jgroups_py.cli.control_client import wrong
from jgroups_py.cli.running_member import WHICH_MEMBER, Facts, RunningMember, add_member_arguments, chosen_member
from jgroups_py.cli.showing import show
from jgroups_py.model.errors import ChannelError, ConfigError
from jgroups_py.ops.masking import Redaction, masked
from jgroups_py.ops.own_reports import running_facts
from jgroups_py.ops.survey import ANSWER_SECONDS

SECONDS = ANSWER_SECONDS + 2.0              # for all answers; a survey that some do not answer takes ANSWER_SECONDS
FILE_BYTES = 1 << 20                        # of a document
DOCUMENTS = {"stack.json": "config", "survey.json": "survey", "members.json": "members", "sites.json": "status",
             "stats.json": "stats"}
"""Document -> what is asked for it. The stack is first: it needs no answer of the member's loop."""


def add_parser(subparsers: Any) -> None:
    """Add `bundle` to the command line."""
    parser: ArgumentParser = subparsers.add_parser(
        "bundle", help="collect what a bug report needs from a running member", description=__doc__,
        formatter_class=RawDescriptionHelpFormatter)
    add_member_arguments(parser)
    parser.add_argument("-o", "--output", metavar="FILE", type=Path, required=True, help="the archive to write (zip)")
    parser.add_argument("--redact", action="store_true", help="replace IP addresses by words (private-1, loopback-1)")
    parser.set_defaults(run=run)


def run(args: Namespace) -> int:
    """Write the archive; 2 if no member answers, or the file cannot be written."""
    if not args.control and not args.http:
        return wrong("bundle", WHICH_MEMBER)
    if os.path.lexists(args.output):
        return wrong("bundle", f"{args.output} exists; name another file, or remove it")
    try:
        documents = collected(chosen_member(args))
        if args.redact:
            documents = Redaction().of(documents)
        archive = packed(documents)
        write(args.output, archive)
    except (ChannelError, ConfigError) as error:
        return wrong("bundle", str(error))
    except OSError as error:
        return wrong("bundle", f"{args.output}: {error.strerror or error}")
    show(f"{args.output}: {len(archive)} bytes, {', '.join(documents)}",
         *(f"not in it: {name}: {facts['error']}" for name, facts in documents.items() if "error" in facts),
         *(f"{each['state']}: {each['name']}" for each in documents["manifest.json"]["members_without_answer"]),
         f"{'Names' if args.redact else 'Names, addresses'} and paths are in it: read it before you publish it.")
    return 0


def collected(member: RunningMember) -> dict[str, Facts]:
    """The documents by name, without secrets.

    Raises:
        ChannelError: the member does not answer.
    """
    began = time.time()
    until = time.monotonic() + SECONDS
    documents: dict[str, Facts] = {}
    for name, command in DOCUMENTS.items():
        try:
            documents[name] = masked(member.ask(command, until))
        except ChannelError as error:
            if not documents:
                raise
            documents[name] = {"error": str(error)}          # as of a loop that stands still, or a member that ended
    events = member.last_events(until)
    if events is not None:
        documents["events.json"] = masked({"events": events})
    silent = [{"name": each["name"], "site": each["site"], "state": each["state"]}
              for each in documents["survey.json"].get("members", []) if each["state"] != "alive"]
    manifest = {"v": 1, "at": round(began, 3), "asked": member.where, "seconds": round(time.time() - began, 3),
                "made_by": running_facts(), "members_without_answer": silent}
    return {"manifest.json": manifest, **documents}


def packed(documents: dict[str, Facts]) -> bytes:
    """The archive. A document above FILE_BYTES is replaced by its size."""
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as files:
        for name, facts in documents.items():
            text = json.dumps(facts, indent=1).encode()
            if len(text) > FILE_BYTES:
                facts.clear()
                facts["error"] = f"{len(text)} bytes, where {FILE_BYTES} are the most"
                text = json.dumps(facts).encode()
            files.writestr(name, text)
    return archive.getvalue()


def write(path: Path, content: bytes) -> None:
    """Write a new file for this user alone; a file that is there stays. Raises OSError."""
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        try:
            file.write(content)
            file.flush()
        except OSError:
            path.unlink()
            raise
