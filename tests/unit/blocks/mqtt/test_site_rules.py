"""topics_in and topics_out: what leaves a site, what enters it, and which site a message goes to."""
from __future__ import annotations

from random import Random
from typing import Any

import pytest

from jgroups_py.blocks.anti_entropy.replica import PUSH
from jgroups_py.blocks.mqtt.broker.publication import Publication
from jgroups_py.blocks.mqtt.codec.packets import PubAckPacket, Will
from jgroups_py.blocks.mqtt.federation import wire as w
from jgroups_py.blocks.mqtt.federation.site_rules import TopicRules, filters_meet
from jgroups_py.blocks.mqtt.federation.sites import site_message
from jgroups_py.blocks.mqtt.federation.tables import retained_value, table_replica
from tests.unit.blocks.mqtt.sites_world import SitesWorld, payloads
from tests.unit.blocks.mqtt.test_handover import roaming

LEVELS = ("a", "b", "$x", "")
FILTER_LEVELS = ("+", "a", "b", "$x", "")


def kept(world: SitesWorld, name: str) -> dict[str, bytes]:
    """The retained messages of a node."""
    return {each.topic: each.payload for each in world.nodes[name].broker.router.retained.matching("#", world.now_ns)}


def counted(world: SitesWorld, site: str, counter: str) -> int:
    return sum(world.nodes[name].federation.counters[counter] for name in world.sites[site])


def drawn_filter(rng: Random) -> str:
    levels = [rng.choice(FILTER_LEVELS) for _ in range(rng.randint(1, 3))] + ["#"] * (rng.random() < 0.4)
    return "/".join(levels) or "#"


def test_two_filters_meet_if_a_topic_matches_both():
    rng = Random(3)
    topics = ["/".join(levels) for levels in [
        *([one] for one in LEVELS), *([one, two] for one in LEVELS for two in LEVELS),
        *([one, two, three] for one in LEVELS for two in LEVELS for three in LEVELS),
        *([one, two, three, "a"] for one in LEVELS for two in LEVELS for three in LEVELS)]]
    met = 0
    for _ in range(3_000):
        one, other = drawn_filter(rng), drawn_filter(rng)
        both = any(TopicRules([one]).passes(topic) and TopicRules([other]).passes(topic) for topic in topics)
        assert filters_meet(one, other) == filters_meet(other, one) == both, (one, other)
        met += both
    assert 500 < met < 2_900


def test_a_message_that_one_site_wants_does_not_come_to_the_others():
    world = SitesWorld("AB", "DE", "GH")
    there, far = world.client("E", "there"), world.client("G", "far")
    there.subscribe("a/+", 1)
    far.subscribe("b", 1)
    publisher = world.client("A", "pub")
    world.run(1)
    world.came.clear()
    for topic in ("a/1", "b", "a/2"):
        publisher.publish(topic, topic.encode(), 1)
    world.run(1)
    assert (payloads(there), payloads(far)) == ([b"a/1", b"a/2"], [b"b"])
    came = [site for site, frame in world.came if isinstance(frame, w.SiteMessage)]
    assert (came.count("S1"), came.count("S2")) == (4, 2), "at two brokers each"


