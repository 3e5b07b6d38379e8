"""The items of an open stream, at the member that gives them: what was produced and is not taken yet. Pure.

The caller *pulls*: each pull is a request, and its answer has the items that are there, or the first that comes. So a
slow reader bounds what is kept: production stops at a window of items, or PIECE_BYTES, until a pull has taken them.
"""
from __future__ import annotations

from collections.abc import Callable

from jgroups_py.blocks.service.messages import PIECE_BYTES, Answerable, encode_items

Fail = Callable[[Answerable], None]


class StreamBuffer:
    """See the module. window: how many items may wait. closed: the caller has had the end."""

    def __init__(self, window: int) -> None:
        self.window = window
        self.closed = False
        self._items: list[bytes] = []
        self._nbytes = 0
        self._pull: Answerable | None = None
        self._fail: Fail | None = None                       # answers the pull after the last item, if it is an error
        self._over = False

    @property
    def full(self) -> bool:
        """Whether production has to wait for a pull."""
        return len(self._items) >= self.window or self._nbytes >= PIECE_BYTES

    @property
    def waits(self) -> bool:
        """Whether a pull waits for items."""
        return self._pull is not None

    def add(self, item: bytes) -> None:
        """An item was produced."""
        self._items.append(item)
        self._nbytes += len(item)

    def end(self, fail: Fail | None) -> None:
        """There are no more items; fail: how a pull is answered after the last one, None: by the end."""
        self._over, self._fail = True, fail

    def pulled(self, pull: Answerable) -> bool:
        """Items are wanted. False: a pull waits already, so this one is refused by the caller of it."""
        if self._pull is not None or self.closed:
            return False
        self._pull = pull
        return True

    def flush(self) -> None:
        """Answer the pull that waits, if there is something to answer."""
        pull = self._pull
        if pull is None or not (self._items or self._over):
            return
        self._pull = None
        items, self._items, self._nbytes = self._items, [], 0
        if self._fail is not None and not items:
            self.closed = True
            self._fail(pull)
            return
        self.closed = self._over and self._fail is None
        pull.answer(encode_items(items, not self.closed))
