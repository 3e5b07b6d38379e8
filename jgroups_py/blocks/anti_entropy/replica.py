"""One copy of a keyed state, and what copies say to each other until they are equal. Pure: bytes in, bytes out.

    one                                       another
    BEGIN    the hash of the root        ->   equal: nothing to say. else, as long as a node is no leaf here:
    COMPARE  the hashes of its children  <->  COMPARE the hashes of children that differ
             where it is a leaf here     <->  SUMMARY: the keys under it with their versions
    what is newer there, what is newer here
                                         <-   PULL these keys; PUSH these entries
    PUSH  what was pulled                ->

Nobody keeps state of an exchange: each message says all it needs, so any of them may be lost, doubled or overtaken, and
the next round begins where the trees still differ. Each answer looks at longer prefixes or at keys, so exchanges end.
One answer brings `max_reply_bytes` at most; a copy that lacks much is filled in rounds.

Trees hold what is not deleted. The mark of a deletion travels as an entry without value: when it happens, and to who
shows or sends an older entry of its key. Copies that hold the same and know differently of it (knowledge.py; BEGIN has
a hash of that too) say KNOWN to each other. That is when marks go that nobody needs any more.
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
from jgroups_py.blocks.anti_entropy.knowledge import Knowledge, Stamps
from jgroups_py.blocks.anti_entropy.tree import DIGITS, HASH_BYTES, PLACE_BYTES, HashTree
from jgroups_py.counters import Counters
from jgroups_py.errors import WireError
from jgroups_py.units import NS_PER_S

T = TypeVar("T")
COMPARE, SUMMARY, PULL, PUSH, BEGIN, KNOWN = range(1, 7)
_NODES = wire.mapping(wire.TEXT, wire.fixed_bytes(HASH_BYTES))
_KEYS = wire.sequence(wire.BYTES)
_HASH = wire.fixed_bytes(HASH_BYTES)
_BEGIN = wire.record(_HASH, _HASH)
_KNOWN = wire.record(_HASH, wire.DIGEST, wire.DIGEST)
HELD_BYTES = 28                        # of a key in a summary, beside the key
MAX_KEY_BYTES = 1024


@attrs.frozen
class Settings:
    """message_bytes: how large a message becomes before another one is begun, if entries are smaller; max_reply_bytes:
    what one message may be answered with; max_nodes: hashes in a message; max_ahead: see HybridClock; forget_after: see
    Knowledge. Both in the unit of `wall`, which is nanoseconds for a SharedTable."""

    message_bytes: int = 8 << 10
    max_reply_bytes: int = 256 << 10
    max_nodes: int = 256
    max_ahead: int = 0
    forget_after: int = 3600 * NS_PER_S


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
        self.deleted: dict[bytes, Entry] = {}        # the marks that are still needed
        self.knowledge = Knowledge(self.settings.forget_after)
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
        """All of it."""
        return {key: entry.value for key, entry in self.entries.items() if entry.value is not None}

    def write(self, key: bytes, value: bytes | None, wall: int) -> tuple[Change | None, bytes]:
        """Set a key, or delete it (None); the message that tells the other copies of it."""
        if not 0 < len(key) <= MAX_KEY_BYTES:
            raise ValueError(f"a key has 1 to {MAX_KEY_BYTES} bytes, not {len(key)}")
        entry = Entry(key, Version(self.clock.stamp(wall), self.me), value)
        self.knowledge.wrote(entry.version)
        return self._take(entry), _message(PUSH, lambda out: write_entries((entry,), out))

    def _take(self, entry: Entry) -> Change | None:
        """Hold an entry if it wins; what changes for the application."""
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
        old = None if before is None else before.value
        return None if old == entry.value else Change(entry.key, old, entry.value, entry.version)

    def _death(self, key: bytes, version: Version) -> Entry | None:
        """The mark that an entry which somebody shows us was deleted; None: it was not, as far as we know."""
        here, mark = self.entries.get(key), self.deleted.get(key)
        if here is not None and here.version >= version:
            return None
        if mark is not None and mark.version >= version:
            return mark
        return Entry(key, version, None) if self.knowledge.covers(version) else None

    def forget(self, wall: int) -> None:
        """Drop the marks of deletions that nobody needs any more."""
        self.knowledge.give_up_the_silent(wall)
        settled = self.knowledge.settled()
        for key in [key for key, mark in self.deleted.items() if mark.version.stamp <= settled]:
            del self.deleted[key]

    # --- with others --------------------------------------------------------------------------------------------------

    def begin(self, wall: int) -> bytes:
        """The message that begins an exchange with any other copy."""
        self.forget(wall)
        return _message(BEGIN, _writes(_BEGIN, (self.root, self.knowledge.mark)))

    def receive(self, data: bytes, wall: int) -> tuple[list[Change], list[bytes]]:
        """A message of another copy: what changes here, and what to answer.

        Raises:
            WireError: it is none.
        """
        reader = wire.Reader(data, wire.Interner())
        kind = reader.take(1)[0]
        changes: list[Change] = []
        if kind == BEGIN:
            replies = self._begun(*_BEGIN.read(reader))
        elif kind == KNOWN:
            root, whole, heard = _KNOWN.read(reader)
            replies = self._known(root, whole, heard, wall)
        elif kind == COMPARE:
            replies = list(self._compared(_nodes(reader)))
        elif kind == SUMMARY:
            replies = self._summarised(wire.TEXT.read(reader), dict(read_held(reader)))
        elif kind == PULL:
            replies = list(self._pushes(self.entries[key] for key in _KEYS.read(reader) if key in self.entries))
        elif kind == PUSH:
            changes, replies = self._pushed(read_entries(reader), wall)
        else:
            raise WireError("a message of no known kind")
        return changes, replies

    def _begun(self, root: bytes, mark: bytes) -> list[bytes]:
        """They begin: look for what differs; where nothing does, tell what we know of it."""
        if root != self.root:
            return list(self._compared({"": root}))
        return [] if mark == self.knowledge.mark else [self._knowing()]

    def _knowing(self) -> bytes:
        return _message(KNOWN, _writes(_KNOWN, (self.root, self.knowledge.whole, self.knowledge.heard)))

    def _known(self, root: bytes, whole: Stamps, heard: Stamps, wall: int) -> list[bytes]:
        """What they know of the same entries. If we know more, they should know it too."""
        if root != self.root:
            self.counters.add("changed_meanwhile")
            return []
        if not all(self.clock.sees(stamp, wall) for stamps in (whole, heard) for stamp in stamps.values()):
            self.counters.add("refused")
            return []
        self.knowledge.join(whole, heard, wall)
        self.forget(wall)
        return [] if (self.knowledge.whole, self.knowledge.heard) == (whole, heard) else [self._knowing()]

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
        """All that they have under a node: ask for what is newer there, send what is newer or was deleted here."""
        check_node(node)
        dead = [death for death in (self._death(key, version) for key, version in theirs.items()) if death is not None]
        gone = {death.key: None for death in dead}
        pull = [key for key, version in theirs.items() if key not in gone
                and (key not in self.entries or self.entries[key].version < version)]
        push = [self.entries[key] for key in self.tree.keys_of(node)
                if key not in theirs or theirs[key] < self.entries[key].version]
        self.counters.add("pulled", len(pull))
        asked = [_message(PULL, _writes(_KEYS, tuple(keys))) for keys in self._batches(pull, _key_bytes)]
        return [*asked, *self._pushes([*dead, *push])]

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

    def _pushed(self, entries: Iterable[Entry], wall: int) -> tuple[list[Change], list[bytes]]:
        """Entries come; who sends what was deleted here is told so."""
        changes, dead = [], []
        for entry in entries:
            if not 0 < len(entry.key) <= MAX_KEY_BYTES or not self.clock.sees(entry.version.stamp, wall):
                self.counters.add("refused")
                continue
            death = None if entry.value is None else self._death(entry.key, entry.version)
            self.knowledge.hears(entry.version, wall)
            if death is not None:
                dead.append(death)
                continue
            change = self._take(entry)
            if change is not None:
                changes.append(change)
        return changes, list(self._pushes(dead))


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