def test_a_site_whose_filters_are_not_known_gets_what_another_one_wants():
    world = SitesWorld("AB", "DE")
    world.client("E", "there").subscribe("a", 1)
    publisher = world.client("A", "pub")
    world.run(1)
    node = world.nodes["A"]
    node.federation.sites_changed("S0", {"S1": ("UP", ("D#1",)), "S9": ("UP", ("Z#1",))}, True, 1, world.now_ns)
    publisher.publish("a", b"1", 1)
    assert world.named[-1] is None, "all sites"
    node.federation.sites.others["S9"].incarnation = 1   # its filters have come, and there are none
    publisher.publish("a", b"2", 1)
    assert world.named[-1] == ("S1",)


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_what_topics_out_does_not_name_stays_and_is_acknowledged(qos):
    world = SitesWorld("AB", "DE", rules={"S0": {"topics_out": ("out/#",)}})
    here, there = world.client("B", "here"), world.client("D", "there")
    for client in (here, there):
        client.subscribe("#", 2)
    publisher = world.client("A", "pub")
    world.run(1)
    world.came.clear()
    publisher.publish("in/1", b"stays", qos)
    publisher.publish("out/1", b"leaves", qos)
    world.run(1)
    assert payloads(here) == [b"stays", b"leaves"]
    assert payloads(there) == [b"leaves"]
    assert b"stays" not in b"".join(w.encode_frame(frame) for _, frame in world.came)
    assert counted(world, "S0", "kept_in_site") == 1
    assert qos != 1 or publisher.has(PubAckPacket)


def test_what_topics_in_does_not_name_does_not_come_and_its_filters_are_not_announced():
    world = SitesWorld("AB", "DE", rules={"S1": {"topics_in": ("a/+", "b/#")}})
    there = world.client("E", "there")
    for filter in ("#", "c/d", "a/1/x", "+/1", "b"):
        there.subscribe(filter, 1)
    publisher = world.client("A", "pub")
    world.run(1)
    known = world.nodes["A"].federation.sites.others["S1"]
    assert set(known.filters) == {"#", "+/1", "b"}
    assert known.lets_in.filters == ("a/+", "b/#")
    world.came.clear()
    for topic in ("a/1", "c/1", "b", "b/2/3", "a/1/x"):
        publisher.publish(topic, topic.encode(), 1)
    world.run(1)
    assert payloads(there) == [b"a/1", b"b", b"b/2/3"]
    assert sum(isinstance(frame, w.SiteMessage) for _, frame in world.came) == 6, "three messages at two brokers"
    assert counted(world, "S1", "dropped_topics_in") == 0


def test_a_site_drops_and_counts_what_it_does_not_let_in_whoever_sends_it():
    world = SitesWorld("AB", "DE", rules={"S1": {"topics_in": ("a",)}})
    plain, member = world.client("D", "plain"), world.client("D", "member")
    plain.subscribe("#", 1)
    member.subscribe("$share/g/b", 1)
    world.run(1)
    node = world.nodes["D"]
    message = Publication("b", b"1", 1)
    message.origin, message.number = 7, 1
    frame = site_message(w.ForwardedMessage(message), (("S1", "$share/g/b"),), 0)
    node.federation.receive_from_site("S0", "A#1", w.encode_frame(frame), world.now_ns)
    node.settle()
    world.run(1)
    assert (payloads(plain), payloads(member)) == ([], [])
    assert node.federation.counters["dropped_topics_in"] == 1
    assert not node.federation.sites.unserved


def test_a_will_stays_in_its_site_too():
    world = SitesWorld("AB", "DE", rules={"S0": {"topics_out": ("a",)}})
    there = world.client("D", "there")
    there.subscribe("#", 1)
    world.run(1)
    for topic in ("a", "b"):
        world.client("A", f"will-{topic}", will=Will(topic, topic.encode(), 1, False)).cut()
    world.run(1)
    assert payloads(there) == [b"a"]


def test_a_shared_subscription_is_served_by_a_site_that_lets_the_topic_in():
    world = SitesWorld("AB", "DE", "GH", rules={"S1": {"topics_in": ("job/1",)}})
    one, two = world.client("D", "one"), world.client("G", "two")
    for client in (one, two):
        client.subscribe("$share/g/job/+", 1)
    publisher = world.client("A", "pub")
    world.run(1)
    for number in range(20):
        publisher.publish(f"job/{number % 2}", b"%d" % number, 1)
    world.run(1)
    assert sorted(map(int, payloads(one) + payloads(two))) == list(range(20)), "each at one member"
    assert {int(payload) % 2 for payload in payloads(one)} == {1}


