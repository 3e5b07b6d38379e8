"""A state among deliveries: what comes meanwhile waits, a second beginning starts over, a slow reader paces it."""
from __future__ import annotations

from collections.abc import Sequence

from jgroups_py.channel.dispatcher import Dispatcher, Transfer
from jgroups_py.model.batch import Batch
from jgroups_py.model.errors import StateTransferError
from jgroups_py.model.outputs import Deliver, Output, StateBegin, StateEnd, StatePart
from jgroups_py.runtime.inbox import HIGH_BYTES, Inbox
from jgroups_py.testing.bench import address

A = address("A")


def message(payload: bytes) -> Deliver:
    return Deliver(Batch(A, None, (payload,)))


class Log:
    """What the application saw, in order."""

    def __init__(self) -> None:
        self.seen: list[object] = []

    def receive(self, found: object) -> None:
        self.seen.append(found.payload)                       # type: ignore[attr-defined]

    def set_state(self, stream: object) -> None:
        try:
            self.seen.append(("state", stream.read()))        # type: ignore[attr-defined]
        except StateTransferError as error:
            self.seen.append(("no state", str(error)))
            raise


def deliver(*outputs: Output) -> tuple[Log, list[str]]:
    """Hand the outputs to a receiver; what it saw, and how the transfer ended."""
    inbox, log, ends = Inbox(), Log(), []
    dispatcher = Dispatcher("test", inbox, lambda: None, lambda output: None, lambda output: None)  # type: ignore
    dispatcher.set_receiver(log)
    transfer = dispatcher.transfer = Transfer(lambda: ends.append(transfer.error or ""))
    run_all(dispatcher, inbox, outputs)
    return log, ends


def run_all(dispatcher: Dispatcher, inbox: Inbox, outputs: Sequence[Output]) -> None:
    inbox.put(outputs)
    while (output := dispatcher.next(0)) is not None:
        dispatcher.handle(output)


def test_what_comes_while_a_state_arrives_is_delivered_after_it() -> None:
    log, ends = deliver(message(b"1"), StateBegin(), message(b"2"), StatePart(b"x"), message(b"3"), StatePart(b"y"),
                        StateEnd(), message(b"4"))
    assert log.seen == [b"1", ("state", b"xy"), b"2", b"3", b"4"]
    assert ends == [""]


def test_a_second_beginning_starts_over_after_what_came_before_it() -> None:
    log, ends = deliver(StateBegin(), StatePart(b"half"), message(b"1"), StateBegin(), message(b"2"),
                        StatePart(b"whole"), StateEnd())
    assert log.seen[1:] == [b"1", ("state", b"whole"), b"2"]
    assert log.seen[0][0] == "no state"                       # type: ignore[index]
    assert ends == [""]


def test_the_backlog_of_a_state_is_counted_by_itself() -> None:
    inbox = Inbox()
    caught_up: list[int] = []
    inbox.caught_up = lambda: caught_up.append(inbox.state_backlog_bytes)
    inbox.put([StatePart(bytes(HIGH_BYTES)), message(bytes(1000)), StatePart(bytes(1000))])
    inbox.state_busy = True
    assert inbox.state_backlog_bytes == HIGH_BYTES + 1000
    inbox.state_read(1000)
    assert caught_up == []
    inbox.state_read(HIGH_BYTES)
    assert caught_up == [0]
