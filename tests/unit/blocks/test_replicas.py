"""Partitions with replicas, without a network: leaders, writes, reads, moving; acceptance case 12 of the reference."""
from __future__ import annotations

from collections import Counter

import attrs
import pytest

from jgroups_py.blocks.replication.host import StoreExistsError
from jgroups_py.blocks.replication.messages import ReplyStatus, Verb
from jgroups_py.blocks.replication.options import Options
from jgroups_py.blocks.replication.outputs import Health
from jgroups_py.blocks.replication.quorums import Configuration
from jgroups_py.model.units import millis, seconds
from jgroups_py.testing.simulation.ledger import values_of
from tests.unit.blocks.replica_hosts import Cluster

DETECTION_NS = seconds(1)


# --- acceptance -------------------------------------------------------------------------------------------------------

def test_accept_3_12_reads_are_balanced_over_the_replicas() -> None:
    cluster = Cluster("ABCDE")
    routing = cluster.routing()
    cluster.write(routing, b"x")
    cluster.run(millis(20))
    served = Counter(cluster.call(routing, Verb.READ).by for _ in range(9000))
    assert sorted(served) == cluster.members()
    assert all(2850 <= number <= 3150 for number in served.values())


def test_accept_3_12_a_write_to_a_follower_takes_one_redirect() -> None:
    cluster = Cluster("ABCDE")
    follower = next(name for name in cluster.members() if name != cluster.leader())
    routing = cluster.routing()
    operation = routing.begin(0, Verb.WRITE, b"x")
    reply = cluster.ask(follower, operation)
    assert reply is not None
    assert not routing.replied(operation, follower, reply)
    assert routing.target(operation) == cluster.leader()
    assert cluster.call(routing, Verb.WRITE, b"y").operation.redirects == 0          # it knows the way now


def test_accept_3_12_no_acknowledged_write_is_lost_when_the_leader_is_killed() -> None:
    """10,000 writes; the clocks count from the kill to the first acknowledgement."""
    cluster = Cluster("ABC")
    routing = cluster.routing()
    places = [cluster.write(routing, str(number).encode()) for number in range(5000)]
    leader, killed_ns = cluster.leader(), cluster.now_ns
    cluster.crash(leader)
    cluster.run(DETECTION_NS)
    cluster.view([name for name in "ABC" if name != leader])
    places += [cluster.write(routing, b"5000")]
    assert cluster.now_ns - killed_ns <= DETECTION_NS + seconds(2)
    places += [cluster.write(routing, str(number).encode()) for number in range(5001, 10_000)]
    values = values_of(cluster.call(routing, Verb.STRONG).reply.data)
    assert [values[place] for place in places] == [str(number).encode() for number in range(10_000)]


# --- leaders ----------------------------------------------------------------------------------------------------------

def test_the_preferred_member_leads_and_all_know_it() -> None:
    cluster = Cluster("ABCDE", partitions=8)
    for partition in range(8):
        leader = cluster.leader(partition)
        assert leader == cluster.hosts["A"].target(partition)[0].name
        assert {host.leader_of[partition].name for host in cluster.hosts.values()} == {leader}


def test_a_leader_hands_over_once_in_a_view_to_the_preferred_one() -> None:
    """Who was asked to lead and is too slow for it would be asked again by each leader elected in its place."""
    cluster = Cluster("ABC")
    preferred, other, _ = (host.name for host in cluster.hosts["A"].target(0))
    leaders = []
    for _ in range(2):
        cluster.replica(other).electing.stand()
        cluster.run(seconds(5))
        leaders.append(cluster.leader())
    assert leaders == [preferred, other]
    cluster.view("ABC")
    cluster.run(seconds(5))
    assert cluster.leader() == preferred


@pytest.mark.parametrize("latency_ms", [100, 160, 300, 500])
def test_slow_messages_do_not_split_the_vote(latency_ms: int) -> None:
    """Both remaining replicas request votes before either gets the other's request: one withdraws; late votes count."""
    cluster = Cluster("ABC")
    epoch = cluster.replica(cluster.leader()).term.epoch
    cluster.latency_ns = millis(latency_ms)
    cluster.crash(cluster.leader())
    cluster.view([*cluster.hosts])
    least_ns = cluster.options.elect_ns + 6 * cluster.latency_ns       # asked, elected, the first entry acknowledged
    assert cluster.run_until(lambda: bool(cluster.leaders()), least_ns)
    assert cluster.replica(cluster.leader()).term.epoch == epoch + 1


