"""The state that the live page shows at one moment, as values. None: not known to the source of the picture."""
from __future__ import annotations

from typing import Any

import attrs

PICTURE_VERSION = 1                         # of the JSON document, its field "v"; fields may be added within one
LOG_ENTRIES = 30                            # of a picture
LONGEST_TEXT = 200                          # characters of a name or a line of the log
MOST_MEMBERS = 60                           # of a site, with names; `more` counts the others


def cut(text: str) -> str:
    """A text of bounded length.

    >>> cut("a" * 300)[-3:], len(cut("a" * 300))
    ('aa…', 200)
    """
    return text if len(text) <= LONGEST_TEXT else text[:LONGEST_TEXT - 1] + "…"


@attrs.frozen(kw_only=True)
class MemberPicture:
    """state: alive, suspect, starting, frozen, killed, left, failed. rate: messages delivered a second."""

    name: str
    state: str
    coordinator: bool = False
    relay: bool = False
    delivered: int | None = None
    rate: float | None = None


@attrs.frozen(kw_only=True)
class SitePicture:
    """status: UP, DOWN, OFFLINE; "" at the site of the member that is asked. rate: messages delivered a second at one
    member. silent_seconds: for how long nothing has crossed the bridge for it although something should;
    longest_seconds: the longest such pause since the last incident."""

    name: str
    status: str
    members: tuple[MemberPicture, ...]
    more: int = 0
    rate: float | None = None
    silent_seconds: float | None = None
    longest_seconds: float | None = None


@attrs.frozen(kw_only=True)
class FlowPicture:
    """Messages of site `src` for site `dest`: those held back, and those that arrive a second."""

    src: str
    dest: str
    held: int
    rate: float


@attrs.frozen(kw_only=True)
class LogLine:
    """number: grows; at: seconds since 1970; incident: something that may interrupt the flow."""

    number: int
    at: float
    text: str
    incident: bool = False


@attrs.frozen(kw_only=True)
class OfferedOrder:
    """A button. refusal: why the order cannot be given now, "" if it can."""

    order: str
    site: str
    label: str
    refusal: str = ""


@attrs.frozen(kw_only=True)
class LivePicture:
    """delivered, lost, twice: messages. note: a further remark, as that figures are old. At the end of a demo: ok,
    whether everything arrived; verdict, the same in words; result, the rows of the final figures (name, value)."""

    title: str
    sites: tuple[SitePicture, ...] = ()
    flows: tuple[FlowPicture, ...] = ()
    delivered: int | None = None
    lost: int | None = None
    twice: int | None = None
    log: tuple[LogLine, ...] = ()
    orders: tuple[OfferedOrder, ...] = ()
    note: str = ""
    ok: bool | None = None
    verdict: str = ""
    result: tuple[tuple[str, str], ...] = ()

    def document(self) -> dict[str, Any]:
        """As JSON."""
        return {"v": PICTURE_VERSION, **attrs.asdict(self)}
