"""What an application loses because it is too slow: dropped in one place, at the top, counted, and told in order. Pure.

FLOW says of whom, from when and until when (SkipMulticasts). What a relay brings from another site is skipped with the
relay's own multicasts. Own multicasts, unicasts and those marked NO_FC are never skipped. A loss is told when it is
over, and before a view is installed, so that every message of a view is delivered or declared lost in it.
"""
from __future__ import annotations

from jgroups_py.address import Address, ProxyUUID
from jgroups_py.batch import NO_FC, Batch
from jgroups_py.outputs import Closed, Deliver, MessagesSkipped, Output, SkipMulticasts, ViewInstalled


class Skipping:
    """Whose multicasts are skipped now. gaps: sender -> origin -> (messages, bytes) not told yet."""

    def __init__(self) -> None:
        self.gaps: dict[Address, dict[Address, tuple[int, int]]] = {}

    def __bool__(self) -> bool:
        """Whether anybody's are."""
        return bool(self.gaps)

    def switch(self, asked: SkipMulticasts) -> list[Output]:
        """Begin or end; what is to be told."""
        if asked.on:
            self.gaps.setdefault(asked.sender, {})
            return []
        return _told(self.gaps.pop(asked.sender, {}))

    def passed(self, output: Output) -> list[Output]:
        """What takes the place of `output`."""
        if isinstance(output, Deliver):
            gap = self._gap(output.batch)
            if gap is None:
                return [output]
            messages, nbytes = gap.get(output.batch.src, (0, 0))
            gap[output.batch.src] = messages + len(output.batch.payloads), nbytes + output.batch.nbytes
            return []
        if isinstance(output, ViewInstalled | Closed):
            found = [told for gap in self.gaps.values() for told in _told(gap)]
            for gap in self.gaps.values():
                gap.clear()
            return [*found, output]
        return [output]

    def _gap(self, batch: Batch) -> dict[Address, tuple[int, int]] | None:
        if batch.dest is not None or batch.flags & NO_FC:
            return None
        src = batch.src
        return self.gaps.get(src.relay if isinstance(src, ProxyUUID) and src.relay is not None else src)


def _told(gap: dict[Address, tuple[int, int]]) -> list[Output]:
    return [MessagesSkipped(origin, messages, nbytes) for origin, (messages, nbytes) in gap.items()]
