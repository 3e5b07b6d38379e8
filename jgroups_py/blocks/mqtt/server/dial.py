"""Whether a node listens at a place, and why not, in the words of gmqtt's API (Serf's, in Go)."""
from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence

from jgroups_py.blocks.mqtt.server.rest import JoinFailed
from jgroups_py.model.address import PhysicalAddress

DIAL_SECONDS = 5.0
LEFT = "Serf can't Join after Leave or Shutdown"


def place_text(place: PhysicalAddress | None) -> str:
    """HOST:PORT, an IPv6 address in brackets.

    >>> place_text(("127.0.0.1", 8901)), place_text(("::1", 8901))
    ('127.0.0.1:8901', '[::1]:8901')
    """
    if place is None:
        return ""
    host, port = place
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


async def dial_all(places: Sequence[PhysicalAddress]) -> dict[PhysicalAddress, PhysicalAddress]:
    """Connect by TCP to each place, (address or name, port), and close. Returns each one that can be reached -> its
    address. Raises JoinFailed: none can."""
    reached, failures, reasons = dict[PhysicalAddress, PhysicalAddress](), list[str](), list[str]()
    for place in places:
        try:
            async with asyncio.timeout(DIAL_SECONDS):
                _, writer = await asyncio.open_connection(*place)
            host, port = writer.get_extra_info("peername")[:2]
            reached[place] = str(host), int(port)
            writer.close()
        except (OSError, TimeoutError) as error:
            reasons.append(_dial_fault(place, error))
            failures.append(f"* Failed to join {place[0]}: {reasons[-1]}")
    if failures and not reached:
        count = f"{len(failures)} error{'s' if len(failures) > 1 else ''} occurred:"
        raise JoinFailed(f"{count}\n\t" + "\n\t".join(failures) + "\n\n", reasons)
    return reached


def _dial_fault(place: PhysicalAddress, error: Exception) -> str:
    if isinstance(error, socket.gaierror):
        return f"lookup {place[0]}: no such host"
    if isinstance(error, ConnectionRefusedError):
        return f"dial tcp {place_text(place)}: connect: connection refused"
    if isinstance(error, TimeoutError):
        return f"dial tcp {place_text(place)}: i/o timeout"
    return f"dial tcp {place_text(place)}: {error}"
