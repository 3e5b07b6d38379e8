"""The link to gmqtt, against a model of gmqttd v0.5.0 with its faults, on a virtual network."""
from __future__ import annotations

from random import Random

import pytest

from jgroups_py.blocks.mqtt.broker.publication import SECOND
from jgroups_py.blocks.mqtt.codec.packets import Properties
from jgroups_py.blocks.mqtt.gmqtt.link import GmqttRefusal
from jgroups_py.blocks.mqtt.gmqtt.wire import ack_bytes
from tests.unit.blocks.mqtt.gmqttd_model import API, UNWRITABLE, Model, Network, Ours, cut


def federation(*models: str, **options: object) -> tuple[Network, Ours, list[Model]]:
    """Our node among these, all joined and greeted."""
    network = Network()
    ours = Ours(network, "ours", **options)
    nodes = [Model(network, name) for name in models]
    for name in network.nodes:
        network.up(name)
    network.run(2)
    return network, ours, nodes


def numbers(got: list[tuple[str, bytes]]) -> list[int]:
    return [int(payload) for _, payload in got]


def test_filters_and_messages_go_both_ways():
    network, ours, (one, two) = federation("node1", "node2")
    ours.subscribe("up/#")
    two.subscribe("down/+")
    network.run(1)
    one.publish("up/a", b"1")
    one.publish("other", b"2")
    ours.publish("down/a", b"3")
    ours.publish("down/a/b", b"4")
    network.run(1)
    assert (ours.got, one.got, two.got) == ([("up/a", b"1")], [], [("down/a", b"3")])
    assert ours.link.counters["messages_sent"] == 1


def test_interest_crosses_the_wire_at_its_first_and_last_subscriber_only():
    network, ours, (one,) = federation("node1")
    ours.subscribe("a")
    network.run(1)
    sent = ours.link.counters["events_sent"]
    ours.link.interest("", "a", 2, 2)
    network.run(1)
    assert ours.link.counters["events_sent"] == sent
    ours.subscribe("short")
    ours.unsubscribe("short")                            # before it could be sent
    ours.unsubscribe("a")
    network.run(1)
    assert ours.link.counters["events_sent"] == sent + 1
    assert list(one.fed.filters()) == []


def test_a_clean_start_brings_filters_first_and_then_retained_messages():
    network = Network()
    ours = Ours(network, "ours")
    ours.subscribe("a/#")
    ours.subscribe("$share/g/b")
    ours.publish("kept", b"x", retained=True)
    one = Model(network, "node1")
    network.up("node1")
    network.run(1)
    assert dict(one.fed.filters()) == {"a/#": 1, "$share/g/b": 1}
    assert one.retained["kept"].payload == b"x"          # type: ignore[attr-defined]
    assert one.sessions["ours"].next_id == 3


def test_the_publisher_is_acknowledged_when_all_peers_have_it():
    network, ours, (one, two) = federation("node1", "node2")
    one.subscribe("a")
    two.subscribe("a")
    network.run(1)
    token = ours.publish("a", b"1")
    assert token
    assert ours.publish("a", b"2", qos=0) == 0
    assert ours.publish("b", b"3") == 0
    assert ours.released == []
    network.run(1)
    assert ours.released == [token]


def test_cuts_lose_nothing_and_bring_nothing_twice():
    network, ours, (one,) = federation("node1")
    ours.subscribe("up")
    one.subscribe("down")
    network.run(1)
    rng = Random(5)
    for number in range(2_000):
        ours.publish("down", b"%d" % number)
        one.publish("up", b"%d" % number)
        if number % 100 == 50:
            cut(network, "ours", "node1")
            cut(network, "node1", "ours")
        network.run(rng.choice((0.0, 0.0005, 0.003)))
        if number % 100 == 50:
            network.run(3)
    network.run(5)
    assert numbers(one.got) == list(range(2_000))
    assert numbers(ours.got) == list(range(2_000))
    assert ours.link.counters["clean_starts"] == 1
    assert ours.link.counters["resumed"] == 20


