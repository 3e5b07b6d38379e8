"""The key of the bridge between two sites of real processes is changed under traffic of both: nothing is lost or comes
twice, and the operator sees at how many relays the new key is."""
from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import pytest

from jgroups_py.ops.control import ask
from jgroups_py.sealing.identities import MEMBER, OPERATOR, RELAY, KnownMembers, new_identity
from jgroups_py.sealing.keyring import new_keyring
from jgroups_py.system.free_ports import free_range
from jgroups_py.system.secrets import SECRETS, write_keyring
from tests.integration.members import Group

pytestmark = [pytest.mark.real, pytest.mark.slow]

STACKS = Path(__file__).parents[2] / "stacks"
SHARED = '<ENCRYPT keyring="${bridge_keyring:bridge.keys}"/>'
BY_VIEW = ('<ENCRYPT mode="view" sign="pair"/>\n'
           '    <AUTH identity="${bridge_identity}" trust="${bridge_known}"/>')
SITES = {"NYC": "AB", "SFO": "CD"}           # of each the relay, and its standby on the bridge, which floods
ROLES = {"A": (MEMBER, RELAY, OPERATOR), "C": (MEMBER, RELAY)}
MESSAGES, BYTES, A_SECOND, EACH_SECONDS = 100, 100, 800, 0.25
SENDERS = {"B": "D", "D": "B"}               # -> a receiver at the other site
PATIENCE_S = 120.0


def keys(*words: object) -> subprocess.CompletedProcess[str]:
    """`jgroups keys ...` as an operator gives it."""
    return subprocess.run([sys.executable, "-m", "jgroups_py", "keys", *map(str, words)],
                          capture_output=True, text=True, check=False)


class Sites:
    """NYC with A and B, SFO with C and D; each site has copies of its own of the files for the bridge."""

    def __init__(self, folder: Path, stacks: ExitStack) -> None:
        self.folder, first = folder, free_range(10)
        by_view = folder / "bridge-by-view.xml"
        text = (STACKS / "sealed-bridge.xml").read_text()
        assert SHARED in text, "sealed-bridge.xml has another line of ENCRYPT"
        by_view.write_text(text.replace(SHARED, BY_VIEW))
        self.groups: dict[str, Group] = {}
        self.bridge = {"bridge_port": first, "bridge_hosts": f"127.0.0.1[{first}]", "bridge_name": f"bridge-{first}"}
        for site in SITES:
            write_keyring(folder / f"{site}.keys", new_keyring(SECRETS.draw(32)), new=True)
            self.groups[site] = stacks.enter_context(Group(str(STACKS / "sealed-site.xml"), site, site=site,
                                                           keyring=folder / f"{site}.keys", **self.bridge))
        self.members = {name: group for site, group in self.groups.items() for name in SITES[site]}

    def socket(self, name: str) -> Path:
        return self.folder / f"{name}.sock"

    def start(self, properties: dict[str, dict[str, object]]) -> None:
        """properties: name -> further ones of that member."""
        for site, names in SITES.items():
            for name in names:
                self.groups[site].spawn(name, ["--control", str(self.socket(name))], **properties[name]).ready()
            self.groups[site].settle(names)
        self.until(lambda: {self.status(name)["members"] for name in "ABCD"} == {4},
                   "relays and their standbys of both sites are on one bridge")
        for name, group in self.members.items():
            group[name].wait(lambda event: event["event"] == "site" and event["status"] == "UP", "the other site")

    def until(self, holds: Callable[[], object], what: str) -> None:
        until = monotonic() + PATIENCE_S
        while not holds():
            assert monotonic() < until, f"not within {PATIENCE_S:g} s: {what}\n{self.report()}"
            sleep(0.2)

    def status(self, name: str) -> dict[str, Any]:
        """What a member says of the keys of the bridge."""
        answer = ask(self.socket(name), {"command": "keys"}, PATIENCE_S)
        assert answer["ok"], answer["error"]
        found = [stack for stack in answer["stacks"] if stack["stack"] == "bridge"]
        return found[0] if found else {"members": 0, "keys": [], "view_key": None}

    def view_keys(self) -> set[str]:
        """The ids of the keys of the bridge's view at all members: one, unless the view changes just now."""
        return {self.status(name)["view_key"]["id"] for name in self.members}

    def report(self) -> str:
        return "\n".join(group.report() for group in self.groups.values())


