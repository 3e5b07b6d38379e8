"""A key is changed in three phases under a flood of real members; in each phase one crashes and another joins late.

The simulated twin, which has pauses in virtual time, is tests/simulator/test_key_rotation.py; those of real members are
measured by `python -m benchmarks.sealed --what pause`.
"""
from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from time import sleep

import pytest

import jgroups_py as jg
from jgroups_py.protocols.encrypt.protocol import Encrypt
from jgroups_py.sealing.keyring import GroupKeyring, new_keyring
from jgroups_py.system.free_ports import free_range
from jgroups_py.system.secrets import SECRETS, write_keyring
from tests.runtime.helpers import eventually

pytestmark = [pytest.mark.real, pytest.mark.slow]


class Flooded:
    """A group in which A multicasts numbers all the time. got: member -> the numbers that it delivered."""

    def __init__(self, folder: Path, stacks: ExitStack) -> None:
        self.keyring, self.stacks, self.port = folder / "group.keys", stacks, free_range()
        self.ring = new_keyring(SECRETS.draw(32))
        write_keyring(self.keyring, self.ring, new=True)
        self.members: dict[str, jg.JChannel] = {}
        self.got: dict[str, list[int]] = {}
        self.done = threading.Event()
        self.sent = 0

    def join(self, name: str) -> None:
        got = self.got[name] = []
        member = self.members[name] = self.stacks.enter_context(jg.JChannel(
            "sealed", name, {"mcast_port": self.port, "keyring": self.keyring},
            lambda message: got.append(int(message.payload))))
        member.connect("rotation")
        self.await_view()

    def crash(self, name: str) -> None:
        """Its sockets close, and it says nothing."""
        session = self.members.pop(name)._session
        assert session is not None
        session.host.kill("crashed")
        self.await_view()

    def await_view(self) -> None:
        wanted = set(self.members)
        eventually(lambda: all(member.view is not None and {each.name for each in member.view.members} == wanted
                               for member in self.members.values()))

    def flood(self) -> None:
        while not self.done.is_set():
            self.members["A"].send(None, b"%d" % self.sent)
            self.sent += 1
            sleep(0.002)

    def change(self, change: Callable[[GroupKeyring], GroupKeyring]) -> None:
        self.ring = change(self.ring)
        write_keyring(self.keyring, self.ring)

    def all_have_read_it(self) -> bool:
        return all(member._session.host.node.local.find(Encrypt).keyring == self.ring
                   for member in self.members.values())


@pytest.fixture
def flooded(tmp_path: Path) -> Iterator[Flooded]:
    with ExitStack() as stacks:
        group = Flooded(tmp_path, stacks)
        for name in "ABCDE":
            group.join(name)
        sender = threading.Thread(target=group.flood)
        sender.start()
        try:
            yield group
        finally:
            group.done.set()
            sender.join()


def test_no_number_is_lost_or_comes_twice_though_members_crash_and_join_in_each_phase(flooded: Flooded) -> None:
    old = flooded.ring.active.name
    phases: tuple[Callable[[GroupKeyring], GroupKeyring], ...] = (
        lambda ring: ring.with_key(SECRETS.draw(32)), lambda ring: ring.activated(ring.keys[-1].name),
        lambda ring: ring.without(old))
    for change, crashes, joins in zip(phases, "CDE", "FGH", strict=True):
        flooded.change(change)
        sleep(0.3)                                           # some members have read it, others have not
        flooded.crash(crashes)
        flooded.join(joins)
        eventually(flooded.all_have_read_it)                 # as the next phase is refused before
    sleep(0.2)
    flooded.done.set()
    eventually(lambda: all(got and got[-1] == flooded.sent - 1 for name, got in flooded.got.items()
                           if name in flooded.members))
    assert flooded.sent > 500
    for name in flooded.members:
        got = flooded.got[name]
        assert got == list(range(got[0], flooded.sent)), f"{name}: a number is missing, or came twice"
    assert flooded.got["B"][0] == 0
    for name in "AB":
        dropped = flooded.members[name].stats()["ENCRYPT"]
        assert not dropped.get("unknown_key_dropped", 0), "a key was retired while a member still used it"
