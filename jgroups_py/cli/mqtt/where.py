"""`jgroups mqtt where ID`: at which node of a federation the session of a client is, and which have copies of it."""
from __future__ import annotations

from argparse import Namespace

from jgroups_py.cli.mqtt.api import as_table, ask, finish, segment

HEAD = ("node", "has", "state")


def run(args: Namespace) -> int:
    """Print it. Raises ConfigError."""
    missing = f"no node that is known of has a session of the client id {args.id!r}"
    found = ask(args.api, f"/v1/federation/sessions/{segment(args.id)}", "session", missing)["session"]
    state = "moving" if found["is_moving"] else "" if found["is_up"] else "away"
    if found["is_here"] and not state:
        state = "connected" if found["connected"] else "not connected"
    rows = [(found["node"], "the session", state or "-")]
    rows += [(name, "a copy", "complete" if is_safe else "behind") for name, is_safe in found["copies_at"].items()]
    lines = as_table(HEAD, rows)
    if not found["is_here"]:
        lines += ["", f"This node has {'a' if found['copy_here'] else 'no'} copy; ask {found['node']} for the others."]
    return finish(args, found, lines)
