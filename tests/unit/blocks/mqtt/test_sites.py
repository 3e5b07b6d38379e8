"""Brokers of several sites: what crosses between them, what does not, and what becomes of shared subscriptions."""
from __future__ import annotations

from random import Random

import pytest

from jgroups_py.blocks.mqtt.broker.publication import Publication
from jgroups_py.blocks.mqtt.codec.packets import PubAckPacket
from jgroups_py.blocks.mqtt.federation import wire as w
from jgroups_py.blocks.mqtt.federation.core import FederationCore
from jgroups_py.blocks.mqtt.federation.message_record import MessageRecord
from jgroups_py.blocks.mqtt.federation.options import FederationOptions
from jgroups_py.blocks.mqtt.federation.sites import read_site_message, site_message
from jgroups_py.model.errors import WireError
from tests.unit.blocks.mqtt.clients import SECOND
from tests.unit.blocks.mqtt.sites_world import SitesWorld, payloads


def test_a_message_reaches_each_subscriber_of_another_site_once_and_what_nobody_wants_does_not_cross():
    world = SitesWorld("AB", "DE")
    here, there, also = world.client("B", "here"), world.client("D", "there"), world.client("E", "also")
    for client in (here, there, also):
        client.subscribe("a/+", 1)
    publisher = world.client("A", "pub")
    world.run(1)
    crossed = len(world.messages())
    publisher.publish("a/1", b"1", 1)
    publisher.publish("b/1", b"2", 1)
    world.run(1)
    assert [payloads(client) for client in (here, there, also)] == [[b"1"]] * 3
    assert len(world.messages()) == crossed + 1, "one multicast, for two brokers; b/1 stays"


def test_filters_cross_once_for_a_site_and_their_end_too():
    world = SitesWorld("AB", "DE")
    one, two = world.client("D", "one"), world.client("E", "two")
    before = world.sent("D", "site_filters_sent") + world.sent("E", "site_filters_sent")

    def told() -> int:
        world.run(1)
        return world.sent("D", "site_filters_sent") + world.sent("E", "site_filters_sent") - before
    one.subscribe("x", 0)
    assert told() == 1
    two.subscribe("x", 0)
    assert told() == 1
    one.unsubscribe("x")
    assert told() == 1, "the site still wants it"
    two.unsubscribe("x")
    assert told() == 2
    assert world.nodes["A"].federation.sites.others["S1"].filters == {}


def test_puback_waits_for_the_own_site_and_for_no_other():
    world = SitesWorld("AB", "DE")
    world.client("D", "sub").subscribe("t", 1)
    publisher = world.client("A", "pub")
    world.run(1)
    world.cut["S1"] = []
    publisher.publish("t", b"1", 1)
    assert not publisher.has(PubAckPacket), "the own site does not have it yet"
    world.run(0.01)
    assert publisher.has(PubAckPacket)


def test_what_was_published_during_a_cut_comes_after_it_in_order():
    world = SitesWorld("AB", "DE")
    subscriber, publisher = world.client("E", "sub"), world.client("A", "pub")
    subscriber.subscribe("t", 1)
    world.run(1)
    world.cut["S1"] = []
    for number in range(20):
        publisher.publish("t", b"%d" % number, 1)
    world.run(30)
    assert payloads(subscriber) == []
    world.join("S1")
    world.run(1)
    assert payloads(subscriber) == [b"%d" % number for number in range(20)]


def test_a_successor_of_the_coordinator_announces_the_filters():
    world = SitesWorld("AB", "DE")
    subscriber = world.client("E", "sub")
    subscriber.subscribe("t", 1)
    world.run(1)
    world.crash("D")
    world.run(2)
    subscriber.subscribe("u", 1)
    publisher = world.client("A", "pub")
    world.run(1)
    publisher.publish("t", b"1", 1)
    publisher.publish("u", b"2", 1)
    world.run(1)
    assert payloads(subscriber) == [b"1", b"2"]
    assert world.nodes["A"].federation.sites.others["S1"].filters.keys() == {"t", "u"}


def test_a_former_coordinators_filters_that_come_late_change_nothing():
    world = SitesWorld("AB", "DE")
    world.client("E", "sub").subscribe("t", 1)
    world.run(1)
    node = world.nodes["A"]
    old = w.SiteFilters(0, 77, 1, True, (("stale", w.ONE),))
    node.federation.receive_from_site("S1", "Z#1", w.encode_frame(old), world.now_ns)
    assert node.federation.sites.others["S1"].filters.keys() == {"t"}


