"""What a channel's outputs make its caches forget, on a block without a channel."""
from __future__ import annotations

from typing import Any, cast

import pytest

from jgroups_py.blocks.cache.cache import Cache, CacheHub, Flight
from jgroups_py.blocks.cache.messages import MESSAGES, ForgetAll, ForgetKeys, encode
from jgroups_py.model.batch import Batch
from jgroups_py.model.errors import WireError
from jgroups_py.model.outputs import Closed, Deliver, MessagesLost, Output, SiteStatusChanged, ViewInstalled
from jgroups_py.model.view import MergeView
from jgroups_py.testing.bench import address, view_of
from jgroups_py.wire.block_headers import CacheNotice
from jgroups_py.wire.codec import Interner


class NoChannel:
    """A channel that is in a view, as a Cache sees it when it is made."""

    def __init__(self) -> None:
        self.blocks: tuple[Any, ...] = ()
        self.view = view_of(*"AB")

    def attach(self, block: Any) -> None:
        self.blocks = (*self.blocks, block)


@pytest.fixture
def cache() -> Cache[str, bytes]:
    made: Cache[str, bytes] = Cache(cast(Any, NoChannel()), "pages", str, bytes)
    for key in ("one", "two"):
        assert made.get_or_load(key, str.encode) == key.encode()
    return made


def hub_of(cache: Cache[str, bytes]) -> CacheHub:
    return CacheHub.of(cast(Any, cache._channel))


def notice(*payloads: bytes, name: str = "pages") -> Deliver:
    return Deliver(Batch(address("B"), None, payloads, headers=(CacheNotice(name),)))


def kept(cache: Cache[str, bytes]) -> list[str]:
    return [key for key in ("one", "two") if cache.peek(key) is not None]


def test_a_notice_is_taken_from_the_outputs_and_removes_its_keys(cache: Cache[str, bytes]) -> None:
    other = Deliver(Batch(address("B"), None, (b"for the application",)))
    assert hub_of(cache).early([notice(encode(ForgetKeys((b"one", b"three")))), other]) == [other]
    assert kept(cache) == ["two"]


def test_a_notice_for_another_cache_changes_nothing(cache: Cache[str, bytes]) -> None:
    assert hub_of(cache).early([notice(encode(ForgetAll()), name="none")]) == []
    assert kept(cache) == ["one", "two"]


def test_a_notice_that_cannot_be_read_is_counted_and_everything_is_forgotten(cache: Cache[str, bytes]) -> None:
    hub_of(cache).early([notice(b"\xff"), notice(b"\x01\xff\xff\xff\xff")])
    assert kept(cache) == []
    assert cache.stats()["malformed"] == 2


@pytest.mark.parametrize(("output", "left"), [
    (ViewInstalled(view_of(*"ABC")), ["one", "two"]),
    (ViewInstalled(MergeView(view_of(*"AB").id, view_of(*"AB").members, (view_of("A"), view_of("B")))), []),
    (MessagesLost("SFO", address("B"), 1, 2), []),
    (MessagesLost("SFO", address("B"), 1, 2, "NYC"), ["one", "two"]),       # lost at another site
    (SiteStatusChanged("SFO", "DOWN"), ["one", "two"]),
    (SiteStatusChanged("SFO", "UP"), []),                                   # it was not known
    (Closed("left"), []),
], ids=["view", "merge", "lost here", "lost there", "site down", "site up", "closed"])
def test_what_may_have_missed_a_notice_forgets_everything(
    cache: Cache[str, bytes], output: Output, left: list[str],
) -> None:
    assert hub_of(cache).early([output]) == [output]
    assert kept(cache) == left


def test_a_site_that_was_only_down_has_its_notices_held_and_nothing_is_forgotten(cache: Cache[str, bytes]) -> None:
    hub = hub_of(cache)
    hub.early([SiteStatusChanged("SFO", "UP")])
    cache.get_or_load("one", str.encode)
    hub.early([SiteStatusChanged("SFO", "DOWN"), SiteStatusChanged("SFO", "UP")])
    assert kept(cache) == ["one"]
    hub.early([SiteStatusChanged("SFO", "OFFLINE"), SiteStatusChanged("SFO", "UP")])
    assert kept(cache) == []


def test_an_exception_of_a_loader_is_raised_and_nothing_is_kept(cache: Cache[str, bytes]) -> None:
    def fails(key: str) -> bytes:
        raise KeyError(key)
    for _ in range(2):
        with pytest.raises(KeyError, match="three"):
            cache.get_or_load("three", fails)
    assert cache.get_or_load("three", lambda key: None) is None
    assert cache.peek("three") is None


def test_a_loader_that_asks_for_its_own_key_is_told(cache: Cache[str, bytes]) -> None:
    with pytest.raises(RuntimeError, match="asks the cache for the key that it is loading"):
        cache.get_or_load("three", lambda key: cache.get_or_load(key, str.encode))


def test_whoever_waits_for_a_load_that_was_given_up_loads_itself(cache: Cache[str, bytes]) -> None:
    def stopped(key: str) -> bytes:
        raise KeyboardInterrupt
    with pytest.raises(KeyboardInterrupt):
        cache.get_or_load("three", stopped)
    assert cache.get_or_load("three", str.encode) == b"three"


def test_arguments_are_checked() -> None:
    channel = cast(Any, NoChannel())
    made: Cache[str, bytes] = Cache(channel, "pages", str, bytes, max_bytes=1000, ttl=0.5)
    with pytest.raises(ValueError, match="there already"):
        Cache(channel, "pages", str, bytes)
    with pytest.raises(ValueError, match="are above 0"):
        Cache(channel, "more", str, bytes, ttl=0)
    with pytest.raises(ValueError, match="which keys"):
        made.invalidate()


def test_messages_come_back_as_they_were_and_their_bytes_are_these() -> None:
    for message, data in ((ForgetKeys((b"a", b"bc")), "01 00000002 00000001 61 00000002 6263"), (ForgetAll(), "02")):
        assert encode(message) == bytes.fromhex(data)
        assert MESSAGES.decode(bytes.fromhex(data), Interner()) == message
    with pytest.raises(WireError):
        MESSAGES.decode(b"\x03", Interner())


def test_a_load_is_settled_for_who_waits_before_and_after() -> None:
    flight = Flight(b"k", 0)
    flight.owner, flight.value = 0, b"v"
    flight.settle()
    flight.wait()
    assert flight.result() == b"v"
