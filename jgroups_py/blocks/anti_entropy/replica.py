"""One copy of a keyed state, and the messages by which copies become equal. Pure: bytes in, bytes out.

    one                                       another
    BEGIN    the hash of the root        ->   equal: no answer. Else, while a node is no leaf here:
    COMPARE  the hashes of its children  <->  COMPARE the hashes of children that differ
             where it is a leaf here     <->  SUMMARY: the keys under it with their versions
    keys that are newer there or here
                                         <-   PULL these keys; PUSH these entries
    PUSH  the pulled entries             ->

Exchanges have no state: each message is complete in itself, so any may be lost, duplicated or overtaken, and the next
round begins where the trees still differ. Each answer has longer prefixes, or keys, so exchanges end. One answer has at
most `max_reply_bytes`; a copy that lacks more is filled in several rounds.

Trees hold entries that are not deleted. The mark of a deletion is sent as an entry without value: at the deletion, and
to a copy that lists or sends an older entry of the key. Copies with equal entries and different causal contexts
(causal_context.py; BEGIN has a hash of it, too) exchange CONTEXT, and then drop marks that are not needed any more.
"""
from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

import attrs

from jgroups_py import wire
from jgroups_py.blocks.anti_entropy.causal_context import CausalContext, Stamps
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
from jgroups_py.model.address import Address
from jgroups_py.model.counters import Counters, counter, declare, drop, figure, table
from jgroups_py.model.errors import WireError
from jgroups_py.model.units import NS_PER_S

T = TypeVar("T")
COMPARE, SUMMARY, PULL, PUSH, BEGIN, CONTEXT = range(1, 7)
_NODES = wire.mapping(wire.TEXT, wire.fixed_bytes(HASH_BYTES))
_KEYS = wire.sequence(wire.BYTES)
_HASH = wire.fixed_bytes(HASH_BYTES)
_BEGIN = wire.record(_HASH, _HASH)
_CONTEXT = wire.record(_HASH, wire.DIGEST, wire.DIGEST)
HELD_BYTES = 28                        # of a key in a summary, beside the key
MAX_KEY_BYTES = 1024


@attrs.frozen
class Settings:
    """Limits of a copy.

    message_bytes: size at which the next message is begun (one entry may exceed it); max_reply_bytes: bytes of the
    answer to one message; max_nodes: hashes in a message; max_ahead: see HybridClock; forget_after: see CausalContext;
    the last two in the unit of `wall`, which is nanoseconds for a SharedTable.
    """

    message_bytes: int = 8 << 10
    max_reply_bytes: int = 256 << 10
    max_nodes: int = 256
    max_ahead: int = 0
    forget_after: int = 3600 * NS_PER_S


@attrs.frozen
class Change:
    """The value of a key changed from `before` to `after`; None: no value."""

    key: bytes
    before: bytes | None
    after: bytes | None
    version: Version


