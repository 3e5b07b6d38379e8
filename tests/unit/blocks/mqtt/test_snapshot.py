"""The snapshot of a node: what Serf writes is read, what is written is read again."""
from __future__ import annotations

import pytest

from jgroups_py.blocks.mqtt.node.snapshot import known_nodes, snapshot_text

OF_SERF = """\
alive: node1 127.0.0.1:8902
alive: a node 192.168.0.105:8912
clock: 4
event-clock: 1
coordinate: {"Vec":[0,0],"Error":1.5}
not-alive: node1
alive: node3 [fe80::1]:8932
"""


def test_a_file_of_serf():
    assert known_nodes(OF_SERF.splitlines(), False) == {
        "a node": ("192.168.0.105", 8912), "node3": ("fe80::1", 8932)}


@pytest.mark.parametrize("rejoin", [False, True])
def test_what_is_written_is_read_again(rejoin):
    members = {"node2": "10.0.0.2:1", "node3": "[::1]:2"}
    kept = {"node2": ("10.0.0.2", 1), "node3": ("::1", 2)}
    assert known_nodes(snapshot_text(members, False).splitlines(), rejoin) == kept
    assert known_nodes(snapshot_text(members, True).splitlines(), rejoin) == (kept if rejoin else {})


def test_lines_that_make_no_sense_are_passed_over():
    lines = ["", "alive:", "alive: ", "alive: x", "alive: x y", "alive: x 1.1.1.1", "alive: x 1.1.1.1:99999", "\0",
             "leave "]
    assert known_nodes(lines, False) == {}
