"""Keys of views among real processes: a member is cut off under a flood, goes on alone, and comes back."""
from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

from tests.chaos.netns import do
from tests.chaos.test_ipv6 import NETWORK, Bridge
from tests.integration.members import Member
from tests.integration.test_view_keys import (
    NAMES,
    check_archives,
    check_received,
    files_of_view_keys,
    flooded,
    refused,
)

pytestmark = pytest.mark.netns


@pytest.fixture
def network(namespaces: None) -> Iterator[Bridge]:
    with Bridge() as made:
        yield made


def test_a_member_that_was_cut_off_under_a_flood_comes_back_under_new_keys(network, tmp_path, capsys):
    stack, switch = files_of_view_keys(tmp_path), network.namespace("switch")
    with contextlib.ExitStack() as running:
        members: dict[str, Member] = {}
        for name, address in NETWORK.items():
            members[name] = network.member(name, stack, bind_addr=address, mcast_addr="ff15::8:8:8", ip_ttl=1,
                                           identity=tmp_path / f"{name}.pem")
            running.callback(members[name].close)
        for member in members.values():
            member.view_of(NAMES)
        sent = flooded(members, 6000)
        since = {name: members[name].mark() for name in NAMES}
        do("ip", "-n", switch, "link", "set", "to-C", "nomaster")
        for name, view in (("A", "AB"), ("B", "AB"), ("C", "C")):
            members[name].view_of(view, since[name])
        since = {name: members[name].mark() for name in NAMES}
        do("ip", "-n", switch, "link", "set", "to-C", "master", "br0")
        for name in NAMES:
            members[name].view_of(NAMES, since[name])
        for member in members.values():
            member.received_all(sent)
        for name, number in flooded(members, 100).items():
            sent[name] += number
        check_received(members, "AB", sent)
        assert refused(members) == {name: {} for name in NAMES}
        for member in members.values():
            assert member.leave() == 0
    check_archives(tmp_path, members, capsys)
