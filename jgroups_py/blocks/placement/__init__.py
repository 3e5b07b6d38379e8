"""Placement: which members hold which partition, computed from (id, weight) alone, with the same result everywhere.

Weighted rendezvous hashing (Thaler and Ravishankar 1998; weights after Schindelhauer and Schomaker 2005): each pair of
partition and member draws an exponential variate -ln(u)/weight from a hash, and a partition belongs to the k members
with the smallest. So a member gets partitions in proportion to its weight, a change of the members moves only what has
to move, and no communication is needed. Imports the standard library only (`assign` also numpy, the extra
`placement`), so that a client needs nothing else of this package. design/placement.md has the reasons.

    >>> placement = Placement([Candidate("a"), Candidate("b", weight=2), Candidate("c"), Candidate("d")])
    >>> placement.place("orders/7", 3).ids
    ('b', 'a', 'd')
"""
from __future__ import annotations

from jgroups_py.blocks.placement.candidates import Candidate
from jgroups_py.blocks.placement.placement import Placed, Placement

__all__ = ["Candidate", "Placed", "Placement"]