def test_a_session_keeps_what_had_entered_and_moves_with_it():
    world = SitesWorld("AB", "DE", rules={"S1": {"topics_in": ("a",)}})
    client = roaming(world, "D")
    client.subscribe("#", 1)
    world.run(1)
    client.cut()
    publisher = world.client("A", "pub")
    publisher.publish("a", b"1", 1)
    publisher.publish("b", b"2", 1)
    world.run(1)
    assert client.go(world, "E") is not None
    assert payloads(client) == [b"1"]


# --- retained messages ------------------------------------------------------------------------------------------------

def test_retained_messages_cross_by_the_rules_and_no_key_of_the_others_does():
    world = SitesWorld("AB", "DE", "GH", rules={"S0": {"topics_out": ("out/#",), "topics_in": ("in/#",)}})
    for name, topics in (("A", ("out/1", "own/secret")), ("D", ("in/1", "other/1"))):
        publisher = world.client(name, f"pub{name}")
        for topic in topics:
            publisher.publish(topic, topic.encode(), 1, retain=True)
    world.run(20)
    assert kept(world, "B") == {"out/1": b"out/1", "own/secret": b"own/secret", "in/1": b"in/1"}
    for name in "DEGH":
        assert kept(world, name) == {"out/1": b"out/1", "in/1": b"in/1", "other/1": b"other/1"}
    assert b"secret" not in b"".join(w.encode_frame(frame) for site, frame in world.came if site != "S0")
    assert counted(world, "S0", "dropped_topics_in") == 0, "it was not even sent"


def test_retained_messages_that_were_missed_come_by_comparison_in_each_direction():
    world = SitesWorld("AB", "DE", rules={"S0": {"topics_out": ("out/#",), "topics_in": ("in/#",)}})
    one, other = world.client("A", "one"), world.client("D", "other")
    one.publish("out/cleared", b"x", 1, retain=True)
    world.run(5)
    world.cut["S1"] = []
    one.publish("out/1", b"1", 1, retain=True)
    one.publish("own", b"secret", 1, retain=True)
    one.publish("out/cleared", b"", 1, retain=True)
    other.publish("in/1", b"2", 1, retain=True)
    other.publish("other", b"3", 1, retain=True)
    for number in range(100):                            # more than a leaf of the tree
        one.publish(f"out/many/{number}", b"m", 1, retain=True)
    world.run(2)
    world.cut["S1"] = []                                 # what was under way is lost
    world.came.clear()
    world.join("S1")
    world.run(30)
    for name in "AB":
        assert {topic: payload for topic, payload in kept(world, name).items() if "many" not in topic} == {
            "out/1": b"1", "own": b"secret", "in/1": b"2"}, name
    for name in "DE":
        assert len(kept(world, name)) == 103
        assert {topic: payload for topic, payload in kept(world, name).items() if "many" not in topic} == {
            "out/1": b"1", "in/1": b"2", "other": b"3"}, name
    crossed = b"".join(w.encode_frame(frame) for _, frame in world.came)
    assert b"secret" not in crossed
    assert b"own" not in crossed


def test_what_a_site_has_written_itself_since_stays_there_and_is_not_overwritten():
    world = SitesWorld("AB", "DE", rules={"S0": {"topics_out": ("t",), "topics_in": ("nothing",)}})
    world.client("A", "one").publish("t", b"theirs", 1, retain=True)
    world.run(3)
    world.client("D", "other").publish("t", b"ours", 1, retain=True)
    world.run(10)
    assert [kept(world, name)["t"] for name in "ABDE"] == [b"theirs", b"theirs", b"ours", b"ours"]
    world.came.clear()
    world.run(10)
    pushed = [frame for _, frame in world.came if isinstance(frame, w.TableExchange) and frame.message[0] == PUSH]
    assert not pushed, "comparisons that find it send no value"