def test_a_new_leader_sends_its_first_entry_at_once_however_long_the_log_is() -> None:
    cluster = Cluster("ABC", options=Options(window_entries=4))
    routing = cluster.routing()
    for number in range(10):
        cluster.write(routing, str(number).encode())
    cluster.crash(cluster.leader())
    cluster.view([*cluster.hosts])
    assert cluster.run_until(lambda: bool(cluster.leaders()), cluster.options.elect_ns + 6 * cluster.latency_ns)


def test_only_the_half_with_a_majority_of_the_replicas_has_a_leader() -> None:
    cluster = Cluster("ABC")
    leader, *others = cluster.members()
    cluster.split([leader], others)
    cluster.run(seconds(2))
    assert cluster.leader() in others
    assert not cluster.replica(leader).term.is_leader


def test_a_majority_of_the_members_is_not_a_majority_of_the_replicas() -> None:
    cluster = Cluster("ABCDEFG")
    replicas = cluster.members()
    others = [name for name in "ABCDEFG" if name not in replicas]
    cluster.split(replicas[:2], [replicas[2], *others])
    cluster.run(seconds(2))
    assert cluster.leader() in replicas[:2]


def test_a_leader_that_has_not_heard_of_the_split_acknowledges_nothing() -> None:
    cluster = Cluster("ABC")
    old = cluster.leader()
    others = [name for name in "ABC" if name != old]
    cluster.cut = {(one, other): None for one in "ABC" for other in "ABC" if old in (one, other)}
    cluster.view(others)                                       # the old one is in its old view
    operation = cluster.routing().begin(0, Verb.WRITE, b"late")
    assert cluster.ask(old, operation) is None
    assert cluster.ask(old, cluster.routing().begin(0, Verb.STRONG, b"")) is None
    assert cluster.replica(old).term.is_leader
    cluster.run(seconds(1))
    cluster.write(cluster.routing(), b"new")
    cluster.merge("ABC")
    cluster.run(seconds(1))
    assert cluster.values(old) == [b"new"]


def test_a_write_that_was_not_acknowledged_is_asked_for_again_and_happens_once() -> None:
    cluster = Cluster("ABC")
    routing, leader = cluster.routing(), cluster.leader()
    operation = routing.begin(0, Verb.WRITE, b"once")
    others = [name for name in "ABC" if name != leader]
    cluster.cut = {(name, leader): None for name in others}   # it reaches them, their answers get lost
    assert cluster.ask(leader, operation) is None
    cluster.cut = {(one, other): None for one in "ABC" for other in "ABC" if leader in (one, other)}
    cluster.view(others)
    cluster.run(seconds(1))
    reply = cluster.ask(cluster.leader(), operation)
    assert reply is not None
    assert reply.status == ReplyStatus.OK
    assert cluster.values(others[0]) == [b"once"]


def test_the_leader_steps_down_where_its_view_has_no_majority_and_says_so() -> None:
    cluster = Cluster("ABC")
    leader = cluster.leader()
    cluster.split([leader], [name for name in "ABC" if name != leader])
    reply = cluster.ask(leader, cluster.routing().begin(0, Verb.WRITE, b"x"))
    assert reply is not None
    assert (reply.status, reply.leader) == (ReplyStatus.REDIRECT, None)


def test_the_replica_that_has_what_was_acknowledged_is_elected() -> None:
    cluster = Cluster("ABC")
    first, second, third = (member.name for member in cluster.hosts["A"].preference(0, cluster.hosts["A"].members))
    cluster.cut = {(first, second): None}
    place = cluster.write(cluster.routing(), b"kept")         # by the first and the third
    cluster.crash(first)
    cluster.cut = {}
    cluster.view([second, third])
    cluster.run(seconds(2))
    assert cluster.values(second)[place] == cluster.values(third)[place] == b"kept"


def test_a_change_of_replicas_needs_the_old_majority_too() -> None:
    """The leader and the new replica, a majority of the new configuration, decide nothing by themselves."""
    cluster = Cluster("ABCD")
    leader = cluster.leader()
    (spare,) = [name for name in "ABCD" if name not in cluster.members()]
    others = [name for name in cluster.members() if name != leader]
    cluster.hosts[others[0]].vacate(cluster.now_ns)
    cluster._settle(others[0])
    cluster.run(millis(5))
    cluster.cut = {(one, other): None for one in (leader, spare) for other in others}
    cluster.cut.update({(other, one): None for one, other in cluster.cut})
    cluster.run(seconds(1))
    assert spare in [member.name for member in cluster.replica(leader).state.configuration.members]
    assert cluster.replica(leader).state.configuration.old
    assert cluster.ask(leader, cluster.routing().begin(0, Verb.WRITE, b"not acknowledged")) is None
    cluster.view(others)
    cluster.run(seconds(1))
    cluster.write(cluster.routing(), b"by the old majority")
    cluster.merge("ABCD")
    cluster.run(seconds(3))
    for name in cluster.members():
        assert cluster.values(name) == [b"by the old majority"]


