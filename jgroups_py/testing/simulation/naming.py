"""Names in front of payloads ("A#2>*/17|"): checkers must distinguish messages, and applications may send the same
bytes twice. The name is removed before an application gets a message, and makes pictures readable."""
from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby

from jgroups_py.model.address import Address
from jgroups_py.model.batch import Batch
from jgroups_py.model.events import Event, SendUntil
from jgroups_py.simulator.history import History
from jgroups_py.simulator.output_handlers import APPLICATION_TICKETS
from jgroups_py.simulator.process import Process

MARK = b"|"                              # between a message's name and the application's payload


def named(process: Process, history: History, dest: Address | None, payloads: Sequence[bytes]) -> list[bytes]:
    """Payloads that a process sends, with the names that the history knows them by."""
    where = "*" if dest is None else history.names.get(dest, str(dest))
    first = process.sent.get(where, 0)
    process.sent[where] = first + len(payloads)
    return [f"{process.incarnation}>{where}/{number}".encode() + MARK + payload
            for number, payload in enumerate(payloads, first)]


def unnamed(batch: Batch) -> Iterator[Batch]:
    """The application's messages of a batch, without names, each with its place; the others are the simulator's."""
    at = 0
    for marked, group in groupby(batch.payloads, lambda payload: MARK in payload):
        payloads = tuple(payload.partition(MARK)[2] for payload in group)
        if marked:
            yield batch.cut(at, at + len(payloads)).replaced(payloads=payloads)
        at += len(payloads)


def named_event(event: Event, named: Callable[[Sequence[bytes]], list[bytes]]) -> Event:
    """An event whose message, if it has one, has the name by which the checkers know it."""
    if not isinstance(event, SendUntil):
        return event
    return SendUntil(event.ticket + APPLICATION_TICKETS, event.sites, named([event.payload])[0], event.headers,
                     event.flags)
