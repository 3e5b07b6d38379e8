"""The REST API of the federation: the same requests to a node of gmqttd and to ours have the same answers."""
from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

from jgroups_py.system.free_ports import free_range
from tests.gmqtt.gmqttd import Gmqttd, RestAnswer, rest, statuses
from tests.gmqtt.our_node import OurNode
from tests.integration.serf_agent import until

pytestmark = pytest.mark.gmqtt
FEDERATION = "/v1/federation"


def essence(answer: RestAnswer) -> tuple[int, str, bytes]:
    return answer.status, answer.headers["Content-Type"], answer.body


def test_accept_2_the_same_requests_have_the_same_answers(tmp_path: Path) -> None:
    with ExitStack() as stack:
        theirs = stack.enter_context(Gmqttd("node1", tmp_path))
        ours = stack.enter_context(OurNode("ours", tmp_path))
        closed = free_range()
        # The seed's request, to either: each brings the two together; the second one changes nothing.
        for node in (theirs, ours):
            answer = rest(node.rest, "POST", f"{FEDERATION}/join", {"hosts": [f"127.0.0.1:{theirs.gossip}"]})
            assert essence(answer) == (200, "application/json", b"{}")
        until(lambda: len(statuses(ours.rest)) == len(statuses(theirs.rest)) == 2, "both see both")
        requests: list[tuple[str, str, bytes | None]] = [
            ("POST", "/members", None), ("GET", "/members/", None), ("GET", "/nothing", None), ("GET", "/join", None),
            ("PUT", "/join", b"{}"), ("POST", "/force_leave", b'{"node_name":"nobody"}'),
            ("POST", "/force_leave", b'{"nodeName":"nobody"}'), ("POST", "/leave", b"x"), ("POST", "/leave", b"[]"),
            *(("POST", "/force_leave", body) for body in (b"", b"{}", b'{"node_name":""}', b'{"node_name":1}', b"x")),
            *(("POST", "/join", body) for body in (
                b"", b"{}", b"null", b"[]", b"x", b'"a"', b"true", b'{"hosts":', b'{"hosts":[]}', b'{"hosts":null}',
                b'{"hosts":"a"}', b'{"hosts":[1]}', b'{"hosts":["a:b:c"]}', b'{"hosts":["::1"]}', b'{"hosts":["[::1"]}',
                b'{"hosts":["127.0.0.1:"]}', b'{"hosts":[""]}', b'{"hosts":["127.0.0.1:99999"]}',
                b'{"hosts":["127.0.0.1:x"]}', b'{"unknown":1}', b'{"hosts":["127.0.0.1:%d"]}' % closed,
                b'{"hosts":["127.0.0.1:%d","127.0.0.1:%d"]}' % (closed, closed),
                b'{"hosts":["127.0.0.1:%d"]} rest' % theirs.gossip)),
        ]
        for method, path, body in requests:
            answers = [essence(rest(node.rest, method, FEDERATION + path, body)) for node in (theirs, ours)]
            assert answers[0] == answers[1], (method, path, body)
        members = [rest(node.rest, "GET", f"{FEDERATION}/members") for node in (theirs, ours)]
        assert sorted(members[0].body) == sorted(members[1].body)      # the order of members differs, as among theirs
        assert b'{"name":"ours","addr":"127.0.0.1:%d","tags":{"fed_addr":"127.0.0.1:%d"},"status":"STATUS_ALIVE"}' % (
            ours.gossip, ours.fed) in members[0].body
        for path in ("/leave", "/leave"):
            assert essence(rest(ours.rest, "POST", FEDERATION + path, {})) == (200, "application/json", b"{}")
        until(lambda: theirs.status_of("ours") == "STATUS_LEFT", "ours has left")
        assert ours.status_of("ours") == "STATUS_LEFT"
        rest(theirs.rest, "POST", f"{FEDERATION}/leave", {})
        join = b'{"hosts":["127.0.0.1:%d"]}' % theirs.gossip
        answers = [essence(rest(node.rest, "POST", f"{FEDERATION}/join", join)) for node in (theirs, ours)]
        assert answers[0] == answers[1]