# --- moving -----------------------------------------------------------------------------------------------------------

def test_a_dead_replica_is_replaced_and_the_new_one_gets_the_data() -> None:
    cluster = Cluster("ABCD", options=Options(settle_ns="100ms", keep_entries=5, piece_bytes="1K"))
    routing = cluster.routing()
    values = [f"value {number}".encode() for number in range(500)]
    for value in values:
        cluster.write(routing, value)
    dead = next(name for name in cluster.members() if name != cluster.leader())
    (spare,) = [name for name in "ABCD" if name not in cluster.members()]
    cluster.crash(dead)
    cluster.view([name for name in "ABCD" if name != dead])
    cluster.run(seconds(3))
    assert spare in cluster.members()
    assert cluster.values(spare) == values
    assert cluster.hosts[spare].counters["states_loaded"] == 1


def test_who_restarts_is_a_new_member_and_gets_its_partitions_back() -> None:
    cluster = Cluster("ABC", partitions=4)
    routing = cluster.routing()
    for partition in range(4):
        cluster.write(routing, b"x", partition)
    cluster.crash("B")
    cluster.view("AC")
    cluster.run(seconds(1))
    cluster.start("B")
    cluster.view("ACB")
    cluster.run(seconds(5))
    for partition in range(4):
        assert cluster.members(partition) == ["A", "B", "C"]
        assert cluster.values("B", partition) == [b"x"]
        assert cluster.leader(partition) == cluster.hosts["A"].target(partition)[0].name


def test_a_member_that_was_only_away_is_not_replaced_by_nobody() -> None:
    """Two of three: the third stays in the configuration, so that one alone never decides."""
    cluster = Cluster("ABC")
    cluster.split("AB", "C")
    cluster.run(seconds(3))
    assert cluster.members() == ["A", "B", "C"]
    cluster.split("A", "B", "C")
    cluster.run(seconds(3))
    assert cluster.leaders() == []


def test_an_old_replica_gives_up_its_data_and_its_vote_stays_bound() -> None:
    cluster = Cluster("ABCD")
    routing = cluster.routing()
    cluster.write(routing, b"x")
    (spare,) = [name for name in "ABCD" if name not in cluster.members()]
    gone = next(name for name in cluster.members() if name != cluster.leader())
    stay = [name for name in cluster.members() if name != gone]
    cluster.split([*stay, spare], [gone])
    cluster.run(seconds(3))
    assert spare in cluster.members()
    cluster.hosts[gone].vacate(cluster.now_ns)                 # so that it is not wanted back
    cluster.merge("ABCD")
    cluster.run(seconds(3))
    assert cluster.replica(gone).state.hollow
    assert cluster.replica(gone).state.log.stop > 1
    assert cluster.values(gone) == []


def test_who_dropped_its_data_elects_nobody_who_knows_less() -> None:
    """Who slept through the change counts on one that has dropped its data: their old majority is none."""
    cluster = Cluster("ABCD")
    leader = cluster.leader()
    asleep, gone = [name for name in cluster.members() if name != leader]
    cluster.cut = {(name, asleep): None for name in "ABCD"}
    cluster.write(cluster.routing(), b"not known to the sleeper")
    cluster.hosts[gone].vacate(cluster.now_ns)
    cluster._settle(gone)
    cluster.run(seconds(3))
    assert cluster.replica(gone).state.hollow
    assert gone in [member.name for member in cluster.replica(asleep).state.configuration.members]
    for name in "ABCD":
        if name not in (asleep, gone):
            cluster.crash(name)
    cluster.cut = {}
    cluster.view([asleep, gone])
    cluster.run(seconds(5))
    assert cluster.leaders() == []


def test_vacating_moves_everything_elsewhere() -> None:
    cluster = Cluster("ABCD", partitions=6)
    routing = cluster.routing()
    for partition in range(6):
        cluster.write(routing, b"x", partition)
    cluster.hosts["A"].vacate(cluster.now_ns)
    cluster._settle("A")
    cluster.run(seconds(5))
    assert cluster.hosts["A"].is_empty
    for partition in range(6):
        assert cluster.members(partition) == ["B", "C", "D"]
        assert cluster.values("B", partition) == [b"x"]


