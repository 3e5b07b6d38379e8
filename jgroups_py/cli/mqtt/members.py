"""`jgroups mqtt members`: the nodes of a broker's federation."""
from __future__ import annotations

from argparse import Namespace

from jgroups_py.cli.mqtt.api import as_table, ask, finish, one_line


def run(args: Namespace) -> int:
    """Print them. Raises ConfigError."""
    answer = ask(args.api, "/v1/federation/members", "members")
    rows = [(each["name"], each["addr"] or "-", str(each["status"]).removeprefix("STATUS_").lower(),
             one_line(each["tags"])) for each in answer["members"]]
    return finish(args, answer, as_table(("name", "address", "state", "tags"), rows))
