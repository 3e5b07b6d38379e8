"""The way of one message through the layers of a member, to find out why it was not delivered. Pure.

A `Trace` is made of a filter such as "A:17" and given to a node when it is built; the stack then wraps the handlers of
every layer with functions that examine each batch (`handling`, `passing`). Without a trace nothing is wrapped, so it
costs nothing.

A message is recognized by its source and number wherever a header numbers it: NAKACK's and UNICAST's numbers, and those
of RELAY, which are numbers of its origin. Where one header of a batch matches, the numbers that the other headers of
the batch give to the same messages match from then on as well, so that a message that was named by NAKACK's number is
followed over the bridge. Above the layer that takes the last numbered header off, a message is recognized by its
payload object, which no layer copies (law 3). FRAG makes new objects; the whole message is recognized by a fragment
that it contains.
"""
from __future__ import annotations

import re
import typing
from collections.abc import Callable, Iterator
from typing import Any

import attrs

from jgroups_py.model.address import Address, ProxyUUID
from jgroups_py.model.batch import Batch, Header
from jgroups_py.model.errors import ConfigError
from jgroups_py.model.events import AddressesKnown, Event, ViewChange
from jgroups_py.model.outputs import Output, Traced
from jgroups_py.stack.protocol import Protocol
from jgroups_py.wire.block_headers import BlockHeader

KEPT = 10_000                            # payloads and numbers that are recognized, at most; the oldest are dropped
PIECES = 100                             # fragments by which whole messages are recognized, at most
DISTINCT_BYTES = 2                       # shorter payloads are interned: one object for many messages
HEX_DIGITS = 8                           # an address may be named by so many hex digits, or more
UNLIMITED = 1 << 62
_FILTER = re.compile(r"(?P<source>.+?)(?::(?P<first>\d+)(?:-(?P<last>\d+))?)?")
_HEX = re.compile(r"[0-9a-f]+")


@attrs.frozen
class TraceFilter:
    """The messages to trace: `first` to `stop` of `source`, a logical name, name@site, or 8 hex digits or more."""

    source: str
    first: int = 0
    stop: int = UNLIMITED

    @classmethod
    def parse(cls, text: str) -> TraceFilter:
        """From "A:17", "A:17-20" (both included) or "A", which matches all messages of A.

        Raises:
            ConfigError: it is none of these.

        >>> TraceFilter.parse("A:17-20")
        TraceFilter(source='A', first=17, stop=21)
        """
        found = _FILTER.fullmatch(text.strip())
        if found is None:
            raise ConfigError(f"JGROUPS_TRACE={text!r}: a source and a number, as A:17 or A:17-20, or a source alone")
        if found["first"] is None:
            return cls(found["source"])
        first, last = int(found["first"]), int(found["last"] or found["first"])
        if last < first:
            raise ConfigError(f"JGROUPS_TRACE={text!r}: the range ends before it begins")
        return cls(found["source"], first, last + 1)

    def names(self, address: Address, name: str) -> bool:
        """Whether `address`, whose logical name is `name` ("" if not known), is the source."""
        source = self.source
        if name and (name == source or (isinstance(address, ProxyUUID) and f"{name}@{address.site}" == source)):
            return True
        return len(source) >= HEX_DIGITS and _HEX.fullmatch(source) is not None and address.raw.hex().startswith(source)


class Recent(dict[Any, Any]):
    """A dict of at most `most` entries: a new one displaces the oldest."""

    def __init__(self, most: int = KEPT) -> None:
        super().__init__()
        self.most = most

    def put(self, key: Any, value: Any) -> None:
        """Set `key`."""
        self[key] = value
        if len(self) > self.most:
            del self[next(iter(self))]


class TracedStack(typing.Protocol):
    """A stack, as its trace sees it."""

    layers: list[Protocol]
    outputs: list[Output]

    def title(self, layer: Protocol | None = None) -> str: ...


@attrs.define(eq=False)
class Step:
    """What became of the batch that is being handled."""

    ended: bool = False                  # passed on, or dropped


