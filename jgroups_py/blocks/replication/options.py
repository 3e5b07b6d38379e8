"""How a host of partitions behaves."""
from __future__ import annotations

import attrs

from jgroups_py.model.errors import ConfigError
from jgroups_py.model.units import count, duration, parsed, size, text

MAX_WEIGHT = (1 << 32) - 1


def _weight(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= MAX_WEIGHT:
        raise ConfigError(f"{value!r} is no weight: a whole number from 0 (hosts nothing) to {MAX_WEIGHT}")
    return value


@attrs.frozen
class Options:
    """The properties of a host; `doc` states what raising and lowering one costs."""

    weight: int = parsed(1, parse=_weight, unit="number", doc="This member's share of the partitions is its weight by "
                         "the sum of all. 0: it hosts none.")
    zone: str = text("", doc="Members with one zone (a site, a rack) are likely to fail together: replicas are spread "
                     "over zones where there are several.")
    key: str = text("", doc="Placements with different keys have nothing in common; clients need the same one.")
    elect_ns: int = duration("200ms", least="1ms", doc="How long a replica waits in a new view for a message of a "
                             "leader before it stands for election. Lower resumes writes sooner after a crash; below a "
                             "round trip leaders are needlessly disturbed.")
    elect_step_ns: int = duration("150ms", least="1ms", doc="How much longer each less preferred replica waits. Lower "
                                  "resumes sooner when several have failed; too low splits votes.")
    again_ns: int = duration("250ms", least="1ms", doc="After how long without an answer entries are sent again.")
    commit_notice_ns: int = duration("5ms", least="1ms", doc="How long after a commit followers get its number, if no "
                                     "further entries carry it sooner. Lower makes reads at followers more recent, "
                                     "for more messages.")
    settle_ns: int = duration("1s", least="1ms", doc="How long after a view replicas begin to move. Lower restores "
                              "the number of replicas sooner; too low moves data for a member that returns at once.")
    keep_entries: int = count(1000, least=1, doc="Entries that are kept although they are in the content, for replicas "
                              "that lag. More than these behind, a replica gets the whole content.")
    window_entries: int = count(1024, least=1, doc="Entries that may be under way to a replica.")
    piece_bytes: int = size("32K", least="1K", doc="Size of the messages that carry entries and content.")
    window_pieces: int = count(16, least=1, doc="Pieces of content that may be under way to a replica.")
    max_uncommitted: int = count(4096, least=1, doc="Writes of a partition that may wait for a majority; further ones "
                                 "are refused for the moment.")
