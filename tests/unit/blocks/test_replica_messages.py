"""The messages about partitions as bytes, and clients' routing."""
from __future__ import annotations

from random import Random

import pytest

from jgroups_py.blocks.placement import Candidate
from jgroups_py.blocks.replication import PartitionUnavailableError, ReplicaClient, partition_of
from jgroups_py.blocks.replication import messages as m
from jgroups_py.blocks.replication.log import ReplicatedEntry
from jgroups_py.blocks.replication.quorums import Configuration
from jgroups_py.blocks.replication.routing import Routing
from jgroups_py.model.address import Address
from jgroups_py.model.errors import MemberLeftError, NotConnectedError, WireError
from jgroups_py.wire.codec import Interner

A, B, C = (Address(bytes([number]) * 16, name) for number, name in enumerate("ABC", 1))
JOINT = Configuration((A, B), (A, C))
ENTRIES = (ReplicatedEntry(7), ReplicatedEntry(7, b"id", b"data"), ReplicatedEntry(8, change=JOINT))
STORE = (b"name", 16, 3)

GOLDEN: tuple[tuple[m.ReplicationMessage, str], ...] = (
    (m.HostHello(2, "z", True, STORE), "010000000200017a0101000000046e616d650000001003"),
    (m.Create(STORE, ((A, 2, "z"),)),
     "02000000046e616d65000000100300000001010101010101010101010101010101010001410000000200017a"),
    (m.Leads(5, 7, 2, (A,), (A, B)),
     "030000000500000000000000070000000000000002000000010101010101010101010101010101010100014100000002010101010101010101"
     "0101010101010100014102020202020202020202020202020202000142"),
    (m.PreVote(5, 7, 9), "0a0000000500000000000000070000000000000009"),
    (m.PreVoted(5, 7, True), "0b00000005000000000000000701"),
    (m.Vote(5, 8, 7, 9), "0c00000005000000000000000800000000000000070000000000000009"),
    (m.Voted(5, 8, False), "0d00000005000000000000000800"),
    (m.TakeOver(5, 8), "0e000000050000000000000008"),
    (m.LeaderContact(5, 8, 300), "0f000000050000000000000008000000000000012c"),
    (m.Append(5, 8, 2, 3, 9, 7, 4, ENTRIES), ""),
    (m.Appended(5, 8, 3, True, 12), "15000000050000000000000008000000000000000301000000000000000c"),
    (m.ContentPiece(5, 8, 2, 9, 7, JOINT, 0, 3, b"abc"), ""),
    (m.ContentStored(5, 8, 9, 3), "1700000005000000000000000800000000000000090000000000000003"),
    (m.PartitionRequest(5, 1, m.Verb.WRITE, b"id", 0, b"data"),
     "1e0000000500000000000000010200000002696400000000000000000000000464617461"),
    (m.PartitionReply(5, 1, m.ReplyStatus.REDIRECT, 9, A, (), b""),
     "1f00000005000000000000000101000000000000000901010101010101010101010101010101010001410000000000000000"),
    (m.PartitionNotice(5, b"data"), "20000000050000000464617461"),
)
"""A message and its bytes, where these are short enough to be read."""


@pytest.mark.parametrize(("message", "golden"), GOLDEN, ids=lambda value: type(value).__name__)
def test_messages_are_written_as_they_always_were_and_read_back(message: m.ReplicationMessage, golden: str) -> None:
    data = m.encode(message)
    assert m.decode(data, Interner()) == message
    assert not golden or data.hex() == golden


def test_every_message_is_among_them() -> None:
    assert [type(message) for message, _ in GOLDEN] == m.known_messages()


def test_any_bytes_give_a_message_or_a_wire_error() -> None:
    rng = Random(5)
    refused = 0
    for message, _ in GOLDEN:
        data = m.encode(message)
        for _ in range(300):
            changed = bytearray(data[:rng.randrange(len(data) + 1)] if rng.random() < 0.5 else data)
            for _ in range(rng.randrange(3)):
                if changed:
                    changed[rng.randrange(len(changed))] = rng.randrange(256)
            try:
                assert isinstance(m.decode(bytes(changed), Interner()), m.ReplicationMessage)
            except WireError:
                refused += 1
    assert refused > 1000