def test_a_peer_that_fails_and_comes_back_gets_what_was_published_meanwhile():
    network, ours, (one,) = federation("node1")
    one.subscribe("a")
    network.run(1)
    network.down("node1")                                # as Serf sees it at ours; node1 lives, and sees ours as failed
    one.gone("ours", False)
    for number in range(300):
        assert ours.publish("a", b"%d" % number) == 0    # nothing waits for a peer that failed
    network.run(10)
    one.joined("ours")
    ours.joined("node1")
    network.run(5)
    assert numbers(one.got) == list(range(300))


def test_what_waits_for_a_peer_is_dropped_when_it_leaves_or_stays_away():
    network, ours, (one, two) = federation("node1", "node2", keep_peer_s=30)
    for node in (one, two):
        node.subscribe("a")
    network.run(1)
    for name in ("node1", "node2"):
        network.down(name)
        network.nodes[name].gone("ours", False)
    ours.publish("a", b"1")
    network.run(1)
    ours.gone("node2", True)
    assert ours.link.counters["dropped_peer_gone"] == 1
    assert list(ours.link.peers) == ["node1"]
    network.run(30)
    assert ours.link.counters["dropped_peer_gone"] == 2
    assert list(ours.link.filters_of_peers.filters()) == []


def test_a_full_queue_drops_its_oldest_and_says_so():
    network, ours, (one,) = federation("node1", queue_bytes=10_000)
    one.subscribe("a")
    network.run(1)
    network.down("node1")
    one.gone("ours", False)
    for number in range(100):
        ours.publish("a", b"%d" % number)
    dropped = ours.link.counters["dropped_queue_full"]
    assert 0 < dropped < 100
    assert ours.link.peers["node1"].queue_bytes <= 10_000
    one.joined("ours")
    ours.joined("node1")
    network.run(5)
    assert numbers(one.got) == list(range(dropped, 100))
    (report,) = ours.link.report()
    assert report["accepted"] == 100 == report["acknowledged"] + report["queued"] + sum(report["dropped"].values())


@pytest.mark.parametrize("by_message", [False, True], ids=["X3-reset-seen-by-the-sender", "X4-correlation-data"])
def test_a_dead_link_of_gmqttd_is_healed_by_leaving_and_joining_again(by_message: bool):
    network, ours, (one, two) = federation("node1", "node2")
    ours.subscribe("up")
    one.subscribe("down")
    network.run(1)
    if by_message:
        one.publish("up", b"0", correlation_data=UNWRITABLE)
    else:
        cut(network, "node1", "ours", seen_by_sender=True)
    network.run(9)
    one.publish("up", b"1")                              # lost: gmqttd sends nothing any more
    assert (ours.rejoins, ours.got) == (0, [])
    network.run(10)
    assert ours.rejoins == 1
    one.publish("up", b"2")
    two.publish("up", b"3")
    ours.publish("down", b"4")
    network.run(2)
    assert ours.got == [("up", b"2"), ("up", b"3")]
    assert one.got == [("down", b"4")]
    network.run(100)
    assert ours.rejoins == 1


def test_a_node_that_never_says_hello_is_healed_once_a_minute_at_most():
    network = Network()
    ours = Ours(network, "ours")
    one = Model(network, "node1")
    one.joined = lambda name: None                       # type: ignore[method-assign]
    network.up("node1")
    network.run(125)
    assert ours.rejoins == 2
    assert ours.link.counters["hellos_refused"] > 10


def test_correlation_data_that_is_not_utf_8_never_goes_to_gmqtt():
    network, ours, (one,) = federation("node1")
    one.subscribe("a")
    network.run(1)
    ours.publish("a", b"1", properties=Properties(correlation_data=b"\xff\xfe\x80", content_type="x"))
    ours.publish("a", b"2", properties=Properties(correlation_data="ü".encode(), user_properties=(("k", "v"),)))
    network.run(1)
    assert numbers(one.got) == [1, 2]
    assert one.last["a"].correlation_data == "ü"         # type: ignore[attr-defined]
    assert ours.link.counters["properties_to_peers"] == 1


