"""Counters with bugs that applications have, for the simulation of applications to find."""
from __future__ import annotations

import json
from random import Random
from typing import Any

import jgroups_py as jg
from examples.replicated_counter import Counter


class Naive(jg.Receiver):
    """Every member adds all amounts; a joiner fetches the value. Right, until a group splits and merges."""

    def __init__(self, channel: Any) -> None:
        self.value = 0
        self.channel = channel
        channel.receiver = self
        channel.connect("counters", state_from=jg.COORDINATOR)

    def add(self, amount: int) -> None:
        self.channel.send(None, b"%d" % amount)

    def receive(self, message: jg.Message) -> None:
        self.value += int(message.payload)

    def get_state(self, stream: Any) -> None:
        stream.write(b"%d" % self.value)

    def set_state(self, stream: Any) -> None:
        self.value = int(stream.read())


class KnownByName(Counter):
    """Shares are kept under logical names, so that a member that comes back begins below what it had."""

    def add(self, amount: int) -> None:
        self.shares[self.channel.name] = self.shares.get(self.channel.name, 0) + amount
        self.multicast({self.channel.name: self.shares[self.channel.name]})

    def receive(self, message: jg.Message) -> None:
        if message.payload != b"?":
            self.shares.update(json.loads(message.payload))


class Raising(Counter):
    """Its receiver raises at some messages."""

    def receive(self, message: jg.Message) -> None:
        super().receive(message)
        assert self.value < 20, "that is too much"


class Chatty(Counter):
    """Answers each message by a message."""

    def receive(self, message: jg.Message) -> None:
        self.multicast(self.shares or {"": 1})


def add(counter: Any, rng: Random) -> None:
    """One operation."""
    counter.add(rng.randint(1, 9))


def all_are_equal(counters: list[Any]) -> None:
    """The check."""
    values = {counter.channel.name: counter.value for counter in counters}
    assert len(set(values.values())) <= 1, f"the counters differ: {values}"
