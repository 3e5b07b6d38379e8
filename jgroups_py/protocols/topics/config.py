"""Properties of TOPICS."""
from __future__ import annotations

import attrs

from jgroups_py.model.topics import parse_topics
from jgroups_py.model.units import parsed


@attrs.frozen
class TopicsConfig:
    """The initial interest."""

    interests: tuple[str, ...] = parsed(
        "*", parse=parse_topics, unit="topic,...|*", doc="The topics that a member gets from the start, for example "
        "\"orders,prices\"; \"*\": all, \"\": none. Messages without a topic are delivered in any case. Fewer topics "
        "save work of the application, and traffic on the bridge.")
