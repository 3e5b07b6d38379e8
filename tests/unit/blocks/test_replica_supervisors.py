"""Supervisors of replicated partitions: from when on a new leader knows that no earlier one has answered anybody."""
from __future__ import annotations

import pytest

from jgroups_py.blocks.replication.electing import Electing
from jgroups_py.blocks.replication.messages import LeaderContact, Verb
from jgroups_py.blocks.replication.supervisor import Supervisor
from jgroups_py.model.address import Address
from jgroups_py.model.units import millis, seconds
from jgroups_py.testing.simulation.ledger import Records
from tests.unit.blocks.replica_hosts import LATENCY_NS, Cluster

EXCLUDED_NS = seconds(6)                   # a leader that is cut off
SOON_NS = millis(1) + 4 * LATENCY_NS       # contacts are told in whole milliseconds


class Noted(Supervisor):
    """Notes what it is asked. found: what the machine had when it began."""

    def __init__(self, since_ns: int, found: list[bytes]) -> None:
        self.since_ns = since_ns
        self.found = found
        self.questions: list[tuple[bytes, int]] = []

    @property
    def next_deadline_ns(self) -> int | None:
        return None

    def advance(self, now_ns: int) -> list[bytes]:
        return []

    def applied(self, now_ns: int) -> None:
        pass

    def asked(self, query: bytes, now_ns: int) -> None:
        self.questions.append((query, now_ns))

    def answer(self, query: bytes) -> bytes | None:
        return None

    def gone(self, member: Address, now_ns: int) -> None:
        pass


class Supervised(Records):
    """A machine with such a supervisor."""

    def begin_supervisor(self, since_ns: int) -> Noted:
        return Noted(since_ns, list(self.values))


def supervisor(cluster: Cluster, name: str) -> Noted:
    leadership = cluster.replica(name).leading.leadership
    assert leadership is not None
    assert isinstance(leadership.supervisor, Noted)
    return leadership.supervisor


def cut_off(cluster: Cluster) -> tuple[str, int]:
    """The leader is cut off after a last write, and excluded. Returns the next leader, and when the write was done."""
    cluster.write(cluster.routing(), b"last")
    cluster.run(millis(100))
    done_ns, former = cluster.now_ns, cluster.leader()
    others = [name for name in "ABC" if name != former]
    cluster.cut = {(one, other): None for name in others for one, other in ((name, former), (former, name))}
    cluster.run(EXCLUDED_NS)
    cluster.view([former], others)
    assert cluster.run_until(lambda: any(name in cluster.leaders() for name in others), seconds(2))
    return next(name for name in cluster.leaders() if name != former), done_ns


def test_a_new_leader_knows_when_its_voters_were_in_contact_with_the_former_one() -> None:
    cluster = Cluster("ABC", machine=Supervised)
    leader, done_ns = cut_off(cluster)
    assert done_ns - millis(100) - SOON_NS <= supervisor(cluster, leader).since_ns <= done_ns + SOON_NS
    assert cluster.now_ns > done_ns + EXCLUDED_NS


def test_a_voter_that_does_not_say_so_counts_as_in_contact_until_its_vote(monkeypatch: pytest.MonkeyPatch) -> None:
    """A member of an earlier release."""
    def unknown(self: Electing, message: LeaderContact, src: Address) -> None:
        """Messages of kinds that are not known are dropped."""
    monkeypatch.setattr(Electing, "on_contact", unknown)
    cluster = Cluster("ABC", machine=Supervised)
    leader, done_ns = cut_off(cluster)
    assert done_ns + EXCLUDED_NS <= supervisor(cluster, leader).since_ns <= cluster.now_ns


def test_the_last_contact_of_all_voters_counts() -> None:
    """One of two followers is cut off from the leader before the other one is."""
    cluster = Cluster("ABC", machine=Supervised)
    former = cluster.leader()
    early, late = (name for name in "ABC" if name != former)
    cluster.cut = {(early, former): None, (former, early): None}
    cluster.run(seconds(3))
    cluster.write(cluster.routing(), b"confirmed by the other one")
    done_ns = cluster.now_ns
    cluster.crash(former)
    cluster.run(EXCLUDED_NS)
    cluster.view([early, late])
    assert cluster.run_until(lambda: bool(cluster.leaders()), seconds(2))
    assert supervisor(cluster, cluster.leader()).since_ns >= done_ns - SOON_NS


def test_a_leader_was_in_contact_with_itself_until_it_stepped_down() -> None:
    cluster = Cluster("ABC", machine=Supervised)
    former = cluster.leader()
    cluster.run(seconds(3))
    stepped_down_ns = cluster.now_ns
    cluster.split("A", "B", "C")                           # no part has a majority
    assert not cluster.replica(former).term.is_leader
    cluster.run(seconds(1))
    cluster.merge("ABC")
    assert cluster.run_until(lambda: former in cluster.leaders(), seconds(2))
    assert stepped_down_ns <= supervisor(cluster, former).since_ns < stepped_down_ns + SOON_NS


def elected(cluster: Cluster) -> str:
    """The leader crashes; a new one that has not committed its first entry yet."""
    cluster.latency_ns = millis(50)
    cluster.crash(cluster.leader())
    cluster.view([*cluster.hosts])

    def leads() -> list[str]:
        return [name for name in cluster.hosts if cluster.replica(name).term.is_leader]
    assert cluster.run_until(lambda: bool(leads()), seconds(5))
    leader = leads()[0]
    assert not cluster.replica(leader).is_ready
    return leader


def test_reads_that_came_before_the_supervisor_are_asked_when_it_begins() -> None:
    cluster = Cluster("ABC", machine=Supervised)
    leader = elected(cluster)
    came_ns = cluster.now_ns
    assert cluster.ask(leader, cluster.routing().begin(0, Verb.STRONG, b"renewal")) is not None
    [(query, asked_ns)] = supervisor(cluster, leader).questions
    assert query == b"renewal"
    assert supervisor(cluster, leader).since_ns < came_ns <= asked_ns


def test_a_supervisor_begins_before_writes_of_its_epoch_are_carried_out() -> None:
    cluster = Cluster("ABC", machine=Supervised)
    cluster.write(cluster.routing(), b"before")
    leader = elected(cluster)
    [other] = (name for name in cluster.hosts if name != leader)
    cluster.cut = {(leader, other): None}                  # the first entry is lost, and comes again with the next one
    assert cluster.ask(leader, cluster.routing().begin(0, Verb.WRITE, b"new")) is None
    cluster.cut = {}
    assert cluster.run_until(lambda: cluster.values(leader) == [b"before", b"new"], seconds(5))
    assert supervisor(cluster, leader).found == [b"before"]
