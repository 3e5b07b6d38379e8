"""Progress of members: numbers by member, and ranges of numbers."""
from __future__ import annotations

from jgroups_py.model.address import Address

Digest = dict[Address, int]


Ranges = tuple[tuple[int, int], ...]
