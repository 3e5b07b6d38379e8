"""The rooms whose sources are mutated, with the unit tests and the simulator profiles that are to notice."""
from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import attrs

EVERYWHERE = ("tests/scenarios", "tests/wire", "tests/unit/test_stack.py")
"""Tests that go through every room."""
GROUP = ("group", "split-brain", "limits", "flow", "interleavings", "relay-storm", "states")
SITES = ("relay", "relay-crash", "relay-storm", "split-brain", "site-crash", "operators", "interleavings", "topics",
         "limits", "scale", "late", "clocks", "wan", "large", "hostile",
         "site-states")
NEVER = ("swim",)
"""Profiles of members without the rooms of a group."""


@attrs.frozen
class Room:
    """sources: files, or folders of them; tests: likewise, or patterns; profiles: the first ones, all others follow."""

    name: str
    sources: tuple[str, ...]
    tests: tuple[str, ...]
    profiles: tuple[str, ...]

    def files(self, root: Path) -> Iterator[str]:
        """Its sources below `root`, in order."""
        for source in self.sources:
            found = sorted((root / source).rglob("*.py")) if (root / source).is_dir() else [root / source]
            yield from (path.relative_to(root).as_posix() for path in found)

    def test_files(self, root: Path) -> Iterator[str]:
        """Its files and folders of tests below `root`; its sources too, for their doctests."""
        for where in (*self.tests, *EVERYWHERE, *self.sources):
            yield from (path.relative_to(root).as_posix() for path in sorted(root.glob(where)))

    def has_test(self, test: str) -> bool:
        """Whether a test, or a file of tests, is of those that judge this room."""
        path = test.partition("::")[0]
        return any(PurePosixPath(path).match(where) or path.startswith(f"{where}/")
                   for where in (*self.tests, *EVERYWHERE, *self.sources))


PROTOCOLS = "tests/unit/protocols/test_*.py"
ROOMS = (
    Room("journal", ("jgroups_py/protocols/relay/journal", "jgroups_py/runtime/disk/journal.py"),
         ("tests/unit/relay", "tests/runtime/test_journal.py"), ("site-crash", "operators", "limits", "clocks")),
    Room("site states", ("jgroups_py/protocols/relay/state", "jgroups_py/protocols/relay/headers/state.py"),
         ("tests/unit/relay",), ("site-states",)),
    Room("relay", ("jgroups_py/protocols/relay",),
         ("tests/unit/relay", "tests/unit/protocols/topics", "tests/runtime/test_journal.py"), SITES),
    Room("gms", ("jgroups_py/protocols/gms",), (PROTOCOLS,), GROUP),
    Room("nakack", ("jgroups_py/protocols/nakack",), (PROTOCOLS,), GROUP),
    Room("unicast", ("jgroups_py/protocols/unicast",), (PROTOCOLS,), GROUP),
    Room("stable", ("jgroups_py/protocols/stable/protocol.py",), (PROTOCOLS,), GROUP),
    Room("state_transfer", ("jgroups_py/protocols/state_transfer",), (PROTOCOLS, "tests/unit/relay"),
         ("states", "site-states")),
    Room("frag", ("jgroups_py/protocols/frag",), (PROTOCOLS,), ("group", "flow", "large", "limits")),
    Room("windows", ("jgroups_py/windows",), ("tests/unit/windows", PROTOCOLS), GROUP),
)


def room_of(path: str) -> Room:
    """The room of a source file.

    Raises:
        ValueError: it is in none.
    """
    for room in ROOMS:
        if any(path == source or path.startswith(f"{source}/") for source in room.sources):
            return room
    raise ValueError(f"{path} is in none of the rooms {', '.join(room.name for room in ROOMS)}")


def sources(root: Path) -> list[str]:
    """All files that are mutated."""
    return list(dict.fromkeys(path for room in ROOMS for path in room.files(root)))


def profiles_for(room: Room, known: list[str]) -> list[str]:
    """The profiles to try, those of the room first; what is not among the known ones is left out."""
    first = [name for name in room.profiles if name in known]
    return [*first, *(name for name in known if name not in first and name not in NEVER)]