class Replica:
    """One copy. `me`: its writer; `wall`, an argument of every call: the time of day in a unit common to all copies.
    watchers: called with the key of each entry that was set, replaced or deleted (part.py)."""

    COUNTERS = declare(
        counter("nodes_differing", "Nodes of the hash tree in which two copies differed."),
        counter("pulled", "Entries requested because another copy has newer ones."),
        counter("pushed", "Entries sent because another copy has older ones."),
        counter("changed_meanwhile", "Comparisons abandoned because the copy had changed."),
        counter("watcher_exceptions", "Exceptions that the watcher of changes raised."),
        counter("not_sent", "Messages that could not be sent: the channel is closed."),
        drop("refused", "Entries and claims whose time lies too far in the future, and entries with impossible keys."),
        drop("malformed", "Messages that could not be decoded."),
        figure("deletions", "Marks of deletions that are kept now."),
    )

    def __init__(self, me: Address, settings: Settings | None = None) -> None:
        self.me = me
        self.settings = settings or Settings()
        self.clock = HybridClock(self.settings.max_ahead)
        self.entries: dict[bytes, Entry] = {}
        self.deleted: dict[bytes, Entry] = {}        # the marks that are still needed
        self.context = CausalContext(self.settings.forget_after)
        self.tree = HashTree()
        self.counters = Counters(table(self.COUNTERS))
        self.watchers: list[Callable[[bytes], None]] = []

    # --- as a table ---------------------------------------------------------------------------------------------------

    @property
    def root(self) -> bytes:
        """The hash of all entries; equal at two copies that hold the same."""
        return self.tree.root

    def get(self, key: bytes) -> bytes | None:
        """The value of a key; None: it has none."""
        entry = self.entries.get(key)
        return None if entry is None else entry.value

    def items(self) -> dict[bytes, bytes]:
        """All keys with their values."""
        return {key: entry.value for key, entry in self.entries.items() if entry.value is not None}

    def write(self, key: bytes, value: bytes | None, wall: int) -> tuple[Change | None, bytes]:
        """Set a key, or delete it (None). Returns the change, and the message for the other copies."""
        if not 0 < len(key) <= MAX_KEY_BYTES:
            raise ValueError(f"a key has 1 to {MAX_KEY_BYTES} bytes, not {len(key)}")
        entry = Entry(key, Version(self.clock.stamp(wall), self.me), value)
        self.context.record_own(entry.version)
        return self._take(entry), _message(PUSH, lambda out: write_entries((entry,), out))

    def _take(self, entry: Entry) -> Change | None:
        """Keep an entry if it wins; returns the change for the application."""
        before = self.entries.get(entry.key)
        if not entry.wins_over(before or self.deleted.get(entry.key)):
            return None
        if entry.value is None:
            self.deleted[entry.key] = entry
            if before is not None:
                del self.entries[entry.key]
                self.tree.remove(entry.key)
        else:
            self.deleted.pop(entry.key, None)
            self.entries[entry.key] = entry
            self.tree.put(entry.key, entry.mark)
        for watcher in self.watchers:
            watcher(entry.key)
        old = None if before is None else before.value
        return None if old == entry.value else Change(entry.key, old, entry.value, entry.version)

    def _deletion_of(self, key: bytes, version: Version) -> Entry | None:
        """The mark for an entry of another copy that was deleted here; None: no deletion of it is known."""
        here, mark = self.entries.get(key), self.deleted.get(key)
        if here is not None and here.version >= version:
            return None
        if mark is not None and mark.version >= version:
            return mark
        return Entry(key, version, None) if self.context.covers(version) else None

    def forget(self, wall: int) -> None:
        """Drop marks of deletions whose older entries `CausalContext.whole` would reject as well."""
        self.context.expire_writers(wall)
        settled = self.context.settled()
        for key in [key for key, mark in self.deleted.items() if mark.version.stamp <= settled]:
            del self.deleted[key]

    # --- exchanges with other copies ----------------------------------------------------------------------------------

    def begin(self, wall: int) -> bytes:
        """The message that begins an exchange with any other copy."""
        self.forget(wall)
        return _message(BEGIN, _writes(_BEGIN, (self.root, self.context.mark)))

    def receive(self, data: bytes, wall: int) -> tuple[list[Change], list[bytes]]:
        """Handle a message of another copy. Returns the changes here, and the answers.

        Raises:
            WireError: the bytes are no message.
        """
        reader = wire.Reader(data, wire.Interner())
        kind = reader.take(1)[0]
        changes: list[Change] = []
        if kind == BEGIN:
            replies = self._begun(*_BEGIN.read(reader))
        elif kind == CONTEXT:
            root, whole, seen = _CONTEXT.read(reader)
            replies = self._context(root, whole, seen, wall)
        elif kind == COMPARE:
            replies = list(self._compared(_nodes(reader)))
        elif kind == SUMMARY:
            replies = self._summarised(wire.TEXT.read(reader), dict(read_held(reader)))
        elif kind == PULL:
            replies = list(self.pushes(self.entries[key] for key in _KEYS.read(reader) if key in self.entries))
        elif kind == PUSH:
            changes, replies = self._pushed(read_entries(reader), wall)
        else:
            raise WireError("a message of no known kind")
        return changes, replies

    def _begun(self, root: bytes, mark: bytes) -> list[bytes]:
        """The peer begins an exchange: compare the trees; where they are equal and the contexts differ, send the
        context."""
        if root != self.root:
            return list(self._compared({"": root}))
        return [] if mark == self.context.mark else [self._own_context()]

    def _own_context(self) -> bytes:
        return _message(CONTEXT, _writes(_CONTEXT, (self.root, self.context.whole, self.context.seen)))

    def _context(self, root: bytes, whole: Stamps, seen: Stamps, wall: int) -> list[bytes]:
        """Merge the context of a copy with the same entries; if the result differs from it, answer with the result."""
        if root != self.root:
            self.counters.add("changed_meanwhile")
            return []
        if not all(self.clock.observe(stamp, wall) for stamps in (whole, seen) for stamp in stamps.values()):
            self.counters.add("refused")
            return []
        self.context.join(whole, seen, wall)
        self.forget(wall)
        return [] if (self.context.whole, self.context.seen) == (whole, seen) else [self._own_context()]

    def _compared(self, hashes: dict[str, bytes]) -> Iterator[bytes]:
        """Handle the other copy's hashes of nodes: descend where they differ."""
        deeper: dict[str, bytes] = {}
        for node in [node for node, hashed in hashes.items() if self.tree.hash_of(node) != hashed]:
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
        return self._summary_of(node, self.tree.keys_of(node))

    def _summary_of(self, node: str, keys: Iterable[bytes]) -> bytes:
        held = [(key, self.entries[key].version) for key in keys]

        def body(out: bytearray) -> None:
            wire.TEXT.write(node, out)
            write_held(held, out)
        return _message(SUMMARY, body)

    def _summarised(self, node: str, versions: dict[bytes, Version]) -> list[bytes]:
        """Handle the other copy's keys under a node: pull what is newer there, push what is newer or deleted here."""
        check_node(node)
        marks = [mark for mark in (self._deletion_of(key, version) for key, version in versions.items())
                 if mark is not None]
        deleted = {mark.key: None for mark in marks}
        pull = [key for key, version in versions.items() if key not in deleted
                and (key not in self.entries or self.entries[key].version < version)]
        push = [self.entries[key] for key in self.tree.keys_of(node)
                if key not in versions or versions[key] < self.entries[key].version]
        return [*self.pulls(pull), *self.pushes([*marks, *push])]

    def pulls(self, keys: Sequence[bytes]) -> list[bytes]:
        """PULL messages for these keys."""
        self.counters.add("pulled", len(keys))
        return [_message(PULL, _writes(_KEYS, tuple(batch))) for batch in self._batches(keys, _key_bytes)]

    def pushes(self, entries: Iterable[Entry]) -> Iterator[bytes]:
        """PUSH messages with these entries, up to `max_reply_bytes`."""
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

    def _pushed(self, entries: Iterable[Entry], wall: int) -> tuple[list[Change], list[bytes]]:
        """Handle pushed entries; answer those that were deleted here with their marks."""
        changes, marks = self.take_pushed(entries, wall)
        return changes, list(self.pushes(marks))

    def take_pushed(self, entries: Iterable[Entry], wall: int) -> tuple[list[Change], list[Entry]]:
        """Keep pushed entries that win: the changes, and the marks of those that were deleted here."""
        changes, marks = list[Change](), list[Entry]()
        for entry in entries:
            if not 0 < len(entry.key) <= MAX_KEY_BYTES or not self.clock.observe(entry.version.stamp, wall):
                self.counters.add("refused")
                continue
            mark = None if entry.value is None else self._deletion_of(entry.key, entry.version)
            self.context.record(entry.version, wall)
            if mark is not None:
                marks.append(mark)
                continue
            change = self._take(entry)
            if change is not None:
                changes.append(change)
        return changes, marks


def pushed_entries(data: bytes) -> tuple[Entry, ...] | None:
    """The entries of a PUSH; None: it is another message. Raises WireError."""
    if not data or data[0] != PUSH:
        return None
    return read_entries(wire.Reader(data, wire.Interner(), 1))


def _nodes(reader: wire.Reader) -> dict[str, bytes]:
    nodes: dict[str, bytes] = _NODES.read(reader)
    for node in nodes:
        check_node(node)
    return nodes


def check_node(node: str) -> None:
    """Raises WireError if it is no prefix of a place."""
    if len(node) > 2 * PLACE_BYTES or node.strip(DIGITS):
        raise WireError("a node that is no prefix of a hash")


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