def test_properties_arrive_and_what_mqtt_does_not_allow_is_left_out():
    network, ours, (one,) = federation("node1")
    ours.subscribe("#")
    network.run(1)
    one.publish("a", b"1", content_type="text", correlation_data="c", response_topic="r", payload_format=1,
                message_expiry=60, user_properties=[API["UserProperty"](K=b"k", V=b"v")])
    one.publish("a", b"2", content_type="a\0b", response_topic="r/#", payload_format=2,
                user_properties=[API["UserProperty"](K=b"k", V=b"\xff")])
    network.run(1)
    good, bad = ours.publications
    assert good.properties == Properties(
        content_type="text", correlation_data=b"c", response_topic="r", payload_format_indicator=1,
        message_expiry_interval=60, user_properties=(("k", "v"),))
    assert 59 <= (good.expires_ns - network.now_ns) / SECOND <= 60
    assert bad.properties == Properties()
    assert ours.link.counters["properties_from_peers"] == 4


def test_events_with_absurd_values_are_acknowledged_counted_and_dropped():
    network, ours, (one,) = federation("node1")
    ours.subscribe("#")
    network.run(1)
    one.tell(lambda: API["Event"](message=API["Message"](topic_name="a/#", payload=b"x")))
    one.tell(lambda: API["Event"](message=API["Message"](topic_name="a", qos=3)))
    one.tell(lambda: API["Event"](message=API["Message"](topic_name="$SYS/x")))
    one.tell(lambda: API["Event"](message=API["Message"](topic_name="x" * 70_000)))
    one.tell(lambda: API["Event"](message=API["Message"](topic_name="/" * 1000)))
    one.tell(lambda: one.subscribe_event("a+"))
    one.tell(lambda: one.subscribe_event("$share/g"))
    one.tell(lambda: API["Event"](unsubscribe=API["Unsubscribe"](topic_name="")))
    one.tell(lambda: API["Event"]())
    one.publish("good", b"1")
    network.run(1)
    assert ours.got == [("good", b"1")]
    assert ours.link.counters["bad_events"] == 9
    assert one.peers["ours"].events == []                # all are acknowledged, or they would come for ever


def test_bytes_that_are_no_event_are_counted_and_end_nothing():
    network, ours, (one,) = federation("node1")
    ours.subscribe("a")
    network.run(1)
    rng = Random(7)
    stream = ours.incoming[0]
    next_id = ours.link.peers["node1"].incoming.next_id  # type: ignore[union-attr]
    for _ in range(3_000):
        ours.take(stream, b"\xff" + rng.randbytes(rng.randrange(40)))
    assert ours.link.counters["malformed"] == 3_000
    assert ours.link.peers["node1"].incoming.next_id == next_id      # type: ignore[union-attr]
    one.publish("a", b"1")
    network.run(1)
    assert ours.got == [("a", b"1")]


def test_random_bytes_at_every_call_do_no_harm():
    network, ours, (one,) = federation("node1")
    one.subscribe("b")
    ours.subscribe("a")
    network.run(1)
    rng = Random(8)
    peer = ours.link.peers["node1"]
    for _ in range(2_000):
        data = rng.randbytes(rng.randrange(12))
        ours.link.acknowledged("node1", peer.attempt, data, network.now_ns)
        ours.link.greeted("node1", peer.attempt, data, network.now_ns)
    network.run(5)
    ours.publish("b", b"1")
    one.publish("a", b"2")
    network.run(5)
    assert (ours.got, one.got) == ([("a", b"2")], [("b", b"1")])


def test_an_absurd_answer_to_hello_begins_a_new_session():
    network, ours, (one,) = federation("node1")
    one.subscribe("a")
    network.run(1)
    before = ours.link.peers["node1"].session
    one.sessions["ours"].next_id = 10**12
    cut(network, "ours", "node1")
    network.run(5)
    assert ours.link.peers["node1"].session != before
    ours.publish("a", b"1")
    network.run(1)
    assert one.got == [("a", b"1")]


