"""The C library keeps the memory that datagrams and messages give back, instead of returning it and asking again.

A flood allocates 64 KB for each datagram and as much again for its messages, and gives all back a little later. glibc
returns what is free at the top of its heap from 128 KB on, so a receiver of 10 KB messages took 44,000 page faults a
second for memory that it had had a moment before: a tenth of its time. glibc raises that limit to twice the size of
the largest block that it had mapped by itself and that was freed (mallopt(3), M_MMAP_THRESHOLD, "dynamic"), so
freeing one such block, never touched, is enough; a MALLOC_TRIM_THRESHOLD_ in the environment takes precedence.
"""
from __future__ import annotations

BLOCK_BYTES = 8 << 20                       # twice that may stay free: windows (4 MB) and backlog (2 MB) come and go


def keep_freed_memory() -> None:
    """Free a block that the C library mapped; costs a few microseconds, changes nothing where it has no such rule."""
    bytes(BLOCK_BYTES)
