"""Estimates the offset between the clocks of two hosts, from the messages that went both ways between them.

A delay measured with two clocks is the true one plus their offset. If the fastest message of each direction took the
same time, half the difference of the two smallest delays is the offset (as in NTP); it is wrong by at most half their
sum. Recorders of one host share its clock. Without traffic in both directions there is no estimate.
"""
from __future__ import annotations

from collections.abc import Iterable, Mapping

import attrs


@attrs.frozen
class Offset:
    """How much the clock of host `there` is ahead of that of `here`. error_ns: the most by which the estimate may be
    wrong, None: there is no estimate; how: where it comes from, in words."""

    here: str
    there: str
    offset_ns: int
    error_ns: int | None
    how: str


def offsets(least_ns: Mapping[tuple[str, str], int]) -> dict[tuple[str, str], Offset]:
    """(host, host) -> offset; least_ns: (sender's host, receiver's host) -> the smallest delay measured."""
    found: dict[tuple[str, str], Offset] = {}
    for here, there in least_ns:
        back = least_ns.get((there, here))
        if here == there:
            found[here, there] = Offset(here, there, 0, 0, "one host, one clock")
        elif back is None:
            found[here, there] = Offset(here, there, 0, None, "traffic one way only: not corrected")
        else:
            forth = least_ns[here, there]
            found[here, there] = Offset(here, there, (forth - back) // 2, (forth + back + 1) // 2,
                                        "half the difference of the smallest delays")
    return found


def least_between(delays: Iterable[tuple[str, str, int]]) -> dict[tuple[str, str], int]:
    """(sender's host, receiver's host) -> the smallest of the given delays between them."""
    found: dict[tuple[str, str], int] = {}
    for here, there, delay_ns in delays:
        found[here, there] = min(delay_ns, found.get((here, there), delay_ns))
    return found