# --- routing ----------------------------------------------------------------------------------------------------------

def routing() -> Routing:
    return Routing(map(Candidate, "ABC"), 3, b"client")


def reply(status: m.ReplyStatus, leader: Address | None = None, members: tuple[Address, ...] = ()) -> m.PartitionReply:
    return m.PartitionReply(0, 1, status, 1, leader, members, b"answer")


def test_a_redirect_is_followed_and_remembered() -> None:
    client = routing()
    operation = client.begin(0, m.Verb.WRITE, b"x")
    first = client.target(operation)
    leader = A if first != "A" else B
    assert not client.replied(operation, first or "", reply(m.ReplyStatus.REDIRECT, leader))
    assert client.target(operation) == leader.name
    assert client.replied(operation, leader.name, reply(m.ReplyStatus.OK))
    assert client.target(client.begin(0, m.Verb.WRITE, b"y")) == leader.name
    assert client.counters == {"redirect": 1}


def test_a_leader_that_does_not_answer_is_forgotten() -> None:
    client = routing()
    operation = client.begin(0, m.Verb.STRONG, b"")
    client.replied(operation, "B", reply(m.ReplyStatus.REDIRECT, C))
    assert client.target(operation) == "C"
    client.failed(operation, "C")
    assert client.target(operation) != "C"


def test_all_are_asked_before_anybody_twice() -> None:
    client = routing()
    operation = client.begin(0, m.Verb.WRITE, b"x")
    asked = []
    for _ in range(6):
        asked.append(client.target(operation))
        client.failed(operation, asked[-1] or "")
    assert sorted(asked[:3]) == sorted(asked[3:]) == ["A", "B", "C"]


def test_writes_have_ids_of_their_own_and_reads_none() -> None:
    client = routing()
    ids = [client.begin(0, m.Verb.WRITE, b"x").request.request for _ in range(3)]
    assert len(set(ids)) == 3
    assert client.begin(0, m.Verb.READ, b"").request.request == b""


def test_nobody_is_asked_where_nobody_is() -> None:
    client = Routing((), 3, b"client")
    assert client.target(client.begin(0, m.Verb.WRITE, b"x")) is None


def test_keys_spread_over_partitions_and_stay_there() -> None:
    found = [partition_of(f"key{number}", 8) for number in range(8000)]
    assert all(900 < found.count(partition) < 1100 for partition in range(8))
    assert [partition_of(key, 8) for key in ("a", "b", "c")] == PARTITIONS


PARTITIONS = [0, 5, 1]


# --- ReplicaClient ----------------------------------------------------------------------------------------------------

def test_a_client_with_a_list_follows_redirects_and_retries() -> None:
    asked: list[tuple[str, m.ReplicationMessage]] = []

    def ask(dest: str, data: bytes, timeout: float) -> bytes:
        asked.append((dest, m.decode(data, Interner())))
        if len(asked) == 1:
            raise MemberLeftError(dest)
        return m.encode(reply(m.ReplyStatus.REDIRECT, C) if dest != "C" else reply(m.ReplyStatus.OK))

    client = ReplicaClient(ask, [("A", 1), ("B", 2), ("C", 1, "zone")], replicas=2)
    assert client.write(3, b"x") == b"answer"
    assert asked[-1][0] == "C"
    assert len({message for _, message in asked}) == 1        # the same request each time, so it happens once
    assert client.counters["failed"] == 1


def test_a_client_gives_up_in_time_and_says_what_it_knows() -> None:
    client = ReplicaClient(lambda *_: m.encode(reply(m.ReplyStatus.BUSY)), [("A", 1)], replicas=1, timeout=0.05)
    with pytest.raises(PartitionUnavailableError, match=r"partition 3: no write within 0.05 s; replicas are at A"):
        client.write(3, b"x")


def test_a_client_without_a_connection_does_not_try_again() -> None:
    def ask(dest: str, data: bytes, timeout: float) -> bytes:
        raise NotConnectedError("not connected")
    with pytest.raises(NotConnectedError):
        ReplicaClient(ask, [("A", 1)], replicas=1).read(0)
