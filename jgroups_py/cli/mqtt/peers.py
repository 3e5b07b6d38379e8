"""`jgroups mqtt peers`: what a broker has for each other node, and how far that has come."""
from __future__ import annotations

from argparse import Namespace

from jgroups_py.cli.mqtt.api import as_table, ask, finish, one_line

HEAD = ("name", "state", "accepted", "acknowledged", "queued", "under way", "bytes", "dropped", "why")
NUMBERS = HEAD[2:7]


def run(args: Namespace) -> int:
    """Print them. Raises ConfigError."""
    answer = ask(args.api, "/v1/federation/peers", "peers")
    rows = [(each["name"], each["state"], each["accepted"], each["acknowledged"], each["queued"],
             each["unacknowledged"], each["queued_bytes"], one_line(each["dropped"]), each["why"] or "-")
            for each in answer["peers"]]
    return finish(args, answer, as_table(HEAD, rows, NUMBERS))
