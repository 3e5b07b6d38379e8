"""The cache of one member: what is kept, for how long, and what a notice does to loads that are under way."""
from __future__ import annotations

import pytest

from jgroups_py.blocks.cache.core import ENTRY_COST, CacheCore, CacheLoad
from jgroups_py.model.units import seconds

TTL_NS = seconds(10)


@pytest.fixture
def core() -> CacheCore:
    made = CacheCore(10 * (ENTRY_COST + 10), TTL_NS)
    made.connected()
    return made


def load(core: CacheCore, key: bytes, began_ns: int = 0) -> CacheLoad:
    return core.begin(CacheLoad(key, began_ns))


def keep(core: CacheCore, key: bytes, value: bytes, began_ns: int = 0) -> None:
    core.loaded(load(core, key, began_ns), value)


def test_a_loaded_value_is_kept_until_its_age_since_the_load_began_is_the_time_to_live(core: CacheCore) -> None:
    begun = load(core, b"k", 5)
    core.loaded(begun, b"v")
    assert core.get(b"k", TTL_NS + 4) == b"v"
    assert core.get(b"k", TTL_NS + 5) is None
    assert core.nbytes == 0
    assert core.counters == {"cleared": 1, "loads": 1, "hits": 1, "expired": 1}


def test_one_load_of_a_key_goes_on_at_a_time(core: CacheCore) -> None:
    begun = load(core, b"k")
    assert load(core, b"k") is begun
    assert load(core, b"other") is not begun
    core.loaded(begun, b"v")
    assert load(core, b"k") is not begun
    assert core.counters["joined"] == 1


def test_a_load_that_failed_or_found_nothing_keeps_nothing_and_may_begin_again(core: CacheCore) -> None:
    begun = load(core, b"k")
    core.loaded(begun, None)
    assert core.get(b"k", 1) is None
    assert load(core, b"k") is not begun


def test_a_notice_removes_a_value_and_overtakes_a_load(core: CacheCore) -> None:
    keep(core, b"k", b"old")
    overtaken = load(core, b"l")
    core.forget([b"k", b"l", b"m"])
    assert core.get(b"k", 1) is None
    again = load(core, b"l")
    assert again is not overtaken
    core.loaded(again, b"new")
    core.loaded(overtaken, b"old")
    assert core.get(b"l", 1) == b"new"
    assert (core.counters["forgotten"], core.counters["stale_loads"]) == (1, 1)


def test_a_load_that_a_notice_overtook_leaves_the_one_that_followed_it(core: CacheCore) -> None:
    overtaken = load(core, b"k")
    core.forget([b"k"])
    again = load(core, b"k")
    core.loaded(overtaken, b"old")
    assert load(core, b"k") is again


def test_clear_forgets_everything_and_all_loads(core: CacheCore) -> None:
    keep(core, b"k", b"v")
    begun = load(core, b"l")
    core.clear()
    core.loaded(begun, b"old")
    assert (core.entries, core.nbytes) == ({}, 0)


def test_nothing_is_kept_while_notices_do_not_arrive() -> None:
    core = CacheCore(10_000, TTL_NS)
    keep(core, b"k", b"v")
    begun = load(core, b"l")
    core.connected()
    core.loaded(begun, b"v")                                 # it may have missed a notice
    assert core.entries == {}
    keep(core, b"k", b"v")
    assert core.get(b"k", 1) == b"v"
    core.connected()                                         # another view of the same connection
    assert core.get(b"k", 1) == b"v"
    core.disconnected()
    keep(core, b"k", b"v")
    assert core.entries == {}


def test_the_least_recently_used_values_are_dropped_for_room(core: CacheCore) -> None:
    for number in range(10):
        keep(core, b"%d" % number, b"123456789")
    assert core.get(b"0", 1) == b"123456789"
    keep(core, b"x", b"123456789")
    assert core.get(b"0", 1) is not None
    assert core.get(b"1", 1) is None
    assert core.nbytes == core.max_bytes
    keep(core, b"x", b"1")
    assert core.nbytes == core.max_bytes - 8
    assert core.counters["evicted"] == 1


def test_a_value_that_is_larger_than_the_cache_is_not_kept_and_drops_no_other_one(core: CacheCore) -> None:
    keep(core, b"k", b"v")
    keep(core, b"l", bytes(core.max_bytes))
    assert [*core.entries] == [b"k"]