@pytest.mark.parametrize("publisher_at", ["A", "B"])
def test_a_shared_subscription_is_served_once_over_all_sites_and_here_first(publisher_at):
    world = SitesWorld("AB", "DE", "GH")
    far = [world.client(name, f"far{name}") for name in "DEGH"]
    for client in far:
        client.subscribe("$share/g/t", 1)
    publisher = world.client(publisher_at, "pub")
    world.run(1)
    for number in range(40):
        publisher.publish("t", b"%d" % number, 1)
    world.run(1)
    got = [payload for client in far for payload in payloads(client)]
    assert sorted(map(int, got)) == list(range(40)), "each at one member"
    assert all(payloads(client) for client in far), "both sites and all brokers have a part"
    near = world.client("B", "near")
    near.subscribe("$share/g/t", 1)
    world.run(1)
    crossed = len(world.messages())
    publisher.publish("t", b"near", 1)
    world.run(1)
    assert payloads(near) == [b"near"]
    assert len(world.messages()) == crossed


def test_a_shared_message_whose_coordinator_ends_is_served_by_its_successor():
    world = SitesWorld("AB", "DE")
    worker = world.client("E", "worker")
    worker.subscribe("$share/g/t", 1)
    publisher = world.client("A", "pub")
    world.run(1)
    world.nodes["D"].paused = True                       # it gets nothing any more, and then it ends
    publisher.publish("t", b"job", 1)
    world.run(0.1)
    assert payloads(worker) == []
    world.nodes["D"].paused = False
    world.crash("D")
    world.run(2)
    assert payloads(worker) == [b"job"]
    assert not world.nodes["E"].federation.sites.unserved


def test_a_shared_message_for_a_site_whose_last_member_has_just_ended_goes_to_another_site():
    """The publisher's site does not know yet that it has ended."""
    world = SitesWorld("AB", "DE", "GH")
    former, member = world.client("E", "former"), world.client("H", "member")
    for client in (former, member):
        client.subscribe("$share/g/t", 2)
    publisher, plain = world.client("A", "pub"), world.client("D", "plain")
    plain.subscribe("t", 2)
    world.run(1)
    world.nodes["A"].federation.sites._on_filters = lambda *told: None       # type: ignore[method-assign]
    former.unsubscribe("$share/g/t")
    world.run(1)
    for number in range(10):
        publisher.publish("t", b"%d" % number, 2)
    world.run(1)
    assert sorted(map(int, payloads(member))) == list(range(10))
    assert sorted(map(int, payloads(plain))) == list(range(10)), "plain subscribers get it once, from its own site"
    assert world.nodes["D"].federation.counters["given_to_sites"] == 5
    member.unsubscribe("$share/g/t")
    world.run(1)
    publisher.publish("t", b"nobody", 2)
    world.run(1)
    lost = [world.nodes[name].federation.counters["dropped_no_member"] for name in "DG"]
    assert sum(lost) == 1, "it is given on once, and counted"
    assert not any(world.nodes[name].federation.sites.unserved for name in "DEGH")


@pytest.mark.parametrize("publishes_at", ["D", "A"], ids=["its-own-site", "another-site"])
def test_a_shared_message_for_a_broker_whose_last_member_has_just_ended_goes_to_another_site(publishes_at):
    """The broker that chose it does not know yet that it has ended, and no other one of the site has a member: seed
    45104, where it was published in that site."""
    world = SitesWorld("AB", "DE", "GH")
    former, publisher = world.client("E", "former"), world.client(publishes_at, "pub")
    former.subscribe("$share/g/t", 2)
    world.run(1)
    world.nodes["D"].federation.interest_of_peers.change = lambda name, told: []     # type: ignore[method-assign]
    former.disconnect()
    world.run(1)
    member = world.client("H", "member")
    if publishes_at == "A":                              # S1 is chosen, as A does not know of the member of S2
        world.nodes["A"].federation.sites._on_filters = lambda *told: None           # type: ignore[method-assign]
    member.subscribe("$share/g/t", 2)
    world.run(1)
    for number in range(5):
        publisher.publish("t", b"%d" % number, 2)
    world.run(1)
    assert sorted(map(int, payloads(member))) == list(range(5)), "Q6: each message comes to a member, once"
    assert world.nodes["D"].federation.counters["given_to_sites"] == 5
    member.unsubscribe("$share/g/t")
    world.nodes["D"].federation.sites._on_filters = lambda *told: None               # type: ignore[method-assign]
    world.run(1)
    publisher.publish("t", b"nobody", 2)
    world.run(1)
    assert sum(world.nodes[name].federation.counters["dropped_no_member"] for name in "ABDEGH") == 1, "counted"


def test_topics_out_keeps_a_shared_message_in_its_site_whose_last_member_has_just_ended():
    world = SitesWorld("AB", "DE", rules={"S0": {"topics_out": ("other",)}})
    former, member = world.client("B", "former"), world.client("E", "member")
    for client in (former, member):
        client.subscribe("$share/g/t", 2)
    publisher = world.client("A", "pub")
    world.run(1)
    world.nodes["A"].federation.interest_of_peers.change = lambda name, told: []     # type: ignore[method-assign]
    former.disconnect()
    publisher.publish("t", b"1", 2)
    world.run(1)
    assert payloads(member) == []
    assert world.nodes["A"].federation.counters["dropped_no_member"] == 1