class Traffic:
    """B and D multicast numbers from before the block until its end; then all members have each of them, once."""

    def __init__(self, sites: Sites) -> None:
        self.sites, self.done, self.sent = sites, threading.Event(), 0
        self.thread = threading.Thread(target=self.run)

    def run(self) -> None:
        while not self.done.is_set():
            for name in SENDERS:
                self.sites.members[name][name].command(f"flood {MESSAGES} {BYTES} {A_SECOND}")
            self.sent += MESSAGES
            self.done.wait(EACH_SECONDS)

    def crossed(self) -> dict[str, int]:
        """Sender -> how many of its messages the other site has."""
        return {sender: self.sites.members[receiver][receiver].stats()["received"].get(sender, {}).get("next", 0)
                for sender, receiver in SENDERS.items()}

    def await_more(self) -> None:
        """Messages cross in both directions now."""
        before = self.crossed()
        self.sites.until(lambda: all(number > before[name] for name, number in self.crossed().items()),
                         "messages of both sites cross")

    def __enter__(self) -> Traffic:
        self.thread.start()
        self.await_more()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.done.set()
        self.thread.join()
        if kind is None:
            self.arrived_whole()

    def arrived_whole(self) -> None:
        """Every member of both sites has every number of both senders, once and in order."""
        for name, group in self.sites.members.items():
            received = group[name].received_all(dict.fromkeys(SENDERS, self.sent), PATIENCE_S)["received"]
            for sender in SENDERS:
                got = received[sender]
                assert (got["next"], got["count"], got["duplicates"], got["out_of_order"]) == (
                    self.sent, self.sent, 0, 0), f"{name} of {sender}: lost, twice or out of order\n{group.report()}"
            lost = [event for event in group[name].events if event["event"] == "lost"]
            assert not lost, f"{name} was told of losses: {lost}"


@pytest.fixture
def sites(tmp_path: Path) -> Iterator[Sites]:
    with ExitStack() as stacks:
        yield Sites(tmp_path, stacks)


@pytest.mark.long
def test_an_order_gives_the_bridge_of_two_sites_a_new_key_and_loses_nothing_of_what_is_under_way(sites: Sites) -> None:
    own = {name: new_identity(os.urandom(32), name, site, ROLES.get(name, (MEMBER, RELAY)))
           for site, names in SITES.items() for name in names}
    known = KnownMembers()
    for name, identity in own.items():
        path = sites.folder / f"{name}.pem"
        path.touch(0o600)
        path.write_text(identity.as_text())
        known = known.with_member(identity.identity)
    trust = sites.folder / "known.json"
    trust.write_text(known.as_text())
    trust.chmod(0o644)
    sites.start({name: {"bridge_props": sites.folder / "bridge-by-view.xml", "bridge_known": trust,
                        "bridge_identity": sites.folder / f"{name}.pem"} for name in own})
    sites.until(lambda: len(sites.view_keys()) == 1, "all have the key of one view")
    used = sites.view_keys()
    with Traffic(sites) as traffic:
        for _ in range(3):
            done = keys("rotate", "--bridge", "--control", sites.socket("A"), "--wait", 60)
            assert done.returncode == 0, f"{done.stderr}\n{sites.report()}"
            first, shown = done.stdout.splitlines()
            assert first == "the bridge has a new view of the same members, and its key"
            key, words = shown.split("  of view   ")
            assert words == "held by 4 of 4 members"
            assert key not in used, "the key has not changed"
            # A busy machine may change the view once more; never back.
            sites.until(lambda: len(sites.view_keys()) == 1, "all have the key of one view")
            used |= {key, *sites.view_keys()}
            traffic.await_more()
        refused = keys("rotate", "--bridge", "--control", sites.socket("C"))
        assert (refused.returncode, refused.stdout) == (1, "")
        assert "has not the role 'operator'" in refused.stderr
        traffic.await_more()


def test_the_keyring_of_the_bridge_is_changed_in_three_phases_and_nothing_of_what_is_under_way_is_lost(
    sites: Sites,
) -> None:
    copies = {site: sites.folder / f"{site}-bridge.keys" for site in SITES}
    nyc, sfo = copies.values()
    write_keyring(nyc, new_keyring(SECRETS.draw(32)), new=True)

    def copy() -> None:
        shutil.copy2(nyc, f"{sfo}.new")
        os.replace(f"{sfo}.new", sfo)

    copy()
    sites.start({name: {"bridge_keyring": copies[site]} for site, names in SITES.items() for name in names})
    control = "--control", sites.socket("A")
    (old,) = (key["id"] for key in sites.status("A")["keys"])
    with Traffic(sites) as traffic:
        done = keys("rotate", nyc)
        assert "phase 1 of 3" in done.stdout, done.stderr
        sites.until(lambda: len(sites.status("A")["keys"]) == 2, "NYC's relay has read the new key")
        traffic.await_more()
        behind = keys("rotate", nyc, *control, "--wait", 1)
        assert behind.returncode == 1, "the key is activated though the other site's relay lacks it"
        assert "2 of 4 members lack key" in behind.stderr
        copy()
        for phase in (2, 3):
            done = keys("rotate", nyc, *control, "--wait", 60)
            assert f"phase {phase} of 3" in done.stdout, f"{done.stderr}\n{sites.report()}"
            traffic.await_more()
            copy()
        sites.until(lambda: [key["state"] for key in sites.status("C")["keys"]] == ["retired", "active"],
                    "SFO's relay has read that the former key is retired")
        traffic.await_more()
    new = sites.status("C")["keys"][1]
    assert (new["held_by"], new["active_at"], new["id"] != old) == (4, 4, True)
