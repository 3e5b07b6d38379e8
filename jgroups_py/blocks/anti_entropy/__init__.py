"""Keyed state that members make equal by comparing hash trees (anti-entropy, Demers 1987)."""
from jgroups_py.blocks.anti_entropy.entries import Entry, Version
from jgroups_py.blocks.anti_entropy.replica import Change, Replica, Settings
from jgroups_py.blocks.anti_entropy.table import SharedTable
from jgroups_py.blocks.anti_entropy.tree import HashTree

__all__ = ["Change", "Entry", "HashTree", "Replica", "Settings", "SharedTable", "Version"]
