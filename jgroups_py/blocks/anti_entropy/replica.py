"""One copy of a keyed state, and what copies say to each other until they are equal. Pure: bytes in, bytes out.

    one                                       another
    COMPARE  the hash of the root        ->   equal: nothing to say. else, as long as a node is no leaf here:
             (of nodes that differ)      <-   COMPARE the hashes of its children
             where it is a leaf here     ->   SUMMARY: the keys under it with their versions
    what is newer there, what is newer here
                                         <-   PULL these keys; PUSH these entries
    PUSH  what was pulled                ->

Nobody keeps state of an exchange: each message says all it needs, so any of them may be lost, doubled or overtaken, and
the next round begins where the trees still differ. Each answer looks at longer prefixes or at keys, so exchanges end.
One answer brings `max_reply_bytes` at most; a copy that lacks much is filled in rounds.
"""
from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

import attrs

from jgroups_py import wire
from jgroups_py.address import Address
from jgroups_py.blocks.anti_entropy.entries import (
    Entry,
    HybridClock,
    Version,
    read_entries,
    read_held,
    write_entries,
    write_held,
)
from jgroups_py.blocks.anti_entropy.tree import DIGITS, HASH_BYTES, PLACE_BYTES, HashTree
from jgroups_py.counters import Counters
from jgroups_py.errors import WireError

T = TypeVar("T")
COMPARE, SUMMARY, PULL, PUSH = range(1, 5)
_NODES = wire.mapping(wire.TEXT, wire.fixed_bytes(HASH_BYTES))
_KEYS = wire.sequence(wire.BYTES)
HELD_BYTES = 28                        # of a key in a summary, beside the key
MAX_KEY_BYTES = 1024


@attrs.frozen
class Settings:
    """message_bytes: how large a message becomes before another one is begun, if entries are smaller; max_reply_bytes:
    what one message may be answered with; max_nodes: hashes in a message; max_ahead: see HybridClock."""

    message_bytes: int = 8 << 10
    max_reply_bytes: int = 256 << 10
    max_nodes: int = 256
    max_ahead: int = 0


@attrs.frozen
class Change:
    """A key stands for something else than before; None: for nothing."""

    key: bytes
    before: bytes | None
    after: bytes | None
    version: Version


