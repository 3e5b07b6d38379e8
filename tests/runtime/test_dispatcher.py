"""What a dispatcher counts of what it does not deliver."""
from __future__ import annotations

from jgroups_py.channel.dispatcher import Dispatcher
from jgroups_py.model.batch import Batch
from jgroups_py.model.outputs import Deliver, Output
from jgroups_py.protocols.example import EchoRequest
from jgroups_py.runtime.inbox import Inbox
from jgroups_py.testing.bench import address
from jgroups_py.wire.block_headers import Answer

A, B = map(address, "AB")


def test_messages_of_blocks_that_are_not_here_and_what_was_not_delivered_at_the_end() -> None:
    inbox = Inbox()
    dispatcher = Dispatcher("test", inbox, lambda: None, lambda output: None, lambda output: None)   # type: ignore
    outputs: list[Output] = [Deliver(Batch(B, A, (b"1", b"2"), (Answer(7, 1),))), Deliver(Batch(B, A, (b"3",)))]
    inbox.put(outputs[:1])
    dispatcher.handle(dispatcher.next(0))                     # type: ignore[arg-type]
    assert dispatcher.counters == {"for_no_block": 2}
    inbox.put(outputs[1:])
    dispatcher.abandon()
    assert dispatcher.counters == {"for_no_block": 2, "undelivered_at_close": 1}


def test_a_batch_without_a_message_is_given_to_no_receiver() -> None:
    """Any process can send one: a header of a protocol that is not in the stack. It ended the thread of the channel."""
    inbox, got = Inbox(), []
    dispatcher = Dispatcher("test", inbox, lambda: None, lambda output: None, lambda output: None)   # type: ignore
    dispatcher.set_receiver(got.append)
    inbox.put([Deliver(Batch(B, A, (), (EchoRequest(1),))), Deliver(Batch(B, A, (b"1",)))])
    for _ in range(2):
        dispatcher.handle(dispatcher.next(0))                 # type: ignore[arg-type]
    assert [message.payload for message in got] == [b"1"]
    assert dispatcher.counters == {"no_message_dropped": 1, "delivered": 1, "delivered_bytes": 1}
