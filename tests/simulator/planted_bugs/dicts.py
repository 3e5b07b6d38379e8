"""Safeguards of ReplicatedDict (blocks/dicts), shown by profile dict."""
from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from jgroups_py.blocks.dicts.core import DictCore, OwnChange
from jgroups_py.model.address import Address
from jgroups_py.testing.simulation.dicts import PROFILE
from tests.simulator.planted_bugs.safeguard import Patch, Safeguard


def notes_nothing(self: DictCore, offered: Mapping[bytes, bytes], before: Mapping[bytes, bytes | None],
                  known: Mapping[Address, int], untold: Iterable[Any]) -> None:
    """A merged copy does not name what it dropped."""


def takes_none(self: DictCore, number: int) -> list[OwnChange]:
    """A member that takes another copy compares nothing with its log."""
    return []


def tells_nothing(self: DictCore, before: Mapping[bytes, bytes | None], known: int, untold: Iterable[Any]) -> None:
    """Members whose part goes on are told nothing of a merge."""


def guard(name: str, left: str, method: str, without: Any, breaks: str) -> Safeguard:
    """A safeguard of one method of a copy."""
    return Safeguard(name, "dicts", left, (Patch(DictCore, method, without),), PROFILE, breaks)


DICT_SAFEGUARDS = (
    guard("a merged copy names what it dropped of members that are away", "it names nothing", "note_dropped",
          notes_nothing, "D4"),
    guard("a copy that is replaced is compared with the log of own writes", "it is dropped in silence",
          "take_from_log", takes_none, "D4"),
    guard("writers are told what an offer replaced", "they are not", "tell_replaced", tells_nothing, "D4"),
)
