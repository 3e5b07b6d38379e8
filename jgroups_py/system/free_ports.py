"""Ports for the processes that a command or a test starts.

A port that the system gives to a socket without a name is one that it may give to anyone's connection a moment later:
a process that binds it then finds it in use. So these are ports below those, and each run claims what it takes by a
name of an abstract Unix socket, which ends with the run; runs side by side do not take the same.
"""
from __future__ import annotations

import contextlib
import os
import socket
import sys

PORTS, UNIT = range(10_000, 32_000), 5      # below ip_local_port_range; claimed in units of so many
KINDS = (socket.SOCK_STREAM, socket.SOCK_DGRAM)
CLAIMS: list[socket.socket] = []            # what other runs see of the ports that this one took


def free_range(length: int = 1, host: str = "127.0.0.1") -> int:
    """The first of `length` neighbouring ports of a host that are free now, for TCP and UDP, and that no other run
    takes before this one ends. Raises OSError: there are not so many."""
    starts = PORTS[:-length:UNIT]
    at = os.getpid() * 7 % len(starts)      # runs that begin together begin at different places
    first: int
    for first in (*starts[at:], *starts[:at]):
        wanted = range(first, first + length)
        if _claimed(wanted) and _are_free(host, wanted):
            return first
    raise OSError(f"no {length} neighbouring ports from {PORTS.start} to {PORTS.stop} are free, or have not been taken "
                  "by this run before")


def free_ports(number: int) -> range:
    """The same, each port of them."""
    first = free_range(number)
    return range(first, first + number)


def _claimed(ports: range) -> bool:
    """Claim the units that these ports are in, all or none; False: one is another run's, or was this one's before."""
    if sys.platform != "linux":
        return True                         # there are no such names
    claims: list[socket.socket] = []
    for first in ports[::UNIT]:
        claims.append(socket.socket(socket.AF_UNIX))
        try:
            claims[-1].bind(f"\0jgroups_py: ports from {first}")
        except OSError:
            for claim in claims:
                claim.close()
            return False
    CLAIMS.extend(claims)
    return True


def _are_free(host: str, ports: range) -> bool:
    with contextlib.ExitStack() as probes:
        try:
            for port in ports:
                for kind in KINDS:
                    probes.enter_context(socket.socket(type=kind)).bind((host, port))
        except OSError:
            return False
    return True
