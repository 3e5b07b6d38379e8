"""A site's interest in topics: when a relay may still rely on the interests that its members reported."""
from __future__ import annotations

import pytest

from jgroups_py.model.events import SiteInterest, ViewChange
from jgroups_py.model.topics import EVERYTHING, interest_in
from jgroups_py.model.view import ViewId
from jgroups_py.protocols.relay.group import LocalGroup
from jgroups_py.protocols.relay.outbound.peers import RelayPeer, RelayPeers
from jgroups_py.protocols.relay.outbound.topic_filter import TopicFilter
from jgroups_py.protocols.relay.sites.table import Site
from jgroups_py.testing.bench import address, view_of
from jgroups_py.windows.path import PathWindow
from tests.unit.relay.layer import Layer

A, B = view_of("A"), view_of("A", "B", counter=2)


@pytest.mark.parametrize(("is_relay", "joined", "kept"), [
    (True, False, True), (True, True, False), (False, False, False), (False, True, False)])
def test_the_interest_of_a_site_is_kept_only_by_a_relay_whose_view_got_no_joiner(is_relay, joined, kept):
    layer = Layer("A" if is_relay else "B")
    topic_filter = TopicFilter(layer)
    topic_filter.group, topic_filter.peers = LocalGroup(layer), RelayPeers()
    topic_filter.group.view_changed(ViewChange(B, None, (), ()))
    topic_filter.set_interest(interest_in("orders"))
    assert topic_filter.own_interest == interest_in("orders")
    topic_filter.view_changed(ViewChange(B, A, (address("B"),) if joined else (), ()))
    assert topic_filter.own_interest == (interest_in("orders") if kept else EVERYTHING)


class Recorder:
    """In place of the bridge."""

    def __init__(self):
        self.sent = []

    def send_to(self, to, header):
        self.sent.append((to, header.interest))


@pytest.mark.parametrize("is_relay", [True, False])
def test_a_changed_interest_is_sent_to_the_other_sites_by_the_relay_alone(is_relay):
    layer = Layer("A" if is_relay else "B")
    topic_filter = TopicFilter(layer)
    topic_filter.group, topic_filter.peers, topic_filter.bridge = LocalGroup(layer), RelayPeers(), Recorder()
    topic_filter.group.view_changed(ViewChange(B, None, (), ()))
    topic_filter.peers.add(RelayPeer(address("X"), Site("SFO"), ViewId(1, address("X")), PathWindow(1, 1)))
    for interest in (interest_in("orders"), interest_in("orders"), EVERYTHING):
        topic_filter.interest_changed(SiteInterest(interest))
    assert topic_filter.bridge.sent == (
        [(address("X"), interest_in("orders")), (address("X"), EVERYTHING)] if is_relay else [])
