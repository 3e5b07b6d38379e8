"""Exhaustion E1 to E4 by a process without keys: members with ENCRYPT spend no memory on it, little time, and go on.

The frames are those that filled members without ENCRYPT, in clear and under a key of the attacker's own. E5 and E6
(silent connections) are in tests/integration/test_hostile.py, E7 and E8 (memberlist, which ENCRYPT is not above) in
tests/unit/protocols/memberlist.
"""
from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from time import monotonic, process_time, sleep
from typing import TypeVar

import pytest

from jgroups_py.model.address import Address
from jgroups_py.model.batch import Batch
from jgroups_py.model.view import View, ViewId
from jgroups_py.protocols.frag.headers import Fragment
from jgroups_py.protocols.gms.headers import JoinRequest
from jgroups_py.protocols.nakack.headers import MulticastData
from jgroups_py.protocols.unicast.headers import UnicastData
from jgroups_py.sealing.keyring import new_keyring
from jgroups_py.system.secrets import SECRETS, write_keyring
from jgroups_py.wire.sealed_head import read_head
from tests.integration.members import Group as Members
from tests.security.kit import FORGED, PLACE, Group, clear, control, sealed
from tests.security.test_attacks import Wire

pytestmark = pytest.mark.real
T = TypeVar("T")
NAMES = ("A", "B", "C")
MOST_MB = 20
MOST_CPU = 2.0                           # of what the attacker's process takes to send the same frames
RATE, BURST = 10_000, 100
SECONDS = 3


def ahead(group: Group) -> list[Batch]:
    """E1: numbers with holes, which a receiver keeps until these are filled: 300 frames of 60 KB."""
    return [Batch(group.members[0], None, (bytes(60_000),), (MulticastData(group.view.id.raw, 2 * number),))
            for number in range(1, 300)]


def fragments(group: Group) -> list[Batch]:
    """E2: first fragments of messages of 256 MB."""
    return [Batch(named(number), None, (b"first",), (Fragment(1, 0, 5000, 256 << 20, 0),
                                                     MulticastData(group.view.id.raw, 1))) for number in range(5)]


def senders(group: Group) -> list[Batch]:
    """E3: unicasts of many senders, each of which is new."""
    return [Batch(named(number), None, (FORGED,), (UnicastData(1, 1, 1),)) for number in range(3000)]


def joiners(group: Group) -> list[Batch]:
    """E4: requests of members that do not exist."""
    return [control(named(number), None, JoinRequest(named(number), PLACE, 1)) for number in range(1860)]


ATTACKS = {"E1 ahead": ahead, "E2 fragments": fragments, "E3 senders": senders, "E4 joiners": joiners}


def named(number: int) -> Address:
    return Address(number.to_bytes(16, "big"), f"stranger-{number}")


def megabytes(members: Members, name: str) -> float:
    """The memory that a member has (RSS)."""
    pages = int(Path(f"/proc/{members[name].process.pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


@pytest.fixture
def besieged(tmp_path: Path) -> Iterator[tuple[Members, Wire, Group]]:
    write_keyring(tmp_path / "group.keys", new_keyring(SECRETS.draw(32)), new=True)
    with ExitStack() as stacks:
        members = stacks.enter_context(Members("sealed", keyring=tmp_path / "group.keys"))
        members.start(" ".join(NAMES))
        wire = Wire(stacks, int(str(members.properties["mcast_port"])))
        members["A"].command("flood 10 100")
        until = monotonic() + 30
        heard: dict[bytes, None] = {}
        while len(heard) < len(NAMES) and monotonic() < until:
            heard.update(dict.fromkeys(read_head(frame)[5][:16] for frame in wire.heard()))
            sleep(0.05)
        assert len(heard) >= len(NAMES), "sources of frames can be read"
        found = tuple(Address(raw, "") for raw in list(heard)[:len(NAMES)])
        yield members, wire, Group(members.cluster, View(ViewId(1, found[0]), found))


def test_who_has_no_key_takes_neither_memory_nor_time_and_the_group_goes_on(besieged):
    members, wire, group = besieged
    before = {name: megabytes(members, name) for name in NAMES}
    dropped = {name: refused(members, name) for name in NAMES}
    for attack in ATTACKS.values():
        batches = attack(group)
        for frames in (clear(group, batches), sealed(group, batches)):
            for at, frame in enumerate(frames):
                wire.send([frame])
                if at % 50 == 0:
                    sleep(0.01)
        members["B"].command("flood 100 1000")
    for name in NAMES:
        members[name].received_all({"B": 100 * len(ATTACKS)})
        assert megabytes(members, name) - before[name] < MOST_MB, f"{name}\n{members.report()}"
        assert members[name].last_view() == list(NAMES)
        assert refused(members, name) - dropped[name] > 1000, "the frames did not reach it"
        assert not [event for event in members[name].events if event.get("payload") == FORGED.decode()]


def refused(members: Members, name: str) -> float:
    counted = members[name].stats()["protocols"]["ENCRYPT"]
    return counted.get("unsealed_dropped", 0) + counted.get("unknown_key_dropped", 0)


def test_a_member_takes_for_garbage_no_more_than_twice_the_time_of_who_sends_it(besieged):
    members, wire, group = besieged
    garbage = [*sealed(group, [Batch(group.members[0], None, (bytes(100),))]), b"JP\2" + bytes(100), bytes(100)]
    idle, _ = cpu_of(members, lambda: sleep(SECONDS))
    before = {name: counted(members, name) for name in NAMES}

    def flood() -> float:
        began, cpu_s = monotonic(), process_time()
        for number in range(RATE * SECONDS):
            wire.send([garbage[number % len(garbage)]])
            if number % BURST == 0:
                sleep(max(0.0, began + number / RATE - monotonic()))
        return process_time() - cpu_s

    busy, sent = cpu_of(members, flood)
    for name in NAMES:
        reached = (counted(members, name) - before[name]) / (RATE * SECONDS)
        assert reached > 0.3, "the frames did not reach it"
        assert busy[name] - idle[name] < MOST_CPU * sent, (name, busy, idle, sent)


def counted(members: Members, name: str) -> float:
    """All frames that a member has dropped."""
    protocols = members[name].stats()["protocols"]
    return sum(number for layer in ("ENCRYPT", "UDP") for key, number in protocols[layer].items()
               if key.endswith("_dropped"))


def cpu_of(members: Members, work: Callable[[], T]) -> tuple[dict[str, float], T]:
    """The processor time that each member takes meanwhile, s, and what the work returns."""
    before = {name: members[name].stats()["cpu_s"] for name in NAMES}
    done = work()
    return {name: members[name].stats()["cpu_s"] - before[name] for name in NAMES}, done
