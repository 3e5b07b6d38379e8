"""Pure helpers: suspicion times, health, probe order, the queue of updates, pages, tags, configuration."""
from __future__ import annotations

import math
from random import Random

import pytest

from jgroups_py.config.load import load
from jgroups_py.model.address import Address
from jgroups_py.model.errors import ConfigError
from jgroups_py.model.swim_member import BY_DATAGRAM, BY_LINK, REFUSED, Accusation
from jgroups_py.model.units import seconds
from jgroups_py.protocols.swim.awareness import Awareness, after_failed_probe
from jgroups_py.protocols.swim.config import SwimConfig, parse_places
from jgroups_py.protocols.swim.exchange import pages
from jgroups_py.protocols.swim.gossip import MAX_TOPICS, GossipQueue
from jgroups_py.protocols.swim.headers import ALIVE, NODE_STATE, Alive, Nack, NodeState
from jgroups_py.protocols.swim.metadata import pack_tags, unpack_tags
from jgroups_py.protocols.swim.ring import Ring
from jgroups_py.protocols.swim.suspicion import Suspicion, wait_ns, wanted

# --- suspicion --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("confirmed", "seconds_left"), [(0, 30.0), (1, 16.0), (2, 7.81), (3, 2.0), (4, 2.0)])
def test_a_suspicion_takes_the_times_of_memberlists_own_table(confirmed: int, seconds_left: float) -> None:
    assert wait_ns(confirmed, 3, seconds(2), seconds(30)) == pytest.approx(seconds(seconds_left), abs=seconds(0.01))


def test_in_a_group_too_small_for_confirmations_the_shortest_time_counts() -> None:
    assert wait_ns(0, 0, seconds(2), seconds(30)) == seconds(2)
    assert [wanted(4, nodes) for nodes in (2, 3, 4, 50)] == [0, 0, 2, 2]


def test_an_accuser_confirms_once_and_hearsay_never() -> None:
    suspicion = Suspicion(0, 3, seconds(2), seconds(30), [Accusation("B", BY_DATAGRAM, 0)])
    added = [suspicion.confirm(Accusation(by, 0, 1)) for by in ("B", "", "C", "C", "D")]
    assert added == [False, False, True, False, True]
    assert suspicion.confirmed() == 2
    assert suspicion.deadline_ns() == wait_ns(2, 3, seconds(2), seconds(30))


def test_confirmations_beyond_the_wanted_number_are_not_spread() -> None:
    suspicion = Suspicion(0, 1, seconds(2), seconds(30), [Accusation("B", 0, 0), Accusation("C", 0, 0)])
    assert not suspicion.confirm(Accusation("D", 0, 1))


def test_evidence_names_the_accuser_and_the_paths() -> None:
    assert str(Accusation("B", BY_DATAGRAM | BY_LINK | REFUSED, 0)) == "B: no answer by datagram, link, link refused"
    assert str(Accusation("", 0, 0)) == "hearsay: no answer"

# --- health -----------------------------------------------------------------------------------------------------------


def test_health_stays_in_its_range_and_stretches_probes() -> None:
    health = Awareness(7)
    health.change(-1)
    assert (health.score, health.scaled(10)) == (0, 10)
    health.change(100)
    assert (health.score, health.scaled(10)) == (7, 80)


@pytest.mark.parametrize(("asked", "nacks", "change"), [(0, 0, 1), (3, 3, 0), (3, 1, 2), (3, 0, 3)])
def test_a_failed_probe_lowers_health_unless_helpers_send_nacks(asked: int, nacks: int, change: int) -> None:
    assert after_failed_probe(asked, nacks) == change

# --- the ring ---------------------------------------------------------------------------------------------------------


def all_names(name: str) -> bool:
    return True


def test_each_node_is_probed_once_a_round() -> None:
    ring = Ring(Random(1))
    names = [f"m{number}" for number in range(20)]
    for name in names:
        ring.add(name)
    ring.at = len(ring)                                    # a new round
    assert sorted(str(ring.next(all_names)) for _ in names) == sorted(names)


def test_names_that_come_and_go_neither_repeat_nor_skip_others_in_a_round() -> None:
    kept = [f"m{number}" for number in range(6)]
    for seed in range(200):
        rng = Random(seed)
        ring = Ring(Random(seed))
        for name in (*kept, "gone1", "gone2"):
            ring.add(name)
        ring.at = len(ring)
        seen = []
        for step in range(8):
            if step == rng.randrange(8):
                ring.remove(rng.choice(("gone1", "gone2")))
                ring.add(f"new{step}")
            seen.append(ring.next(lambda name: name in kept))
            if len(seen) == len(kept):
                break
        assert sorted(map(str, seen)) == kept, seed


def test_an_empty_or_unwanted_ring_has_no_next() -> None:
    ring = Ring(Random(1))
    assert ring.next(all_names) is None
    ring.add("a")
    assert ring.next(lambda name: False) is None


def test_a_pick_has_as_many_different_names_as_there_are() -> None:
    ring = Ring(Random(1))
    for number in range(10):
        ring.add(str(number))
    for number in (0, 1, 3, 9, 10, 50):
        picked = ring.pick(number, all_names)
        assert len(dict.fromkeys(picked)) == len(picked) == min(number, 10)

# --- gossip -----------------------------------------------------------------------------------------------------------


def test_updates_sent_least_often_go_first_newest_before_oldest_up_to_the_limit() -> None:
    gossip = GossipQueue()
    for number in range(3):
        gossip.put(number, Nack(number))
    one = 11                                               # bytes of a Nack
    assert gossip.take(2 * one, 2) == [Nack(2), Nack(1)]
    assert gossip.take(2 * one, 2) == [Nack(0), Nack(1)]
    assert gossip.take(2 * one, 2) == [Nack(0), Nack(2)]
    assert (gossip.take(2 * one, 2), len(gossip)) == ([], 0)


