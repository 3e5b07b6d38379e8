"""A hash tree over keyed marks: two trees with equal roots hold the same, and where they differ is found by descending.

A key's place is its hash, in hexadecimal, so the tree is balanced whatever the keys are. A node is the prefix of a
place. It is a leaf if it holds `LEAF` marks or fewer, which only depends on what the tree holds, not on how it came
there; a leaf's hash is that of its marks, another node's that of its sixteen children's. Hashes are computed when asked
for, and forgotten along the path of what changes.
Source: Merkle (1987); as used for replicas in Dynamo (DeCandia et al. 2007, section 4.7).
"""
from __future__ import annotations

from bisect import bisect_left, insort
from hashlib import blake2b

DIGITS = "0123456789abcdef"
AFTER_ALL = "g"                        # sorts after every digit
PLACE_BYTES = 16
HASH_BYTES = 16
LEAF = 16


def place_of(key: bytes) -> str:
    """Where a key stands."""
    return blake2b(key, digest_size=PLACE_BYTES).hexdigest()


class HashTree:
    """See the module."""

    def __init__(self) -> None:
        self._marks: dict[str, tuple[bytes, bytes]] = {}      # place -> key, mark
        self._order: list[str] = []                           # places
        self._hashes: dict[str, bytes] = {}                   # node -> its hash, where it is known

    def __len__(self) -> int:
        return len(self._order)

    @property
    def root(self) -> bytes:
        """The hash of all."""
        return self.hash_of("")

    def put(self, key: bytes, mark: bytes) -> None:
        """Set a key's mark."""
        place = place_of(key)
        if place not in self._marks:
            insort(self._order, place)
        self._marks[place] = key, mark
        self._forget_path(place)

    def remove(self, key: bytes) -> None:
        """Take a key out."""
        place = place_of(key)
        del self._marks[place]
        del self._order[bisect_left(self._order, place)]
        self._forget_path(place)

    def _forget_path(self, place: str) -> None:
        for depth in range(len(place) + 1):
            self._hashes.pop(place[:depth], None)

    def _range(self, node: str) -> tuple[int, int]:
        return bisect_left(self._order, node), bisect_left(self._order, node + AFTER_ALL)

    def is_leaf(self, node: str) -> bool:
        """Whether so few keys stand under a node that they are named one by one."""
        first, stop = self._range(node)
        return stop - first <= LEAF or len(node) == 2 * PLACE_BYTES

    def keys_of(self, node: str) -> list[bytes]:
        """The keys under a node."""
        first, stop = self._range(node)
        return [self._marks[place][0] for place in self._order[first:stop]]

    def hash_of(self, node: str) -> bytes:
        """The hash of a node; of one with nothing under it too."""
        known = self._hashes.get(node)
        if known is None:
            hashed = blake2b(digest_size=HASH_BYTES)
            if self.is_leaf(node):
                first, stop = self._range(node)
                for place in self._order[first:stop]:
                    hashed.update(self._marks[place][1])
            else:
                hashed.update(b"node")
                for child in self.children(node):
                    hashed.update(self.hash_of(child))
            known = self._hashes[node] = hashed.digest()
        return known

    @staticmethod
    def children(node: str) -> list[str]:
        """The sixteen nodes below a node."""
        return [node + digit for digit in DIGITS]
