"""Properties of TOPICS."""
from __future__ import annotations

import attrs

from jgroups_py.topics import parse_topics
from jgroups_py.units import parsed


@attrs.frozen
class TopicsConfig:
    """What a member wants to begin with."""

    interests: tuple[str, ...] = parsed(
        "*", parse=parse_topics, unit="topic,...|*", doc="The topics that a member wants from the start, for example "
        "\"orders,prices\"; \"*\": all, \"\": none. Messages without a topic come in any case. Fewer topics spare the "
        "application work, and the bridge what no member of a site wants.")