def test_non_members_and_old_streams_are_refused():
    network, ours, _ = federation("node1")
    with pytest.raises(GmqttRefusal, match=r"^Hello: the node \[other\] has not yet joined$"):
        ours.link.hello("other", b"", network.now_ns)
    with pytest.raises(GmqttRefusal, match="does not exist"):
        ours.link.stream_began("other", network.now_ns)
    old = ours.link.stream_began("node1", network.now_ns)
    new = ours.link.stream_began("node1", network.now_ns)
    with pytest.raises(GmqttRefusal, match="has been closed"):
        ours.link.event("node1", old, b"", network.now_ns)
    assert new > old
    assert ours.link.counters["non_members"] == 2


def test_retained_messages_come_and_go_and_an_empty_one_clears():
    network, ours, (one,) = federation("node1")
    ours.subscribe("kept")
    network.run(1)
    one.publish("kept", b"1", retained=True)
    network.run(1)
    assert ours.retained.get("kept", network.now_ns) is not None
    one.publish("kept", b"", retained=True)
    network.run(1)
    assert ours.retained.get("kept", network.now_ns) is None
    assert ours.got == [("kept", b"1"), ("kept", b"")]


def test_retained_messages_of_a_clean_start_that_are_known_do_not_come_again():
    network, ours, (one,) = federation("node1")
    ours.subscribe("#")
    network.run(1)
    for number in range(20):
        one.publish(f"kept/{number}", b"x", retained=True)
    network.run(1)
    assert len(ours.got) == 20
    one.peers["ours"].session = "another process"
    cut(network, "node1", "ours")
    network.run(2)
    assert len(ours.got) == 20                           # X7: gmqttd's own subscribers get them again
    assert ours.link.counters["retained_known"] == 20
    one.publish("kept/3", b"x", retained=True)           # the same value once more, but as news
    network.run(1)
    assert ours.got[20:] == [("kept/3", b"x")]


def test_retained_messages_that_another_peer_has_are_not_sent_to_a_new_one():
    network, ours, (one,) = federation("node1")
    one.publish("theirs", b"1", retained=True)
    ours.publish("ours", b"2", retained=True)
    network.run(1)
    sent = ours.link.counters["messages_sent"]
    Model(network, "node2")
    network.up("node2")
    network.run(2)
    assert ours.link.counters["messages_sent"] == sent + 1
    two = network.nodes["node2"]
    assert isinstance(two, Model)
    assert {topic: message.payload for topic, message in two.retained.items()} == {   # type: ignore[attr-defined]
        "theirs": b"1", "ours": b"2"}


def test_after_a_conflict_both_have_what_was_set_here():
    network = Network()
    ours, one = Ours(network, "ours"), Model(network, "node1")
    ours.publish("kept", b"ours", retained=True)
    one.publish("kept", b"theirs", retained=True)
    network.up("ours")
    network.run(2)
    assert ours.retained.get("kept", network.now_ns).payload == b"ours"        # type: ignore[union-attr]
    assert one.retained["kept"].payload == b"ours"       # type: ignore[attr-defined]


def test_an_older_retained_message_does_not_take_the_place_of_a_newer_one():
    network, ours, (one,) = federation("node1")
    network.down("node1")
    one.gone("ours", False)
    ours.publish("kept", b"old", retained=True)
    ours.publish("kept", b"new", retained=True)
    network.run(1)
    one.joined("ours")
    ours.joined("node1")
    network.run(5)
    assert one.retained["kept"].payload == b"new"        # type: ignore[attr-defined]


def test_one_member_of_each_group_gets_a_message():
    network, ours, (one, two) = federation("node1", "node2")
    for node, groups in ((ours, "gh"), (one, "g"), (two, "h")):
        for group in groups:
            node.subscribe(f"$share/{group}/t")
    network.run(1)
    for number in range(600):
        ours.publish("t", b"%d" % number)
    network.run(5)
    total = len(ours.got) + len(one.got) + len(two.got)
    assert total == 1_200
    assert (len(one.got), len(two.got)) == (300, 300)


def test_a_peer_that_gets_a_message_anyhow_serves_its_groups_with_it():
    network, ours, (one, two) = federation("node1", "node2")
    one.subscribe("t")
    for node in (ours, one, two):
        node.subscribe("$share/g/t")
    network.run(1)
    for number in range(100):
        ours.publish("t", b"%d" % number)
    network.run(5)
    assert (len(ours.got), len(one.got), len(two.got)) == (0, 200, 0)