def test_what_was_served_is_not_served_again_by_a_successor():
    world = SitesWorld("AB", "DE")
    worker = world.client("E", "worker")
    worker.subscribe("$share/g/t", 1)
    publisher = world.client("A", "pub")
    world.run(1)
    publisher.publish("t", b"job", 1)
    world.run(1)
    assert not world.nodes["E"].federation.sites.unserved
    world.crash("D")
    world.run(2)
    assert payloads(worker) == [b"job"]


def test_retained_messages_and_wills_cross():
    world = SitesWorld("AB", "DE")
    publisher = world.client("A", "pub")
    publisher.publish("kept", b"1", 1, retain=True)
    world.run(1)
    late = world.client("E", "late")
    late.subscribe("kept", 1)
    assert payloads(late) == [b"1"]
    publisher.publish("kept", b"", 1, retain=True)
    world.run(1)
    assert not list(world.nodes["D"].broker.router.retained.matching("#", world.now_ns))


def test_retained_messages_of_a_site_that_was_away_are_compared():
    world = SitesWorld("AB", "DE")
    world.cut["S1"] = []
    world.client("A", "pub").publish("kept", b"1", 1, retain=True)
    world.run(1)
    world.cut["S1"] = []                                 # what was under way is lost
    world.join("S1")
    world.run(20)
    for name in "DE":
        found = list(world.nodes[name].broker.router.retained.matching("#", world.now_ns))
        assert [each.payload for each in found] == [b"1"], name


def test_the_time_to_live_goes_on_while_a_message_is_held():
    publication = Publication("t", b"x", 1, expires_ns=50 * SECOND)
    frame = site_message(w.ForwardedMessage(publication), (), 1_000 * SECOND)
    _, found = read_site_message(frame, 990 * SECOND, 40 * SECOND)
    assert found.expires_ns == 60 * SECOND, "by the wall clock"


@pytest.mark.parametrize("frame", [
    w.SiteMessage(1 << 63, w.message_body(w.ForwardedMessage(Publication("t", b"x")), 0), ()),
    w.SiteMessage(0, w.message_body(w.ForwardedMessage(Publication("t", b"x")), 0), (("S1", "plain"),)),
    w.SiteMessage(0, b"nothing", ()),
], ids=["lives too long", "a target that is not shared", "no message"])
def test_absurd_messages_are_refused(frame):
    with pytest.raises(WireError):
        read_site_message(frame, 0, 0)


def test_any_frames_of_another_site_leave_a_core_that_works():
    world = SitesWorld("AB", "DE")
    rng = Random(1)
    node = world.nodes["A"]
    frames = [w.encode_frame(frame) for frame in (
        w.SiteMessage(0, w.message_body(w.ForwardedMessage(Publication("t", b"x")), 0), (("S0", "$share/g/t"),)),
        w.SiteFilters(9, 9, 9, True, (("a", w.ONE),)), w.SiteDigest(1, 2, 3), w.WantSiteFilters("S0"),
        w.SiteServed(((1, 2),)), w.PeerAck(1, 2), w.TableExchange(w.RETAINED, b"xyz"))]
    for _ in range(3_000):
        data = bytearray(rng.choice(frames))
        for _ in range(rng.randrange(3)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        node.federation.receive_from_site("S1", "D#1", bytes(data), world.now_ns)
    world.nodes["A"].settle()
    subscriber = world.client("D", "sub")
    subscriber.subscribe("after", 1)
    world.run(10)
    world.client("B", "pub").publish("after", b"1", 1)
    world.run(1)
    assert payloads(subscriber) == [b"1"]


def test_without_sites_nothing_is_kept():
    core = FederationCore(FederationOptions(name="A"), Random(1), now_ns=0)
    core.interest("", "a", 1, 1)
    core.drain(0)
    assert core.drain_sites(0) == ([], [])
    assert not core.sites.filters


def test_messages_of_other_sites_are_recorded_under_the_broker_that_they_come_from():
    world = SitesWorld("AB", "CD")
    for node in world.nodes.values():
        node.federation.record = MessageRecord()
    world.client("C", "sub").subscribe("a", qos=1)
    world.run(1)
    world.client("A", "pub").publish("a", b"xy", qos=1)
    world.run(1)
    found = {name: [(run.kind, run.origin, run.topic, run.sizes) for run in node.federation.record.take()]
             for name, node in world.nodes.items()}
    came = "delivered", "A#1", "a", [2]
    assert found == {"A": [("sent", None, "a", [2])], "B": [], "C": [came], "D": [came]}, "RELAY brings it to each"
