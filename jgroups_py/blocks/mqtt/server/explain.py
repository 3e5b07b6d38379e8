"""The way of a message to a topic, as of now: the answer to `GET /v1/explain?topic=`, as values for JSON. Pure.

    sessions         each session here with a matching filter: its QoS, and what a message would wait for
    shared           each matching shared subscription: its members here, and the nodes with members; one member gets it
    peers            the nodes with a matching filter, and what is queued for them
    retained         the message that a new subscriber gets now
    acknowledgement  the nodes that PUBACK or PUBREC waits for

With RELAY, `sites` and `leaves_site` of the federation stand beside these (Sites.way_of).
"""
from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any

from jgroups_py.blocks.mqtt.broker.broker import Broker
from jgroups_py.blocks.mqtt.broker.options import AckWhen
from jgroups_py.blocks.mqtt.broker.session import ClientSession
from jgroups_py.blocks.mqtt.broker.subscription_tree import SharedMatch, filter_matches, split_shared

MOST = 1_000
"""Sessions, groups and peers that are listed, each; `total_sessions` counts all."""
SHOWN_PAYLOAD_BYTES = 1_000
Facts = dict[str, Any]


def explain(
    broker: Broker, topic: str, interest: Mapping[str, Sequence[str]], peers: Sequence[Mapping[str, Any]], now_ns: int,
) -> Facts:
    """See the module. interest: peer -> its filters that match; peers: the report of the federation."""
    matches = broker.router.tree.match(topic)
    nodes = {str(peer["name"]): peer for peer in peers}
    plain = {name: [each for each in filters if not split_shared(each)[0]] for name, filters in interest.items()}
    waits = [name for name, filters in plain.items()
             if filters and nodes.get(name, {}).get("alive") and nodes[name].get("state") != "silent"]
    mode = broker.options.ack
    kept = broker.router.retained.get(topic, now_ns)
    return {
        "topic": topic, "node_name": broker.options.node_name, "total_sessions": len(matches.plain),
        "sessions": [_session(broker, session, topic) for session, _ in matches.plain[:MOST]],
        "shared": _shared(matches.shared, interest),
        "peers": [_peer(name, plain.get(name, []), nodes.get(name, {})) for name in [*nodes][:MOST]],
        "retained": None if kept is None else {
            "payload_base64": base64.b64encode(kept.payload[:SHOWN_PAYLOAD_BYTES]).decode(),
            "payload_bytes": len(kept.payload), "qos": kept.qos, "expires_in": kept.seconds_left(now_ns)},
        "acknowledgement": {
            "when": mode.value, "nodes": waits if mode is AckWhen.PEERS else [],
            "timeout_s": broker.options.ack_timeout_s},
    }


def _session(broker: Broker, session: ClientSession, topic: str) -> Facts:
    filters: list[Facts] = [{"filter": filter, "qos": granted.qos, "no_local": granted.no_local}
                            for filter, granted in session.subscriptions.items()
                            if not split_shared(filter)[0] and filter_matches(filter, topic)]
    return {"client_id": session.client_id, "connected": session.connection is not None,
            "qos": max((each["qos"] for each in filters), default=0), "filters": filters,
            "queued": len(session.queue), "queued_bytes": session.queue_bytes, "in_flight": len(session.in_flight),
            "what": _what(broker, session)}


def _what(broker: Broker, session: ClientSession) -> str:
    """What happens to a message for a session."""
    options, connection = broker.options, session.connection
    is_full = len(session.queue) >= options.queue_messages or session.queue_bytes >= options.queue_bytes
    if connection is None:
        less = "" if options.queue_qos_0 else "; QoS 0 is dropped"
        return f"no connection: queued{' in place of the oldest' if is_full else ''}{less}"
    if is_full:
        return f"its queue is full: {options.when_full.value}"
    if session.queue:
        return f"queued: {len(session.queue)} before it"
    if connection.is_blocked:
        return "queued: the client does not read fast enough"
    if len(session.in_flight) >= min(options.max_inflight, connection.receive_maximum):
        return "QoS 0 at once; else queued: as much as the client allows is unacknowledged"
    return "at once"


def _shared(matches: Sequence[SharedMatch[ClientSession, Any]], interest: Mapping[str, Sequence[str]]) -> list[Facts]:
    found: dict[str, Facts] = {}
    for match in matches[:MOST]:
        filter = f"$share/{match.group}/{match.filter}"
        found[filter] = {"filter": filter, "nodes": [], "members": [
            {"client_id": session.client_id, "connected": session.connection is not None}
            for session in list(match.members)[:MOST]]}
    for name, filters in interest.items():
        for filter in filters:
            if split_shared(filter)[0] and (filter in found or len(found) < MOST):
                found.setdefault(filter, {"filter": filter, "nodes": [], "members": []})["nodes"].append(name)
    return list(found.values())


def _peer(name: str, filters: Sequence[str], report: Mapping[str, Any]) -> Facts:
    return {"name": name, "filters": list(filters), "alive": bool(report.get("alive")),
            "state": str(report.get("state", "")), "why": str(report.get("why", "")),
            "queued": report.get("queued", 0), "unacknowledged": report.get("unacknowledged", 0)}