def test_groups_are_served_once_where_peers_have_several_of_them():
    network, ours, (one, two) = federation("node1", "node2")
    for filter in ("$share/g/t", "$share/h/t"):
        one.subscribe(filter)
        two.subscribe(filter)
    network.run(1)
    for number in range(1_000):                          # X5: gmqttd gives each message twice to both
        ours.publish("t", b"%d" % number)
    network.run(5)
    assert len(one.got) + len(two.got) == 2_000


def test_a_message_that_expires_in_the_queue_is_not_sent():
    network, ours, (one,) = federation("node1")
    one.subscribe("a")
    network.run(1)
    network.down("node1")
    one.gone("ours", False)
    for seconds in (1, 60):
        ours.publish("a", b"%d" % seconds, expires_ns=network.now_ns + seconds * SECOND)
    network.run(10)
    one.joined("ours")
    ours.joined("node1")
    network.run(5)
    assert numbers(one.got) == [60]
    assert one.last["a"].message_expiry in (49, 50)      # type: ignore[attr-defined]
    assert ours.link.counters["dropped_expired"] == 1


# --- one by one -------------------------------------------------------------------------------------------------------

def test_an_event_that_comes_twice_is_carried_out_once_and_acknowledged_twice():
    network, ours, (one,) = federation("node1")
    ours.subscribe("a")
    network.run(1)
    event = API["Event"](id=one.peers["ours"].next_id, message=API["Message"](topic_name="a", payload=b"1"))
    for _ in range(2):
        assert ours.take(ours.incoming[0], event.SerializeToString()) == ack_bytes(event.id)
    assert ours.got == [("a", b"1")]
    assert ours.link.counters["repeated_events"] == 1


def test_ids_that_a_peer_leaves_out_are_counted():
    network, ours, (one,) = federation("node1")
    one.peers["ours"].next_id += 5
    one.subscribe("a")
    network.run(1)
    assert ours.link.counters["missed_events"] == 5
    assert dict(ours.link.filters_of_peers.filters()) == {"a": 1}


def test_a_hello_that_no_stream_follows_is_healed_too():
    network, ours, (one,) = federation("node1")
    one.peers["ours"].is_dead = True                     # from now on it is only our hand that says Hello
    cut(network, "node1", "ours", seen_by_sender=True)
    network.run(5)
    ours.hello("node1", API["ClientHello"](session_id="new").SerializeToString())
    network.run(9)
    assert ours.rejoins == 0
    network.run(2)
    assert ours.rejoins == 1


def test_the_filters_of_an_earlier_process_of_a_peer_are_forgotten():
    network, ours, (one,) = federation("node1")
    for filter in ("a", "b"):
        one.subscribe(filter)
    network.run(1)
    one.local.unsubscribe("a", "client")                 # the new process has one of them only
    one.peers["ours"].session = "another process"
    cut(network, "node1", "ours")
    network.run(2)
    assert dict(ours.link.filters_of_peers.filters()) == {"b": 1}


def test_a_node_is_not_chosen_for_a_group_if_it_would_serve_another_one_twice():
    network, ours, (one, two, three) = federation("node1", "node2", "node3")
    for node, groups in ((one, "gh"), (two, "h"), (three, "g")):
        for group in groups:
            node.subscribe(f"$share/{group}/t")
    network.run(1)
    for number in range(100):
        ours.publish("t", b"%d" % number)
    network.run(2)
    assert len(one.got) + len(two.got) + len(three.got) == 200
    assert min(len(one.got), len(two.got), len(three.got)) > 0


def test_a_node_that_was_chosen_for_one_group_serves_its_others():
    network, ours, (one, two) = federation("node1", "node2")
    one.subscribe("$share/g/t")
    one.subscribe("$share/h/t")
    two.subscribe("$share/h/t")
    network.run(1)
    for number in range(100):
        ours.publish("t", b"%d" % number)
    network.run(2)
    assert (len(one.got), len(two.got)) == (200, 0)