def test_a_leader_that_leads_itself_out_is_needed_until_that_is_committed() -> None:
    """The new replica needs the vote of the leaving leader until it has received that the change is committed."""
    cluster = Cluster("AB", replicas=1)
    leader = cluster.leader()
    (newcomer,) = {"A", "B"} - {leader}
    cluster.write(cluster.routing(), b"x")
    cluster.hosts[leader].vacate(cluster.now_ns)
    cluster._settle(leader)
    replica = cluster.replica(leader)
    last = Configuration((cluster.hosts[newcomer].me,))
    assert cluster.run_until(lambda: replica.state.configuration == last, seconds(2))
    assert not cluster.hosts[leader].is_empty
    cluster.split(leader, newcomer)                        # what was under way is lost
    cluster._flights.clear()
    cluster.run(seconds(3))
    assert cluster.leaders() == []
    cluster.merge("AB")
    assert cluster.run_until(lambda: cluster.leaders() == [newcomer], seconds(5)), "no leader for ever"
    assert cluster.values(newcomer) == [b"x"]
    assert cluster.run_until(lambda: cluster.hosts[leader].is_empty, seconds(2))


def test_vacating_without_others_keeps_what_is_needed() -> None:
    cluster = Cluster("ABC")
    cluster.hosts["A"].vacate(cluster.now_ns)
    cluster._settle("A")
    cluster.run(seconds(3))
    assert cluster.members() == ["A", "B", "C"]
    assert not cluster.hosts["A"].is_empty


def test_under_replication_is_reported_and_its_end_too() -> None:
    cluster = Cluster("ABC")
    cluster.crash("C")
    cluster.view("AB")
    cluster.run(seconds(2))
    assert [attrs.astuple(health) for health in cluster.health] == [(0, 2, 3)]
    cluster.start("C")
    cluster.view("ABC")
    cluster.run(seconds(3))
    assert attrs.astuple(cluster.health[-1]) == (0, 3, 3)
    assert isinstance(cluster.health[-1], Health)


def test_a_sole_replica_that_dies_takes_its_partition_with_it() -> None:
    cluster = Cluster("AB", replicas=1)
    name = cluster.leader()
    other = "B" if name == "A" else "A"
    cluster.crash(name)
    cluster.view(other)
    cluster.run(seconds(3))
    assert cluster.leaders() == []
    reply = cluster.ask(other, cluster.routing().begin(0, Verb.STRONG, b""))
    assert reply is not None
    assert (reply.status, reply.leader) == (ReplyStatus.REDIRECT, None)


# --- reads ------------------------------------------------------------------------------------------------------------

def test_a_replica_that_lags_does_not_answer_a_client_that_has_seen_more() -> None:
    cluster = Cluster("ABC")
    routing, leader = cluster.routing(), cluster.leader()
    follower = next(name for name in "ABC" if name != leader)
    cluster.cut = {(leader, follower): None}
    cluster.write(routing, b"new")
    for _ in range(6):
        call = cluster.call(routing, Verb.READ)
        assert values_of(call.reply.data) == [b"new"]
        assert call.by != follower


def test_a_request_about_no_store_is_answered_so() -> None:
    cluster = Cluster("ABC")
    reply = cluster.ask("A", cluster.routing().begin(99, Verb.READ, b""))
    assert reply is not None
    assert reply.status == ReplyStatus.NO_STORE


def test_a_store_is_created_once() -> None:
    cluster = Cluster("ABC")
    with pytest.raises(StoreExistsError, match="1 partitions already"):
        cluster.hosts["B"].create(b"another", 2, 2, cluster.now_ns)


def test_create_needs_sensible_numbers() -> None:
    assert len(Cluster("A", 3, 1).hosts["A"].parts) == 3


@pytest.mark.parametrize(("partitions", "replicas"), [(0, 3), (1 << 21, 3), (4, 0), (4, 16)])
def test_numbers_out_of_range_are_refused(partitions: int, replicas: int) -> None:
    with pytest.raises(ValueError, match="1 to"):
        Cluster("A", partitions, replicas)


def test_bytes_that_are_no_message_are_counted() -> None:
    cluster = Cluster("AB", replicas=2)
    for data in (b"", b"\xff", b"\x0a\x00", b"\x01" + bytes(40)):
        cluster.hosts["A"].receive(cluster.hosts["B"].me, data, cluster.now_ns)
    assert cluster.hosts["A"].counters["malformed"] == 4