def test_a_newer_update_about_a_topic_replaces_the_older_one_and_counts_anew() -> None:
    gossip = GossipQueue()
    gossip.put("a", Nack(1))
    gossip.take(100, 3)
    gossip.put("a", Nack(2))
    assert [gossip.take(100, 3) for _ in range(4)] == [[Nack(2)]] * 3 + [[]]


def test_updates_that_do_not_fit_wait_for_a_larger_frame() -> None:
    gossip = GossipQueue()
    gossip.put("a", Nack(1))
    assert gossip.take(10, 3) == []
    assert gossip.take(11, 3) == [Nack(1)]


def test_the_queue_is_bounded_and_drops_what_was_sent_most() -> None:
    gossip = GossipQueue()
    gossip.put("sent", Nack(0))
    gossip.take(11, 9)
    for number in range(MAX_TOPICS):
        gossip.put(number, Nack(number))
    assert len(gossip) == MAX_TOPICS
    assert "sent" not in gossip.level_of

# --- pages ------------------------------------------------------------------------------------------------------------


def test_pages_hold_every_state_once_and_none_is_too_large() -> None:
    member = Address(bytes(16), "")
    states = [NodeState(Alive(1, f"node-{number}", None, member, None, bytes(number)), ALIVE) for number in range(60)]
    found = list(pages(states, 500))
    assert [state for page in found for state in page] == states
    for page in found:
        out = bytearray()
        for state in page:
            NODE_STATE.write(state, out)
        assert len(out) <= 500 or len(page) == 1
    assert len(found) < len(states)


def test_an_empty_table_is_one_empty_page() -> None:
    assert list(pages([], 500)) == [()]

# --- tags -------------------------------------------------------------------------------------------------------------


def test_tags_are_the_bytes_that_serf_writes() -> None:
    assert pack_tags({"role": "web"}) == b"\xff\x81\xa4role\xa3web"
    assert pack_tags({}) == b""


@pytest.mark.parametrize(
    "tags", [{}, {"a": ""}, {"role": "web", "text": "ä" * 100}, {f"k{n}": str(n) for n in range(20)}])
@pytest.mark.parametrize("weight", [1.0, 0.25, 12345678.5])
def test_tags_and_weight_decode_to_what_was_encoded(tags: dict[str, str], weight: float) -> None:
    assert unpack_tags(pack_tags(tags, weight)) == (tags, weight)


def test_metadata_of_any_bytes_never_raises() -> None:
    rng = Random(7)
    good = pack_tags({"role": "web", "long": "x" * 40}, 2)
    for _ in range(3000):
        data = bytearray(good)
        for _ in range(rng.randint(1, 4)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        tags, weight = unpack_tags(bytes(data[:rng.randint(0, len(data))]))
        assert weight > 0
        assert math.isfinite(weight)
        assert all(isinstance(text, str) for pair in tags.items() for text in pair)
    assert unpack_tags(b"web") == ({"role": "web"}, 1.0)


@pytest.mark.parametrize(("tags", "weight", "message"), [
    ({"a": "x" * 600}, 1.0, "at most 512"), ({}, 0.0, "not a positive number"), ({}, math.inf, "not a positive number"),
    ({"weight": "2"}, 1.0, "reserved for the member's weight")])
def test_tags_that_cannot_travel_are_refused(tags: dict[str, str], weight: float, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        pack_tags(tags, weight)

# --- configuration ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("profile", "values"), [
    ("memberlist-lan", (1, 0.5, 3, 4, 0.2, 3, 30, 4)), ("memberlist-wan", (5, 3, 3, 6, 0.5, 4, 60, 4)),
    ("memberlist-local", (1, 0.2, 1, 3, 0.1, 3, 15, 2))])
def test_a_profile_gives_the_values_of_memberlist_from_python_and_from_a_file(
    profile: str, values: tuple[float, ...],
) -> None:
    for config in (SwimConfig(profile=profile), load([("UDP", {"ip_mcast": "false"}), ("SWIM", {"profile": profile})])
                   .config_of("SWIM")):
        assert values == (
            config.probe_interval_ns / 1e9, config.probe_timeout_ns / 1e9, config.indirect_checks,
            config.suspicion_mult, config.gossip_interval_ns / 1e9, config.gossip_nodes,
            config.push_pull_interval_ns / 1e9, config.retransmit_mult)


def test_a_property_overrides_its_profile() -> None:
    written = {"profile": "memberlist-wan", "probe_interval": "4s", "k": "all"}
    config = load([("UDP", {"ip_mcast": "false"}), ("SWIM", written)]).config_of("SWIM")
    assert (config.probe_interval_ns, config.probe_timeout_ns) == (seconds(4), seconds(3))
    assert config.indirect_checks == "all"


@pytest.mark.parametrize(("properties", "message"), [
    ({"profile": "memberlist-mars"}, "is not one of memberlist-lan, memberlist-wan, memberlist-local"),
    ({"k": "some"}, "neither a number of helpers nor 'all'"), ({"k": "-1"}, "neither a number of helpers"),
    ({"probe_timeout": "1s"}, "leaves no time for indirect probes"), ({"tags": "role"}, "is not written key=value"),
    ({"weight": "heavy"}, "not a positive number"), ({"initial_hosts": "10.0.0.1"}, "is no address; write host"),
])
def test_a_wrong_property_is_refused_with_what_is_allowed(properties: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load([("UDP", {"ip_mcast": "false"}), ("SWIM", properties)])


def test_places_are_written_in_two_ways() -> None:
    assert parse_places("a[1], b:2") == parse_places([("a", 1), ("b", 2)]) == (("a", 1), ("b", 2))
