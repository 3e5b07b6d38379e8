"""The driver of replicated partitions: at what time messages arrive."""
from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

from jgroups_py.blocks.replication.driver import ReplicaDriver
from jgroups_py.blocks.replication.messages import HostHello, encode
from jgroups_py.blocks.replication.options import Options
from jgroups_py.channel.base import BaseChannel
from jgroups_py.channel.block import Connection
from jgroups_py.model.batch import Batch
from jgroups_py.model.outputs import Deliver, ViewInstalled
from jgroups_py.model.units import seconds
from jgroups_py.model.view import View, ViewId
from jgroups_py.testing.simulation.ledger import Records
from jgroups_py.wire.block_headers import PartitionMessage
from tests.unit.blocks.replica_hosts import address_of


def test_a_message_arrives_when_it_was_read_not_when_the_round_began() -> None:
    """The process was stopped in between, for five seconds: a renewal may have been sent at the end of these."""
    me = address_of("A")
    channel = SimpleNamespace(blocks=(), attach=lambda block: None)
    driver = ReplicaDriver(cast(BaseChannel, channel), lambda partition: Records(), Options(), 1, None,
                           lambda calls: None, None, None)
    timers: list[Callable[[], None]] = []

    def later(delay_ns: int, function: Callable[[], None]) -> Any:
        timers.append(function)
        return SimpleNamespace(cancel=lambda: None)
    connection = SimpleNamespace(
        cluster="x", address=me, view=None, ended=False, now_ns=seconds(1), clock_ns=lambda: seconds(1), later=later,
        sends=SimpleNamespace(put=lambda *args, **options: None))
    driver.begin(cast(Connection, connection))
    driver.early([ViewInstalled(View(ViewId(1, me), (me,)))])
    connection.clock_ns = lambda: seconds(6)
    hello = encode(HostHello(1, "", False, None))
    driver.early([Deliver(Batch(me, None, (hello,), (PartitionMessage(1),)))])
    assert driver.host is not None
    assert driver.host.now_ns == seconds(6)
