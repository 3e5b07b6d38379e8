"""A hash tree over keyed marks: trees with equal roots hold the same; differences are found by descending.

A key's place is its hash, in hexadecimal, so the tree is balanced for any keys. A node is a prefix of a place. It is a
leaf if it holds `LEAF` marks or fewer, which depends only on the contents of the tree, not on their history; the hash
of a leaf covers its marks, the hash of another node those of its sixteen children. Hashes are computed on demand, and
invalidated along the path of a change.
Source: Merkle (1987); as used for replicas in Dynamo (DeCandia et al. 2007, section 4.7).
"""
from __future__ import annotations

from hashlib import blake2b

from sortedcontainers import SortedDict

DIGITS = "0123456789abcdef"
AFTER_ALL = "g"                        # sorts after every digit
PLACE_BYTES = 16
HASH_BYTES = 16
LEAF = 16


def place_of(key: bytes) -> str:
    """The place of a key."""
    return blake2b(key, digest_size=PLACE_BYTES).hexdigest()


class HashTree:
    """The tree of one copy."""

    def __init__(self) -> None:
        self._marks: SortedDict[str, tuple[bytes, bytes]] = SortedDict()   # place -> key, mark
        self._hashes: dict[str, bytes] = {}                   # node -> its hash, where it is known

    def __len__(self) -> int:
        return len(self._marks)

    @property
    def root(self) -> bytes:
        """The hash of the whole tree."""
        return self.hash_of("")

    def put(self, key: bytes, mark: bytes) -> None:
        """Set a key's mark."""
        place = place_of(key)
        self._marks[place] = key, mark
        self._forget_path(place)

    def remove(self, key: bytes) -> None:
        """Remove a key."""
        place = place_of(key)
        del self._marks[place]
        self._forget_path(place)

    def _forget_path(self, place: str) -> None:
        for depth in range(len(place) + 1):
            self._hashes.pop(place[:depth], None)

    def _range(self, node: str) -> tuple[int, int]:
        return self._marks.bisect_left(node), self._marks.bisect_left(node + AFTER_ALL)

    def is_leaf(self, node: str) -> bool:
        """Whether a node has so few keys that a summary lists them."""
        first, stop = self._range(node)
        return stop - first <= LEAF or len(node) == 2 * PLACE_BYTES

    def keys_of(self, node: str) -> list[bytes]:
        """The keys under a node."""
        first, stop = self._range(node)
        return [key for key, _ in self._marks.values()[first:stop]]

    def hash_of(self, node: str) -> bytes:
        """The hash of a node, which may be empty."""
        known = self._hashes.get(node)
        if known is None:
            hashed = blake2b(digest_size=HASH_BYTES)
            if self.is_leaf(node):
                first, stop = self._range(node)
                for _, mark in self._marks.values()[first:stop]:
                    hashed.update(mark)
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
