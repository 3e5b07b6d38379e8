"""Founders create the store by themselves, and only where no store is to be seen."""
from __future__ import annotations

import attrs
import pytest

from jgroups_py.blocks.replication.founding import Founding, birth_of, store_name
from jgroups_py.blocks.replication.host import PartitionHost
from jgroups_py.blocks.replication.messages import Create, HostHello, decode, encode
from jgroups_py.blocks.replication.options import Options
from jgroups_py.blocks.replication.outputs import SendToHost
from jgroups_py.model.address import Address
from jgroups_py.model.view import View, ViewId
from jgroups_py.testing.simulation.ledger import Records
from jgroups_py.wire.codec import Interner

A, B, C = (Address(name.encode() * 16, name) for name in "ABC")
NAME = store_name(77, b"12345678")
FOUNDING = Founding(("A", "B"), 4, 2, lambda: NAME)
SETTLE_NS = Options().settle_ns


def host(me: Address = A, founding: Founding | None = FOUNDING) -> PartitionHost:
    return PartitionHost(me, lambda partition: Records(), founding=founding)


def view(made: PartitionHost, *members: Address, counter: int = 1, now_ns: int = 0) -> None:
    made.view(View(ViewId(counter, members[0]), members), now_ns)


def hello(made: PartitionHost, src: Address, store: tuple[bytes, int, int] | None = None, now_ns: int = 0) -> None:
    made.receive(src, encode(HostHello(1, "", False, store)), now_ns)


def creates(made: PartitionHost, now_ns: int) -> list[Create]:
    made.advance(now_ns)
    messages = [decode(output.data, Interner()) for output in made.drain() if isinstance(output, SendToHost)]
    return [message for message in messages if isinstance(message, Create)]


def test_the_first_founder_creates_the_store_once_all_have_been_there_for_a_while() -> None:
    made = host()
    view(made, A, B, C)
    hello(made, A)
    assert creates(made, 2 * SETTLE_NS) == []
    hello(made, B, now_ns=2 * SETTLE_NS)
    assert creates(made, 3 * SETTLE_NS - 1) == []
    [create] = creates(made, 3 * SETTLE_NS)
    assert create.store == (NAME, 4, 2)


@pytest.mark.parametrize("made", [host(B), host(A, None), host(A, attrs.evolve(FOUNDING, names=("B", "A")))])
def test_nobody_else_does(made: PartitionHost) -> None:
    view(made, A, B)
    hello(made, A)
    hello(made, B)
    assert creates(made, 2 * SETTLE_NS) == []


def test_a_store_that_another_host_has_is_not_created_again() -> None:
    made = host()
    view(made, A, B, C)
    hello(made, A)
    hello(made, B)
    hello(made, C, (b"older" * 3, 7, 1), SETTLE_NS // 2)
    assert creates(made, 2 * SETTLE_NS) == []
    assert made.store == (b"older" * 3, 7, 1)


def test_a_view_without_a_founder_begins_the_wait_anew() -> None:
    made = host()
    view(made, A, B)
    hello(made, A)
    hello(made, B)
    view(made, A, counter=2, now_ns=SETTLE_NS // 2)
    assert creates(made, 2 * SETTLE_NS) == []
    view(made, A, B, counter=3, now_ns=2 * SETTLE_NS)
    hello(made, B, now_ns=2 * SETTLE_NS)
    assert creates(made, 3 * SETTLE_NS - 1) == []
    assert len(creates(made, 3 * SETTLE_NS)) == 1


def test_a_name_has_its_birth_number() -> None:
    assert (birth_of(NAME), len(NAME)) == (77, 16)


@pytest.mark.parametrize("names", [(), ("A", ""), ("A", "A"), ("A", 3)])
def test_founders_that_are_none_are_refused(names: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="founder"):
        Founding(names, 4, 2, lambda: NAME)
