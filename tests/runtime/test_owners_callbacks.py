"""What the application of an Owners is told, in which order, and when a partition is given back. The store is faked at
its driver: what is joined, left and given back."""
from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from jgroups_py.blocks.coordination.grants import EXPIRED, HeldGrant, Lease
from jgroups_py.blocks.coordination.owning import OwnedSet
from jgroups_py.blocks.owners import AsyncOwners, OwnerGrant, Owners
from jgroups_py.channel.base import ChannelState
from jgroups_py.model.errors import ChannelError

WAIT_S = 10


class Channel:
    """As much of a channel as Owners use."""

    name = "A"
    state = ChannelState.CONNECTED

    def call(self, function: Callable[[], object]) -> None:
        function()

    def work_until(self, holds: Callable[[], bool], timeout: float) -> None:
        """Another thread runs the rounds."""


class Driver:
    """The store: what was given back, in order."""

    def __init__(self) -> None:
        self.back: list[int] = []
        self.left = False
        self.joined: OwnedSet | None = None

    def join(self, owned: OwnedSet) -> None:
        self.joined = owned

    def leave(self, owned: OwnedSet) -> None:
        self.left = True
        owned.ended(None)

    def give_back(self, name: str, grant: HeldGrant, done: Any) -> None:
        self.back.append(grant.fence)

    def valid(self, grant: HeldGrant) -> bool:
        return grant.valid(0)


class Store:
    """As much of a Coordination as Owners use, and the rounds of its channel."""

    def __init__(self) -> None:
        self._channel = Channel()
        self._driver = Driver()

    def _check_outside(self) -> None:
        """The tests are outside."""

    def gives(self, partition: int, fence: int) -> HeldGrant:
        owned, held = self._driver.joined, HeldGrant(fence, Lease(1))
        assert owned is not None
        owned.gained(partition, held)
        return held

    def asks_back(self, partition: int, held: HeldGrant) -> None:
        assert self._driver.joined is not None
        self._driver.joined.revoked(partition, held)


