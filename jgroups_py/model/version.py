"""The version of this package, and beside which others its members may run.

The one place where the version stands: setup.cfg, `jgroups --version` and what members tell each other take it from
here. Members of one version of the wire format (wire/frame.py) understand each other's frames; a release may ask for
more than that, so each member tells its release when it joins, and the oldest beside which it may run.
"""
from __future__ import annotations

import re
from collections.abc import Iterable

import attrs

__version__ = "0.2.0"

OLDEST = (0, 2)
"""The oldest release (major, minor) beside which members of this one may run: the last minor release before it. While
there is none before it, the first one."""

MANUAL = "docs/how-to/upgrade.md"


@attrs.frozen(order=True)
class MemberRelease:
    """The release that a member runs, and the oldest one beside which it may run, as (major, minor)."""

    version: tuple[int, int, int]
    oldest: tuple[int, int]

    def __str__(self) -> str:
        return ".".join(map(str, self.version))

    def runs_beside(self, other: MemberRelease) -> bool:
        """Whether members of both may run beside each other.

        >>> MemberRelease((0, 3, 1), (0, 2)).runs_beside(MemberRelease((0, 2, 0), (0, 2)))
        True
        >>> MemberRelease((0, 2, 0), (0, 2)).runs_beside(MemberRelease((0, 4, 0), (0, 3)))
        False
        """
        return self.version[:2] >= other.oldest and other.version[:2] >= self.oldest


def parsed(text: str) -> tuple[int, int, int]:
    """(major, minor, patch) of a version; what follows them ("rc1") tells nothing about who may run beside whom.

    >>> parsed("0.3.0rc1")
    (0, 3, 0)
    """
    found = re.match(r"(\d+)\.(\d+)\.(\d+)", text)
    assert found, f"{text} is no version"
    return int(found[1]), int(found[2]), int(found[3])


OWN = MemberRelease(parsed(__version__), OLDEST)


def misfit(mine: Iterable[MemberRelease], theirs: Iterable[MemberRelease], who: str, here: str) -> str:
    """Why members of these releases may not run beside each other, with both versions and the remedy; "": they may.

    mine: of the members `here`; theirs: of the members of `who`.

    >>> misfit([OWN], [MemberRelease((9, 1, 0), (9, 0))], "B", "this group")
    'B has version 9.1.0, which runs beside 9.0 and later, and this group 0.2.0, which runs beside 0.2 and later: \
upgrade the older side step by step, or all at once (docs/how-to/upgrade.md)'
    """
    ours = list(mine)
    for other in theirs:
        for own in ours:
            if not own.runs_beside(other):
                return (f"{who} has version {other}, which runs beside {_short(other)} and later, and {here} {own}, "
                        f"which runs beside {_short(own)} and later: upgrade the older side step by step, or all at "
                        f"once ({MANUAL})")
    return ""


def _short(release: MemberRelease) -> str:
    return ".".join(map(str, release.oldest))