class Trace:
    """Follows the messages that a filter matches through the stacks of one node."""

    def __init__(self, messages: TraceFilter) -> None:
        self.filter = messages
        self.names = Recent()                                   # member -> its logical name, if it occurred
        self.numbers = Recent()                                 # (protocol id, source, number) that match as well
        # Payloads of matching messages. One that arrived is a new object each time, so its id identifies it; one that
        # the application sends may be one object for many messages, so source and destination have to match too.
        self.payloads = Recent()
        self.pieces = Recent(PIECES)                               # likewise, of fragments
        self.step = Step()

    # --- the hops -----------------------------------------------------------------------------------------------------

    def handling(
        self, stack: TracedStack, layer: Protocol, way: str, handle: Callable[..., object],
    ) -> Callable[..., object]:
        """`handle` of a layer (`up`, `down` or a receiver), wrapped. What it neither passes on nor drops, it keeps."""
        lowest = layer is stack.layers[0]

        def traced(*arguments: Any) -> object:
            batch = arguments[-1].push(arguments[0]) if len(arguments) > 1 else arguments[-1]
            if not self.concerns(batch, way):
                return handle(*arguments)
            outer, self.step = self.step, Step()
            before = len(stack.outputs)
            result = handle(*arguments)
            if not self.step.ended:
                sent = lowest and len(stack.outputs) > before
                self.report(stack, layer, "sends" if sent else "keeps", batch)
            self.step, outer.ended = outer, True                # outer: a handler that called this one (dispatch)
            return result
        return traced

    def passing(
        self, stack: TracedStack, layer: Protocol, way: str, pass_on: Callable[[Any], None],
    ) -> Callable[[Any], None]:
        """The `pass_up` or `pass_down` of a layer, wrapped."""
        lowest = layer is stack.layers[0]
        verb = f"passes {way}"

        def traced(item: Batch | Event) -> None:
            if item.__class__ is Batch:
                if self.concerns(item, way):
                    self.step.ended = True
                    self.report(stack, layer, "receives" if lowest and item.src != layer.me else verb, item)
            elif isinstance(item, ViewChange | AddressesKnown):
                self.note_names(item.view.members if isinstance(item, ViewChange) else item.book)
            pass_on(item)
        return traced

    def delivered(self, stack: TracedStack, batch: Batch) -> None:
        """A batch leaves a stack at its top. Its payloads match no longer: an application may send one bytes object
        many times, and another message must not be taken for this one."""
        if self.concerns(batch, "up"):
            stack.outputs.append(Traced(stack.title(), "delivers", described(batch, self.names)))
            for payload in batch.payloads:
                self.payloads.pop(id(payload), None)
                self.payloads.pop((id(payload), batch.src, batch.dest), None)

    def dropped(self, batch: Batch) -> bool:
        """Whether a batch that a layer drops matches; if so, the layer does not keep it."""
        found = self.concerns(batch, "up") or bool(self.is_source(batch.src) and self.filter.stop == UNLIMITED)
        if found:
            self.step.ended = True
        return found

    def report(self, stack: TracedStack, layer: Protocol, verb: str, batch: Batch) -> None:
        """Report what `layer` did."""
        stack.outputs.append(Traced(stack.title(layer), verb, described(batch, self.names)))

    # --- recognition --------------------------------------------------------------------------------------------------

    def concerns(self, batch: Batch, way: str) -> bool:
        """Whether a matching message is in the batch; whatever else identifies it matches from now on."""
        for header in batch.headers:
            self.note_names([getattr(header, field.name) for field in attrs.fields(header.__class__)])   # type: ignore[arg-type]
        numbered = list(numberings(batch))
        matching = [at for at in range(batch.count) if self.has_number(numbered, at)]
        if not matching and self.filter.stop == UNLIMITED and self.is_source(batch.src):
            matching = list(range(batch.count))
        if not matching and way == "up":
            matching = [at for at, payload in enumerate(batch.payloads) if self.has_payload(payload, batch)]
        for at in matching:
            for header, source, first in numbered:
                self.numbers.put((header.proto, source, first + at), None)
            if batch.payloads and len(batch.payloads[at]) >= DISTINCT_BYTES:
                payload = batch.payloads[at]
                self.payloads.put(id(payload) if way == "up" else (id(payload), batch.src, batch.dest), payload)
                if batch.messages < batch.count:
                    self.pieces.put(id(payload), payload)
        return bool(matching)

    def has_number(self, numbered: list[tuple[Header, Address, int]], at: int) -> bool:
        """Whether message `at` of a batch has a matching number."""
        return any((header.proto, source, first + at) in self.numbers or
                   (self.filter.first <= first + at < self.filter.stop and self.is_source(source))
                   for header, source, first in numbered)

    def has_payload(self, payload: bytes, batch: Batch) -> bool:
        """Whether a payload of the batch is one of a matching message, or contains a fragment that is."""
        known = self.payloads
        return id(payload) in known or (id(payload), batch.src, batch.dest) in known or any(
            len(piece) < len(payload) and piece in payload for piece in self.pieces.values())

    def is_source(self, address: Address) -> bool:
        """Whether the filter names this member."""
        return self.filter.names(address, address.name or self.names.get(address, ""))

    def note_names(self, values: Any) -> None:
        """Keep the logical names of the members in a header or an event."""
        for value in values:
            if isinstance(value, Address):
                if value.name and self.names.get(value) != value.name:
                    self.names.put(value, value.name)
            elif isinstance(value, tuple | dict):
                self.note_names(value)


def numberings(batch: Batch) -> Iterator[tuple[Header, Address, int]]:
    """(header, source, first) of each header that numbers the batch's messages: as `source`'s, from `first` on."""
    for header in batch.headers:
        first = getattr(header, "first", None)
        if first is None or type(header).shift is Header.shift or isinstance(header, BlockHeader):
            continue
        source = getattr(header, "origin", None) or getattr(header, "sender", None) or batch.src
        yield header, source, first


def described(batch: Batch, names: dict[Address, str] | None = None) -> str:
    """A batch for the log: source, destination, how many messages or which header, and its numbers.

    >>> A = Address(b"A" * 16, "A")
    >>> described(Batch(A, None, (b"1", b"2")))
    'A to all, 2 messages'
    """
    def shown(address: Address) -> str:
        known = (names or {}).get(address, "")
        return known if known and not address.name else str(address)

    count = len(batch.payloads)
    words = [f"{shown(batch.src)} to {'all' if batch.dest is None else shown(batch.dest)}",
             f"{count} message{'s' * (count != 1)}" if count else "no message"]
    numbered = {id(header): (source, first) for header, source, first in numberings(batch)}
    for header in batch.headers:
        text = type(header).__name__
        if id(header) in numbered:
            source, first = numbered[id(header)]
            of = f" of {shown(source)}" * (source != batch.src)
            text += f" {first}" + f"..{first + count - 1}" * (count > 1) + of
        words.append(text)
    return ", ".join(words)