def push(topic: str, payload: bytes | None, wall_ns: int) -> bytes:
    """A write of a broker elsewhere."""
    value = None if payload is None else retained_value(Publication(topic, payload, 1), 0, 5)
    return table_replica(Random(9)).write(topic.encode(), value, wall_ns)[1]


@pytest.mark.parametrize("table", [w.RETAINED, w.GIVEN, w.TAKEN])
def test_retained_messages_that_are_not_let_in_are_dropped_in_whatever_frame_they_come(table):
    world = SitesWorld("AB", "DE", rules={"S1": {"topics_in": ("a",)}})
    node = world.nodes["D"]
    wall_ns = world.now_ns + node.federation.wall_offset_ns
    for topic in ("a", "b"):
        frame = w.TableExchange(table, push(topic, b"1", wall_ns))
        node.federation.receive_from_site("S0", "A#1", w.encode_frame(frame), world.now_ns)
    node.settle()
    assert kept(world, "D") == {"a": b"1"}
    assert node.federation.counters["dropped_topics_in"] == 1


def test_a_site_with_rules_compares_whole_tables_with_nobody():
    world = SitesWorld("AB", "DE", rules={"S0": {"topics_out": ("a",)}})
    world.client("A", "pub").publish("secret", b"1", 1, retain=True)
    world.run(2)
    node = world.nodes["A"]
    world.came.clear()
    empty = table_replica(Random(4))
    for message in (empty.begin(world.now_ns), b"\x03\x00\x00\x00\x00\x01\x00\x00\x00\x06secret",
                    b"\x04\x00\x00\x00\x01\x00\x00\x00\x06secret"):
        frame = w.TableExchange(w.RETAINED, message)
        node.federation.receive_from_site("S1", "D#1", w.encode_frame(frame), world.now_ns)
        node.settle()
    world.run(1)
    assert node.federation.counters["dropped_topics_out"] == 3
    assert b"secret" not in b"".join(w.encode_frame(frame) for _, frame in world.came)


def test_a_request_for_an_entry_that_is_not_given_is_not_answered():
    world = SitesWorld("AB", "DE", rules={"S0": {"topics_out": ("a",)}})
    publisher = world.client("A", "pub")
    for topic in ("a", "secret"):
        publisher.publish(topic, topic.encode() * 2, 1, retain=True)
    world.run(2)
    node = world.nodes["A"]
    world.came.clear()
    for key in (b"a", b"secret"):
        pull = b"\x03\x00\x00\x00\x01" + len(key).to_bytes(4, "big") + key
        frame = w.TableExchange(w.TAKEN, pull)
        node.federation.receive_from_site("S1", "D#1", w.encode_frame(frame), world.now_ns)
        node.settle()
    world.run(1)
    crossed = b"".join(w.encode_frame(frame) for _, frame in world.came)
    assert b"aa" in crossed
    assert b"secret" not in crossed


def test_what_becomes_of_a_topic_at_other_sites():
    world = SitesWorld("AB", "DE", "GH", rules={"S0": {"topics_out": ("out/#", "job")}, "S2": {"topics_in": ("job",)}})
    world.client("D", "sub").subscribe("out/+", 1)
    world.run(2)

    def way(topic: str) -> list[tuple[Any, ...]]:
        found = world.nodes["B"].federation.sites.way_of(topic)
        return [(each["site"], each["gets"], each["why"]) for each in found["sites"]]
    assert way("out/1") == [("S1", True, ""), ("S2", False, "topics_in of S2 does not let it in")]
    assert way("own") == [(site, False, "topics_out of this site does not let it out") for site in ("S1", "S2")]
    assert way("job") == [(site, False, "no client there wants it") for site in ("S1", "S2")]
    assert world.nodes["B"].federation.sites.way_of("job")["leaves_site"]
    report = world.nodes["A"].federation.sites.report("job")
    assert [(each["site"], each["topics_in"], each["lets_in"]) for each in report] == [
        ("S1", [], True), ("S2", ["job"], True)]
