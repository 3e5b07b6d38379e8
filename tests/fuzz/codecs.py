"""Codec fuzz: mutated inputs for everything that reads bytes which others wrote, and a bound on what one may cost.

A target reads an input and may raise its documented errors, nothing else. Where a checksum guards the input, a second
target mends the checksum after the mutation, because an attacker can do so too. An input that costs more than
CPU_SECONDS of CPU (three times in a row: collecting garbage is not its fault) or MEMORY_BYTES of memory is a finding.
"""
from __future__ import annotations

import contextlib
import resource
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from random import Random
from time import process_time

import attrs

from jgroups_py.model.errors import WireError
from tests.fuzz.mutate import mutated
from tests.fuzz.pace import slowness

CPU_SECONDS = 0.05
MEMORY_BYTES = 64 << 20
RETRIES = 2
KB = 1024


@attrs.frozen
class Target:
    """read: what is tried; errors: what it may raise; seeds: inputs to begin with; cpu_s: what one may cost."""

    name: str
    read: Callable[[bytes], object]
    seeds: tuple[bytes, ...]
    errors: tuple[type[Exception], ...] = (WireError,)
    cpu_s: float = CPU_SECONDS


@attrs.frozen
class Finding:
    """An input and what is wrong with what came of it."""

    cause: str
    detail: str
    data: bytes


@attrs.define
class Result:
    """What came of the inputs of one target."""

    inputs: int = 0
    refused: int = 0
    cpu_s: float = 0.0
    slowest_s: float = 0.0
    causes: Counter[str] = attrs.field(factory=Counter)
    first: dict[str, Finding] = attrs.field(factory=dict)

    def add(self, finding: Finding) -> None:
        """One more; the shortest input of each cause is kept."""
        self.causes[finding.cause] += 1
        known = self.first.get(finding.cause)
        if known is None or len(finding.data) < len(known.data):
            self.first[finding.cause] = finding


def fuzz(target: Target, seed: int, inputs: int, more_seeds: Sequence[bytes] = ()) -> Result:
    """Try so many mutated inputs."""
    rng = Random(f"{target.name}/{seed}")
    seeds = (*target.seeds, *more_seeds)
    result = Result()
    for _ in range(inputs):
        finding = attempt(target, mutated(rng, seeds), result)
        if finding is not None:
            result.add(finding)
    return result


def attempt(target: Target, data: bytes, result: Result) -> Finding | None:
    """Try one input."""
    result.inputs += 1
    before_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began_s = process_time()
    try:
        target.read(data)
    except target.errors:
        result.refused += 1
    except Exception as error:                   # noqa: BLE001  whatever it is, it is what we look for
        return Finding(described(error), "".join(traceback.format_exception(error))[-2000:], data)
    cost_s = process_time() - began_s
    result.cpu_s += cost_s
    if cost_s > target.cpu_s:
        cost_s = min(timed(target, data) / slowness() for _ in range(1 + RETRIES))
        if cost_s > target.cpu_s:
            return Finding("CPU", f"{cost_s:.3f} s", data)
    result.slowest_s = max(result.slowest_s, cost_s)
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kb) * KB
    return Finding("memory", f"{grown:,} bytes", data) if grown > MEMORY_BYTES else None


def timed(target: Target, data: bytes) -> float:
    """Seconds of CPU for an input that raises nothing but documented errors."""
    began_s = process_time()
    with contextlib.suppress(target.errors):
        target.read(data)
    return process_time() - began_s


def described(error: Exception) -> str:
    """What was raised and where."""
    steps = [step for step in traceback.extract_tb(error.__traceback__) if "/jgroups_py/" in step.filename]
    where = f"{steps[-1].filename.rpartition('jgroups_py/')[2]}:{steps[-1].name}" if steps else "elsewhere"
    return f"{type(error).__name__} in {where}"


