"""Safeguards of accept_clear, shown by profile upgrade."""
from __future__ import annotations

from jgroups_py.protocols.encrypt.clear_window import ClearWindow
from tests.simulator.planted_bugs.safeguard import Patch, Safeguard


def anything_in_clear(self: ClearWindow, address: bytes, now_ns: int) -> bool:
    """A frame in clear is believed whatever is known of its source."""
    return self.is_open(now_ns)


def for_ever(self: ClearWindow, now_ns: int) -> bool:
    """The time does not end."""
    return True


def always(self: ClearWindow, dest: bytes | None, now_ns: int) -> bool:
    """As long as the time lasts all frames are also sent in clear."""
    return self.is_open(now_ns)


UPGRADE_SAFEGUARDS = (
    Safeguard("members with a key are not believed in clear", "ENCRYPT", "all frames in clear count for the time",
              (Patch(ClearWindow, "takes", anything_in_clear),), "upgrade", "S1"),
    Safeguard("accept_clear ends", "ENCRYPT", "frames in clear count and are sent without end",
              (Patch(ClearWindow, "is_open", for_ever),), "upgrade", "K1"),
    Safeguard("in clear only what others need", "ENCRYPT", "all is also sent in clear for the time",
              (Patch(ClearWindow, "sends_clear", always),), "upgrade", "K1"),
)
