"""Where a member stands in its life."""
from __future__ import annotations

from typing import Final

IDLE: Final = "idle"
JOINING: Final = "joining"
MEMBER: Final = "member"
LEAVING: Final = "leaving"
LEFT: Final = "left"