class Replica:
    """See the module. `me` writes; `wall`, given to every call, is the time of day in any unit that all share."""

    def __init__(self, me: Address, settings: Settings | None = None) -> None:
        self.me = me
        self.settings = settings or Settings()
        self.clock = HybridClock(self.settings.max_ahead)
        self.entries: dict[bytes, Entry] = {}
        self.tree = HashTree()
        self.counters = Counters()

    # --- as a table ---------------------------------------------------------------------------------------------------

    @property
    def root(self) -> bytes:
        """Equal at two copies: they hold the same."""
        return self.tree.root

    def get(self, key: bytes) -> bytes | None:
        """What a key stands for; None: nothing."""
        entry = self.entries.get(key)
        return None if entry is None else entry.value

    def items(self) -> dict[bytes, bytes]:
        """All that is not deleted."""
        return {key: entry.value for key, entry in self.entries.items() if entry.value is not None}

    def write(self, key: bytes, value: bytes | None, wall: int) -> tuple[Change | None, bytes]:
        """Set a key, or delete it (None); the message that tells the other copies of it."""
        if not 0 < len(key) <= MAX_KEY_BYTES:
            raise ValueError(f"a key has 1 to {MAX_KEY_BYTES} bytes, not {len(key)}")
        entry = Entry(key, Version(self.clock.stamp(wall), self.me), value)
        return self._take(entry), _message(PUSH, lambda out: write_entries((entry,), out))

    def _take(self, entry: Entry) -> Change | None:
        """Hold an entry if it wins; what changes for the application."""
        before = self.entries.get(entry.key)
        if not entry.wins_over(before):
            return None
        self.entries[entry.key] = entry
        self.tree.put(entry.key, entry.mark)
        old = None if before is None else before.value
        return None if old == entry.value else Change(entry.key, old, entry.value, entry.version)

    # --- with others --------------------------------------------------------------------------------------------------

    def begin(self) -> bytes:
        """The message that begins an exchange with any other copy."""
        return _message(COMPARE, lambda out: _NODES.write({"": self.root}, out))

    def receive(self, data: bytes, wall: int) -> tuple[list[Change], list[bytes]]:
        """A message of another copy: what changes here, and what to answer.

        Raises:
            WireError: it is none.
        """
        reader = wire.Reader(data, wire.Interner())
        kind = reader.take(1)[0]
        changes: list[Change] = []
        if kind == COMPARE:
            replies = list(self._compared(_nodes(reader)))
        elif kind == SUMMARY:
            replies = self._summarised(wire.TEXT.read(reader), dict(read_held(reader)))
        elif kind == PULL:
            replies = list(self._pushes(self.entries[key] for key in _KEYS.read(reader) if key in self.entries))
        elif kind == PUSH:
            changes, replies = self._pushed(read_entries(reader), wall), []
        else:
            raise WireError("a message of no known kind")
        return changes, replies

    def _compared(self, theirs: dict[str, bytes]) -> Iterator[bytes]:
        """Their hashes of nodes: look deeper where ours differ."""
        deeper: dict[str, bytes] = {}
        for node in [node for node, hashed in theirs.items() if self.tree.hash_of(node) != hashed]:
            self.counters.add("nodes_differing")
            if self.tree.is_leaf(node):
                yield self._summary(node)
                continue
            deeper.update((child, self.tree.hash_of(child)) for child in self.tree.children(node))
            if len(deeper) >= self.settings.max_nodes:
                yield _message(COMPARE, _writes(_NODES, deeper))
                deeper = {}
        if deeper:
            yield _message(COMPARE, _writes(_NODES, deeper))

    def _summary(self, node: str) -> bytes:
        held = [(key, self.entries[key].version) for key in self.tree.keys_of(node)]

        def body(out: bytearray) -> None:
            wire.TEXT.write(node, out)
            write_held(held, out)
        return _message(SUMMARY, body)

    def _summarised(self, node: str, theirs: dict[bytes, Version]) -> list[bytes]:
        """All that they have under a node: ask for what is newer there, send what is newer here."""
        check_node(node)
        pull = [key for key, version in theirs.items()
                if key not in self.entries or self.entries[key].version < version]
        push = [self.entries[key] for key in self.tree.keys_of(node)
                if key not in theirs or theirs[key] < self.entries[key].version]
        self.counters.add("pulled", len(pull))
        asked = [_message(PULL, _writes(_KEYS, tuple(keys))) for keys in self._batches(pull, _key_bytes)]
        return [*asked, *self._pushes(push)]

    def _pushes(self, entries: Iterable[Entry]) -> Iterator[bytes]:
        """Entries in messages, up to what one answer may bring."""
        sent = 0
        for batch in self._batches(entries, _entry_bytes):
            sent += sum(entry.nbytes for entry in batch)
            self.counters.add("pushed", len(batch))
            yield _message(PUSH, _pushing(batch))
            if sent >= self.settings.max_reply_bytes:
                return

    def _batches(self, items: Iterable[T], nbytes: Callable[[T], int]) -> Iterator[list[T]]:
        batch: list[T] = []
        size = 0
        for item in items:
            batch.append(item)
            size += nbytes(item)
            if size >= self.settings.message_bytes:
                yield batch
                batch, size = [], 0
        if batch:
            yield batch

    def _pushed(self, entries: Iterable[Entry], wall: int) -> list[Change]:
        changes = []
        for entry in entries:
            if not 0 < len(entry.key) <= MAX_KEY_BYTES or not self.clock.sees(entry.version.stamp, wall):
                self.counters.add("refused")
                continue
            change = self._take(entry)
            if change is not None:
                changes.append(change)
        return changes


def _nodes(reader: wire.Reader) -> dict[str, bytes]:
    nodes: dict[str, bytes] = _NODES.read(reader)
    for node in nodes:
        check_node(node)
    return nodes


def check_node(node: str) -> None:
    """Raises WireError if it is no prefix of a place."""
    if len(node) > 2 * PLACE_BYTES or node.strip(DIGITS):
        raise WireError("a node is no prefix of a hash")


def _message(kind: int, body: Callable[[bytearray], None]) -> bytes:
    out = bytearray((kind,))
    body(out)
    return bytes(out)


def _writes(codec: wire.Codec[Any], value: Any) -> Callable[[bytearray], None]:
    return lambda out: codec.write(value, out)


def _pushing(entries: list[Entry]) -> Callable[[bytearray], None]:
    return lambda out: write_entries(entries, out)


def _entry_bytes(entry: Entry) -> int:
    return entry.nbytes


def _key_bytes(key: bytes) -> int:
    return len(key) + HELD_BYTES
