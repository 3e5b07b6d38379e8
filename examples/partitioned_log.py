"""A message log in partitions: each is kept by three of five members, and survives any one of them.

    python examples/partitioned_log.py

A producer appends under a key, which decides the partition; a consumer reads a partition from an offset on, from any of
its three replicas. In the middle a member that leads partitions is closed, and its store is not prepared for that: the
others elect new leaders and copy its partitions to the members that are left. No acknowledged message is lost.
"""
import json
import os

import jgroups_py as jg
from jgroups_py.blocks.replication import Machine, Options, Replicas, partition_of

GROUP = f"partitioned-log-{os.getpid()}"
PARTITIONS, REPLICAS = 8, 3
MESSAGES = 600


class Log(Machine):
    """One partition: messages by offset."""

    def __init__(self) -> None:
        self.messages: list[str] = []

    def apply(self, command: bytes) -> bytes:
        self.messages.append(command.decode())
        return str(len(self.messages) - 1).encode()

    def read(self, query: bytes) -> bytes:
        return json.dumps(self.messages[int(query):]).encode()

    def save(self) -> bytes:
        return json.dumps(self.messages).encode()

    def load(self, data: bytes) -> None:
        self.messages = json.loads(data)


class Broker:
    """A member that keeps partitions; the weight is its share."""

    def __init__(self, name: str, weight: int) -> None:
        self.channel = jg.JChannel("udp", name=name)
        self.store = Replicas(self.channel, lambda partition: Log(), Options(weight=weight, settle_ns="200ms"))
        self.channel.connect(GROUP)

    def append(self, key: str, text: str) -> tuple[int, int]:
        """(partition, offset), once two of the partition's three replicas have it."""
        partition = partition_of(key, PARTITIONS)
        return partition, int(self.store.write(partition, f"{key}: {text}".encode()))

    def messages(self, partition: int, offset: int = 0) -> list[str]:
        return json.loads(self.store.read(partition, str(offset).encode()))

    def close(self) -> None:
        self.channel.close()
        self.store.close()


brokers = [Broker(name, weight) for name, weight in (("A", 1), ("B", 2), ("C", 1), ("D", 2), ("E", 1))]
first = brokers[0]
first.store.create(PARTITIONS, REPLICAS, hosts=5)

acknowledged = {}
for number in range(MESSAGES):
    if number == MESSAGES // 2:
        gone = brokers.pop(1)
        led = [partition for partition, part in gone.store.report().items() if part["role"] == "leader"]
        gone.close()
        print(f"{gone.channel.name} is gone; it led the partitions {led}")
    place = first.append(f"customer {number % 25}", f"order {number}")
    assert place not in acknowledged
    acknowledged[place] = f"customer {number % 25}: order {number}"

logs = {partition: first.messages(partition) for partition in range(PARTITIONS)}
holders = {partition: ",".join(first.store.replicas_of(partition)) for partition in logs}
print("messages:", {partition: len(log) for partition, log in logs.items()})
print("replicas:", holders)
lost = [place for place, text in acknowledged.items() if logs[place[0]][place[1]] != text]
for broker in brokers:
    broker.close()
print(f"{len(acknowledged)} messages acknowledged, {len(lost)} lost")
assert len(acknowledged) == MESSAGES
assert not lost
