"""A file with the nodes that a node knew, by which it finds them after a restart.

The format is that of Serf's snapshots, so a gmqttd can go on with the file of this broker, and reverse:

    alive: node2 10.0.0.2:8902
    not-alive: node2
    leave

Lines of other kinds (clocks, coordinates) are ignored. Members that are alive or have failed are written: one that
failed may be back before this node. After a graceful leave the list is used only with `rejoin_after_leave`.
Source: serf/snapshot.go (v0.9.5). Deviations: failed members stay in the list; the file is replaced as a whole.
"""
from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from jgroups_py.blocks.mqtt.server.config import host_and_port
from jgroups_py.model.address import PhysicalAddress
from jgroups_py.model.errors import ConfigError

MAX_FILE_BYTES = 16 << 20
ALIVE, NOT_ALIVE, LEAVE = "alive: ", "not-alive: ", "leave"


def snapshot_text(members: Mapping[str, str], has_left: bool) -> str:
    """The lines of a file. members: name -> HOST:PORT.

    >>> snapshot_text({"node2": "10.0.0.2:8902"}, True)
    'alive: node2 10.0.0.2:8902\\nleave\\n'
    """
    lines = [f"{ALIVE}{name} {place}" for name, place in members.items()]
    return "".join(f"{line}\n" for line in (*lines, *([LEAVE] if has_left else ())))


def known_nodes(lines: Iterable[str], rejoin_after_leave: bool) -> dict[str, PhysicalAddress]:
    """The nodes that are known after all lines of a file: name -> gossip place. Malformed lines are ignored.

    >>> known_nodes(["alive: a 10.0.0.1:1", "alive: b [::1]:2", "not-alive: a", "clock: 7", "alive: c x"], False)
    {'b': ('::1', 2)}
    >>> known_nodes(["alive: a 10.0.0.1:1", "leave"], False), known_nodes(["alive: a 10.0.0.1:1", "leave"], True)
    ({}, {'a': ('10.0.0.1', 1)})
    """
    found: dict[str, PhysicalAddress] = {}
    for line in lines:
        if line.startswith(ALIVE):
            name, _, text = line.removeprefix(ALIVE).rpartition(" ")
            try:
                host, port = host_and_port(text, 0)
            except ConfigError:
                continue
            if name and host and port:
                found[name] = host, port
        elif line.startswith(NOT_ALIVE):
            found.pop(line.removeprefix(NOT_ALIVE), None)
        elif line == LEAVE and not rejoin_after_leave:
            found.clear()
    return found


def read_snapshot(path: Path, rejoin_after_leave: bool) -> dict[str, PhysicalAddress]:
    """The nodes of a file; none if there is no file.

    Raises:
        ConfigError: it cannot be read, or is no snapshot.
    """
    try:
        with path.open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise ConfigError(f"snapshot_path {path}: {error.strerror}") from None
    if len(data) > MAX_FILE_BYTES:
        raise ConfigError(f"snapshot_path {path}: more than {MAX_FILE_BYTES >> 20} MB; this is no snapshot")
    return known_nodes(data.decode("utf-8", "replace").splitlines(), rejoin_after_leave)


def write_snapshot(path: Path, text: str) -> None:
    """Replace the file: a crash leaves the old one or the new one.

    Raises:
        OSError: it cannot be written.
    """
    fresh = path.with_name(f"{path.name}.new")
    with fresh.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(fresh, path)
