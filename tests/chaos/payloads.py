"""The payloads of the load, and how a record of a run names them in few words.

A payload is its sender's prefix and a number, filled up with dots to some size: "A#1>*/17.....". Neighbours that count
on become one run [prefix, first, count, size]; anything else, damaged ones above all, is kept as it is, in hex.
"""
from __future__ import annotations

from collections.abc import Iterable, Iterator

Run = list[str | int]
"""[prefix, first, count, size], or [hex] for a payload that none of us made."""
FILL = b"."


def make(prefix: str, number: int, size: int) -> bytes:
    """The payload number `number` of a prefix, at least `size` bytes long."""
    return f"{prefix}{number}".encode().ljust(size, FILL)


def runs_of(payloads: Iterable[bytes]) -> list[Run]:
    """What a record keeps of delivered payloads."""
    found: list[Run] = []
    for payload in payloads:
        run = parse(payload)
        if found and len(run) == len(found[-1]) == 4 and follows(found[-1], run):
            found[-1][2] += 1                                  # type: ignore[operator]  # the count is a number
        else:
            found.append(run)
    return found


def parse(payload: bytes) -> Run:
    """The run of one payload."""
    text = payload.rstrip(FILL)
    prefix, slash, digits = text.rpartition(b"/")
    if slash and digits.isdigit() and prefix.isascii():
        size = len(payload) if len(payload) > len(text) else 0
        run: Run = [(prefix + slash).decode(), int(digits), 1, size]
        if make(str(run[0]), int(digits), size) == payload:
            return run
    return [payload.hex()]


def follows(run: Run, following: Run) -> bool:
    """Whether a run of one payload continues another run."""
    prefix, first, count, size = run
    return [prefix, int(first) + int(count), 1, size] == following


def names(runs: Iterable[Run]) -> Iterator[bytes]:
    """What stands for each payload in a history: "A#1>*/17:1000", the last number its size. Equal if and only if the
    payloads are equal, and short however large those were.

    >>> list(names([["A#1>*/", 9, 2, 100], ["ff00"]]))
    [b'A#1>*/9:100', b'A#1>*/10:100', b'?ff00']
    """
    for run in runs:
        if len(run) == 1:
            yield f"?{run[0]}".encode()
        else:
            prefix, first, count, size = run
            for number in range(int(first), int(first) + int(count)):
                yield f"{prefix}{number}:{size}".encode()
