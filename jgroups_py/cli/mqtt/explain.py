"""`jgroups mqtt explain TOPIC`: where a message goes that a client of this broker publishes now, and why."""
from __future__ import annotations

import base64
from argparse import Namespace
from collections.abc import Iterator
from typing import Any

from jgroups_py.cli.mqtt.api import as_table, ask, finish
from jgroups_py.cli.mqtt.retained import shown

MOST_CLIENTS = 5


def run(args: Namespace) -> int:
    """Print it. Raises ConfigError."""
    answer = ask(args.api, "/v1/explain", "sessions", topic=args.topic)
    return finish(args, answer, as_text(answer))


def as_text(found: dict[str, Any]) -> Iterator[str]:
    """The lines."""
    yield f"{found['topic']}, published at {found['node_name']}"
    if found["sessions"]:
        yield f"sessions here: {found['total_sessions']}"
        yield from _indented(as_table(("client", "QoS", "by", "what becomes of it"), [
            (each["client_id"], each["qos"], ", ".join(one["filter"] for one in each["filters"]), each["what"])
            for each in found["sessions"]]))
    else:
        yield "sessions here: none has a filter that matches"
    for each in found["shared"]:
        yield f"{each['filter']}, to one member: {_places(each)}"
    goes = [peer for peer in found["peers"] if peer["filters"]]
    others = [peer["name"] for peer in found["peers"] if not peer["filters"]]
    if goes:
        yield "other nodes:"
        yield from _indented(as_table(("node", "by", "state", "queued", "under way"), [
            (peer["name"], ", ".join(peer["filters"]), peer["state"] + (f" ({peer['why']})" if peer["why"] else ""),
             peer["queued"], peer["unacknowledged"]) for peer in goes], ("queued", "under way")))
    if others:
        yield f"not to: {', '.join(others)} (no filter there matches, but of shared subscriptions)"
    if found.get("sites"):
        yield f"other sites, from {found['site']}:"
        yield from _indented(as_table(("site", "status", "by", "what becomes of it"), [
            (each["site"], each["status"], ", ".join(each["matching"]) or "-",
             "; ".join([*(["crosses"] if each["gets"] else ["stays here"]), *([each["why"]] if each["why"] else [])]))
            for each in found["sites"]]))
    yield _retained(found["retained"])
    yield _acknowledged(found["acknowledgement"])


def _indented(lines: list[str]) -> Iterator[str]:
    return (f"  {line}" for line in lines)


def _places(shared: dict[str, Any]) -> str:
    members = [each["client_id"] + ("" if each["connected"] else " (no connection)") for each in shared["members"]]
    more = f" and {len(members) - MOST_CLIENTS} more" if len(members) > MOST_CLIENTS else ""
    here = [", ".join(members[:MOST_CLIENTS]) + more] if members else []
    return "; ".join([*here, *(f"at {name}" for name in shared["nodes"])])


def _retained(kept: dict[str, Any] | None) -> str:
    if kept is None:
        return "retained: nothing"
    text = shown(base64.b64decode(kept["payload_base64"]))
    return f"retained: {text!r}, {kept['payload_bytes']} bytes, QoS {kept['qos']}; a new subscriber gets it"


def _acknowledged(ack: dict[str, Any]) -> str:
    if ack["nodes"]:
        have = f"{', '.join(ack['nodes'])} {'has' if len(ack['nodes']) == 1 else 'have'}"
        return f"QoS 1 and 2 are acknowledged when {have} it, after {ack['timeout_s']:g} s at most"
    return "QoS 1 and 2 are acknowledged at once" + (": no other node has to have it" if ack["when"] == "peers" else
                                                     f" (ack: {ack['when']})")