class Heard:
    """The callbacks, for threads: what was called, and a gate that `lost` waits at."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, int, int, bool]] = []
        self.gate = threading.Event()
        self.gate.set()
        self.changed = threading.Condition()

    def note(self, what: str, partition: int, grant: OwnerGrant) -> None:
        with self.changed:
            self.calls.append((what, partition, grant.fence, grant.valid))
            self.changed.notify_all()

    def gained(self, partition: int, grant: OwnerGrant) -> None:
        self.note("gained", partition, grant)

    def lost(self, partition: int, grant: OwnerGrant) -> None:
        self.note("lost", partition, grant)
        assert self.gate.wait(WAIT_S)

    def wait(self, number: int) -> None:
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.calls) >= number, WAIT_S), self.calls


def test_a_partition_is_given_back_when_lost_has_returned() -> None:
    store, heard = Store(), Heard()
    owners = Owners(store, "s", 4, gained=heard.gained, lost=heard.lost)       # type: ignore[arg-type]
    heard.gate.clear()
    held = store.gives(2, 7)
    heard.wait(1)
    assert list(owners.mine) == [2]
    store.asks_back(2, held)
    heard.wait(2)
    assert store._driver.back == [], "another one may have it, and `lost` has not returned"
    heard.gate.set()
    owners.close(WAIT_S)
    assert store._driver.back == [7]
    assert heard.calls == [("gained", 2, 7, True), ("lost", 2, 7, True)]
    assert (owners.mine, owners.has_left) == ({}, True)


def test_what_was_lost_before_its_turn_is_not_told_at_all() -> None:
    store, heard = Store(), Heard()
    owners = Owners(store, "s", 4, gained=heard.gained, lost=heard.lost)       # type: ignore[arg-type]
    heard.gate.clear()
    store.asks_back(0, store.gives(0, 1))
    heard.wait(2)                                            # the thread is in `lost` of partition 0
    store.gives(1, 2).end(EXPIRED)
    second = store.gives(1, 3)
    heard.gate.set()
    heard.wait(3)
    assert heard.calls[2] == ("gained", 1, 3, True)
    store.asks_back(1, second)
    owners.close(WAIT_S)
    assert store._driver.back == [1, 3]
    assert heard.calls[3:] == [("lost", 1, 3, True)]


def test_a_loss_is_told_with_a_grant_that_is_not_valid_and_nothing_is_given_back() -> None:
    store, heard = Store(), Heard()
    owners = Owners(store, "s", 4, gained=heard.gained, lost=heard.lost)       # type: ignore[arg-type]
    held = store.gives(1, 2)
    heard.wait(1)
    held.end(EXPIRED)
    heard.wait(2)
    assert heard.calls[1] == ("lost", 1, 2, False)
    owners.close(WAIT_S)
    assert store._driver.back == []


def test_a_callback_that_raises_counts_as_returned() -> None:
    store, heard = Store(), Heard()

    def fails(partition: int, grant: OwnerGrant) -> None:
        heard.note("called", partition, grant)
        raise ValueError("of the application")
    owners = Owners(store, "s", 4, gained=fails, lost=fails)                   # type: ignore[arg-type]
    store.asks_back(0, store.gives(0, 1))
    heard.wait(2)
    owners.close(WAIT_S)
    assert store._driver.back == [1]


def test_a_callback_cannot_wait_for_its_own_end() -> None:
    store = Store()
    errors: list[Exception] = []
    called = threading.Event()

    def gained(partition: int, grant: OwnerGrant) -> None:
        try:
            owners.close(WAIT_S)
        except ChannelError as error:
            errors.append(error)
        called.set()
    owners = Owners(store, "s", 4, gained=gained)                              # type: ignore[arg-type]
    held = store.gives(0, 1)
    assert called.wait(WAIT_S)
    assert len(errors) == 1
    store.asks_back(0, held)
    owners.close(WAIT_S)


def test_arguments_that_make_no_sense_are_refused() -> None:
    for wrong in ({"name": ""}, {"partitions": 0}, {"partitions": 5000}, {"weight": 0}, {"label": ""}):
        with pytest.raises(ValueError, match=r"it is from|characters"):
            Owners(Store(), **{"name": "s", **wrong})                          # type: ignore[arg-type]
    owners = Owners(Store(), "s", 7)                                           # type: ignore[arg-type]
    assert owners.partition_of("customer 7") == owners.partition_of(b"customer 7") == 5
    with pytest.raises(TypeError, match="a text or bytes"):
        owners.partition_of(7)                                                 # type: ignore[arg-type]
    owners.close(WAIT_S)


def test_a_body_has_ended_before_lost_is_called_and_a_partition_given_back() -> None:
    asyncio.run(body_then_lost())


async def body_then_lost() -> None:
    store, calls = Store(), []

    async def work(partition: int, grant: OwnerGrant) -> None:
        calls.append(("begins", grant.fence))
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.01)
            calls.append(("ends", grant.fence))

    async def lost(partition: int, grant: OwnerGrant) -> None:
        await asyncio.sleep(0.01)
        calls.append(("lost", grant.fence))
        assert store._driver.back == []
    owners = AsyncOwners(store, "s", 4, gained=work, lost=lost)                # type: ignore[arg-type]
    held = store.gives(0, 1)
    await asyncio.sleep(0.01)
    assert list(owners.mine) == [0]
    store.asks_back(0, held)
    await owners.close(WAIT_S)
    assert calls == [("begins", 1), ("ends", 1), ("lost", 1)]
    assert store._driver.back == [1]


def test_the_next_body_of_a_partition_begins_when_the_former_has_ended() -> None:
    asyncio.run(one_body_after_the_other())


async def one_body_after_the_other() -> None:
    store, calls = Store(), []

    async def work(partition: int, grant: OwnerGrant) -> None:
        calls.append(("begins", grant.fence))
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.02)
            calls.append(("ends", grant.fence))
    owners = AsyncOwners(store, "s", 4, gained=work)                           # type: ignore[arg-type]
    first = store.gives(0, 1)
    await asyncio.sleep(0.01)
    first.end(EXPIRED)
    second = store.gives(0, 2)
    await asyncio.sleep(0.1)
    store.asks_back(0, second)
    await owners.close(WAIT_S)
    assert calls == [("begins", 1), ("ends", 1), ("begins", 2), ("ends", 2)]
    assert store._driver.back == [2]


def test_a_partition_whose_task_was_cancelled_is_given_back_when_it_is_asked_back() -> None:
    asyncio.run(cancelled_task())


async def cancelled_task() -> None:
    store, calls = Store(), []
    owners = AsyncOwners(store, "s", 4, lost=lambda partition, grant: calls.append(grant.fence))  # type: ignore[arg-type]
    held = store.gives(0, 1)
    await asyncio.sleep(0.01)
    tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    assert calls == [1]
    assert store._driver.back == []
    store.asks_back(0, held)
    assert store._driver.back == [1]
    await owners.close(WAIT_S)


def test_a_body_has_ended_before_a_partition_is_given_back_also_if_its_task_is_cancelled_meanwhile() -> None:
    asyncio.run(cancelled_while_a_body_ends())


async def cancelled_while_a_body_ends() -> None:
    store, calls = Store(), []

    async def work(partition: int, grant: OwnerGrant) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.02)
            calls.append(("ends", tuple(store._driver.back)))
    owners = AsyncOwners(store, "s", 4, gained=work,                           # type: ignore[arg-type]
                         lost=lambda partition, grant: calls.append(("lost", tuple(store._driver.back))))
    held = store.gives(0, 1)
    await asyncio.sleep(0.01)
    store.asks_back(0, held)
    await asyncio.sleep(0.01)
    tenure = owners._tenures[1]
    assert tenure.task is not None
    tenure.task.cancel()
    await asyncio.wait([tenure.task])
    assert tenure.task.cancelled()
    assert calls == [("ends", ()), ("lost", ())]
    assert store._driver.back == [1]
    await owners.close(WAIT_S)
