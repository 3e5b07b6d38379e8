"""Owners: each partition of a set belongs to one living member, with a fence; on blocks/coordination and placement.

`Owners` is for a Coordination (threads), `AsyncOwners` for an AsyncCoordination. design/owners.md states the
guarantees.
"""
from __future__ import annotations

from jgroups_py.blocks.owners.aio import AsyncOwners
from jgroups_py.blocks.owners.base import OwnerGrant, Ownership, OwnershipTable
from jgroups_py.blocks.owners.sync import Owners

__all__ = ["AsyncOwners", "OwnerGrant", "Owners", "Ownership", "OwnershipTable"]
