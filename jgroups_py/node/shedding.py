"""Load shedding: multicasts that a slow application loses, dropped in one place, counted, and reported in order. Pure.

FLOW decides whose multicasts are shed, from when and until when (SkipMulticasts). Multicasts that a relay brings from
another site are shed with the relay's own ones. Own multicasts, unicasts and those with NO_FC are never shed. A loss is
reported when it is over, and before a view is installed, so that every message of a view is delivered or declared lost
in it.
"""
from __future__ import annotations

from jgroups_py.model.address import Address, ProxyUUID
from jgroups_py.model.batch import NO_FC, Batch
from jgroups_py.model.outputs import Closed, Deliver, MessagesSkipped, Output, SkipMulticasts, ViewInstalled


class Shedding:
    """The senders whose multicasts are shed now. gaps: sender -> origin -> (messages, bytes) not reported yet."""

    def __init__(self) -> None:
        self.gaps: dict[Address, dict[Address, tuple[int, int]]] = {}

    def __bool__(self) -> bool:
        """Whether any sender's multicasts are shed."""
        return bool(self.gaps)

    def switch(self, request: SkipMulticasts) -> list[Output]:
        """Begin or end to shed a sender's multicasts. Returns the losses to report: all of that sender, at the end."""
        if request.on:
            self.gaps.setdefault(request.sender, {})
            return []
        return _losses(self.gaps.pop(request.sender, {}))

    def passed(self, output: Output) -> list[Output]:
        """What takes the place of `output`: nothing for a batch that is shed, the losses first for a new view."""
        if isinstance(output, Deliver):
            gap = self._gap(output.batch)
            if gap is None:
                return [output]
            messages, nbytes = gap.get(output.batch.src, (0, 0))
            gap[output.batch.src] = messages + len(output.batch.payloads), nbytes + output.batch.nbytes
            return []
        if isinstance(output, ViewInstalled | Closed):
            found = [loss for gap in self.gaps.values() for loss in _losses(gap)]
            for gap in self.gaps.values():
                gap.clear()
            return [*found, output]
        return [output]

    def _gap(self, batch: Batch) -> dict[Address, tuple[int, int]] | None:
        if batch.dest is not None or batch.flags & NO_FC:
            return None
        src = batch.src
        return self.gaps.get(src.relay if isinstance(src, ProxyUUID) and src.relay is not None else src)


def _losses(gap: dict[Address, tuple[int, int]]) -> list[Output]:
    return [MessagesSkipped(origin, messages, nbytes) for origin, (messages, nbytes) in gap.items()]
