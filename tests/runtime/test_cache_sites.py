"""What a cache does when its site meets another one: notices from before are not owed to it."""
from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

import jgroups_py as jg
from jgroups_py.blocks.cache.cache import Cache, CacheHub
from jgroups_py.blocks.cache.messages import ForgetAll, ForgetKeys, encode
from jgroups_py.channel.block import Connection
from jgroups_py.model.batch import Batch
from jgroups_py.model.outputs import Deliver, SiteStatusChanged
from jgroups_py.testing.bench import address
from jgroups_py.wire.block_headers import CacheNotice


class Sends:
    """Notes what is put."""

    def __init__(self) -> None:
        self.put_there: list[tuple[str, bytes]] = []

    def put(self, dest: Any, payload: bytes, flags: int, headers: tuple[CacheNotice, ...], timeout: float) -> None:
        assert (dest, flags) == (None, 0), "all members of all sites get it"
        self.put_there.append((headers[0].name, payload))


class Member:
    """A member with the caches "a" and "b" on a connection that leads nowhere."""

    def __init__(self) -> None:
        channel = jg.JChannel()
        self.caches = [Cache(channel, name, str, bytes) for name in "ab"]
        self.hub = CacheHub.of(channel)
        self.connect()

    def connect(self) -> None:
        self.sends = Sends()
        self.hub.begin(cast(Connection, SimpleNamespace(sends=self.sends)))

    def notice(self, name: str) -> None:
        batch = Batch(address("X"), None, (encode(ForgetKeys((b"k",))),), (CacheNotice(name),))
        assert self.hub.early([Deliver(batch)]) == []

    def site(self, status: str) -> None:
        self.hub.early([SiteStatusChanged("SFO", status)])


@pytest.fixture
def member() -> Member:
    return Member()


def test_a_member_with_a_notice_has_all_forget_everything_when_it_meets_a_site(member: Member) -> None:
    member.notice("b")
    member.site("UP")
    assert member.sends.put_there == [("b", encode(ForgetAll()))]


def test_the_same_when_the_site_is_back_from_offline_but_not_when_its_messages_were_held(member: Member) -> None:
    member.site("UP")
    member.notice("a")
    member.site("DOWN")
    member.site("UP")
    assert member.sends.put_there == []
    member.site("OFFLINE")
    member.site("UP")
    assert member.sends.put_there == [("a", encode(ForgetAll()))]


def test_without_a_notice_in_this_connection_nothing_is_sent(member: Member) -> None:
    member.notice("of another cache")
    member.site("UP")
    member.notice("a")
    member.connect()
    member.site("UP")
    assert member.sends.put_there == []
