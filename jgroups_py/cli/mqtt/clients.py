"""`jgroups mqtt clients [ID]`: the sessions of a broker; of one also its subscriptions."""
from __future__ import annotations

from argparse import Namespace
from typing import Any

from jgroups_py.cli.mqtt.api import all_pages, as_table, ask, finish, segment

HEAD = ("client", "connected", "version", "user", "subscriptions", "queued", "in flight", "address")
NUMBERS = ("subscriptions", "queued", "in flight")
VERSIONS = {0: "-", 4: "3.1.1", 5: "5"}


def run(args: Namespace) -> int:
    """Print them. Raises ConfigError."""
    if args.id is None:
        found = all_pages(args.api, "/v1/clients", "clients")
        return finish(args, found, as_table(HEAD, map(row_of, found), NUMBERS))
    missing = f"no session has the client id {args.id!r}"
    client = ask(args.api, f"/v1/clients/{segment(args.id)}", "client", missing)["client"]
    own = [each for each in all_pages(args.api, "/v1/subscriptions", "subscriptions")
           if each["client_id"] == client["client_id"]]
    lines = as_table(HEAD, [row_of(client)], NUMBERS)
    lines += ["", *as_table(("filter", "QoS"), [(each["topic_name"], each["qos"]) for each in own])]
    return finish(args, {**client, "subscriptions": own}, lines)


def row_of(client: dict[str, Any]) -> tuple[object, ...]:
    """A client's cells."""
    return (client["client_id"], "yes" if client["connected"] else "no",
            VERSIONS.get(client["version"], client["version"]), client["username"] or "-",
            client["subscriptions_current"], client["queue_len"], client["inflight_len"], client["remote_addr"] or "-")
