"""Members that find each other by a name with several addresses, which the system's resolver reads for them."""
from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from jgroups_py.config.load import load
from tests.integration.members import Member, free_range

pytestmark = [pytest.mark.real, pytest.mark.slow]
OWN_HOSTS = ("unshare", "--mount", "sh", "-c", 'mount --bind "$0" /etc/hosts && exec "$@"')
"""Runs a command with another /etc/hosts, in a mount namespace of its own (needs root)."""
STACK = """
<config>
    <TCP bind_addr="${bind_addr}" bind_port="${bind_port}" port_range="0"/>
    <DNS_PING dns_query="chat.example" port_range="0" refresh="1s"/>
    <MERGE3 min_interval="500ms" max_interval="1s"/>
    <FD_SOCK/> <FD_ALL/> <VERIFY_SUSPECT/> <NAKACK/> <UNICAST/> <STABLE/> <GMS join_timeout="500ms"/>
</config>
"""


@pytest.fixture
def members(tmp_path: Path) -> Iterator[dict[str, Member]]:
    """A, B, C on 127.0.0.11 to 13, at one port; each reads the file `hosts` as /etc/hosts."""
    (tmp_path / "stack.xml").write_text(STACK)
    (tmp_path / "hosts").write_text("127.0.0.1 localhost\n")
    port = free_range(1)
    with contextlib.ExitStack() as running:
        found = {}
        for at, name in enumerate("ABC", 11):
            found[name] = Member(name, str(tmp_path / "stack.xml"), "found-by-name", {
                "bind_addr": f"127.0.0.{at}", "bind_port": port}, prefix=(*OWN_HOSTS, str(tmp_path / "hosts")))
            running.callback(found[name].close)
        yield found


def test_members_without_records_are_alone_and_one_group_once_the_name_has_all_addresses(
    members: dict[str, Member], tmp_path: Path,
) -> None:
    for name, member in members.items():
        member.view_of(name)
    with (tmp_path / "hosts").open("w") as hosts:
        hosts.writelines(f"127.0.0.{number} chat.example\n" for number in (13, 11, 12))
    for member in members.values():
        member.view_of("ABC")
    members["A"].command("send hello")
    members["C"].wait(lambda event: event["event"] == "message" and event["payload"] == "hello", "message from A")


def test_the_stack_of_this_test_is_a_valid_one(tmp_path: Path) -> None:
    (tmp_path / "stack.xml").write_text(STACK)
    spec = load(str(tmp_path / "stack.xml"), {"bind_addr": "127.0.0.11", "bind_port": "7800"})
    assert spec.config_of("DNS_PING").dns_query == ("chat.example",)