def test_an_acknowledgement_of_what_was_never_sent_is_not_believed():
    network, ours, (one,) = federation("node1")
    one.subscribe("a")
    network.run(1)
    token = ours.publish("a", b"1")
    ours.link.drain(network.now_ns)                      # under way, and never arrives
    peer = ours.link.peers["node1"]
    ours.link.acknowledged("node1", peer.attempt, ack_bytes(10**15), network.now_ns)
    assert (len(peer.under_way), ours.released) == (1, [])
    ours.link.acknowledged("node1", peer.attempt - 1, ack_bytes(peer.first_id), network.now_ns)
    assert (len(peer.under_way), ours.released) == (1, [])
    ours.link.acknowledged("node1", peer.attempt, ack_bytes(peer.first_id), network.now_ns)
    assert (len(peer.under_way), ours.released) == (0, [token])


def test_what_a_peer_keeps_of_a_cleared_message_does_not_come_to_subscribers():
    network, ours, (one,) = federation("node1")
    ours.subscribe("#")
    ours.publish("kept", b"1", retained=True)
    ours.publish("kept", b"", retained=True)
    network.run(1)
    assert one.retained["kept"].payload == b""           # type: ignore[attr-defined]
    ours.got.clear()
    one.peers["ours"].session = "another process"
    cut(network, "node1", "ours")
    network.run(2)
    assert ours.got == []
    assert ours.retained.get("kept", network.now_ns) is None


def test_the_stream_to_a_peer_that_only_seems_to_have_failed_goes_on():
    network, ours, (one,) = federation("node1")
    one.subscribe("a")
    network.run(1)
    ours.gone("node1", False)
    ours.publish("a", b"1")
    network.run(0.1)
    assert one.got == [("a", b"1")]
    assert ours.link.counters["streams_ended"] == 0


def test_a_clean_start_with_messages_under_way():
    network, ours, (one,) = federation("node1")
    one.subscribe("a")
    one.subscribe("kept")
    network.run(1)
    ours.publish("a", b"0", qos=0)
    ours.publish("a", b"1")
    ours.publish("kept", b"2", retained=True)
    ours.link.drain(network.now_ns)                      # under way, and never arrives
    one.sessions.pop("ours")
    cut(network, "ours", "node1")
    network.run(2)
    assert one.got == [("kept", b"2"), ("a", b"1")]      # QoS 0 is not repeated, what is retained came with the rest
    assert ours.link.counters["dropped_in_flight_qos_0"] == 1
    (report,) = ours.link.report()
    assert (report["accepted"], report["acknowledged"]) == (3, 2)


def test_only_what_the_peer_lacks_is_sent_again():
    network, ours, (one,) = federation("node1")
    one.subscribe("a")
    network.run(1)
    for number in range(10):
        ours.publish("a", b"%d" % number)
    ours.carry_out()
    network.run(0.0015)                                  # they have arrived; the acknowledgements are on their way
    cut(network, "ours", "node1")
    network.run(2)
    assert ours.link.counters["events_resent"] == 0
    assert len(one.got) == 10


def test_no_more_is_under_way_than_the_window_allows():
    network, ours, (one,) = federation("node1", window_events=10, window_bytes=10_000)
    one.subscribe("a")
    network.run(1)
    for _ in range(30):
        ours.publish("a", b"1")
    ours.link.drain(network.now_ns)
    peer = ours.link.peers["node1"]
    assert (len(peer.under_way), len(peer.queue)) == (10, 20)
    ours.link.acknowledged("node1", peer.attempt, ack_bytes(peer.first_id + 9), network.now_ns)
    for _ in range(3):
        ours.publish("a", bytes(6_000))
    ours.link.drain(network.now_ns)
    assert (len(peer.under_way), len(peer.queue)) == (10, 13)


def test_hello_is_repeated_after_growing_times():
    network = Network()
    ours = Ours(network, "ours", heal_s=1_000)
    one = Model(network, "node1")
    one.joined = lambda name: None                       # type: ignore[method-assign]
    network.up("node1")
    network.run(4.9)
    assert ours.link.counters["hellos_sent"] == 4        # at 0, 0.5, 1.5, 3 s
    network.run(10)
    assert ours.link.counters["hellos_sent"] == 9        # then each 2 s
