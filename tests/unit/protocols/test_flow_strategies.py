"""Strategies by script, and every form of `fc=`: acceptance case 12 of the reference's section on flow control."""
from __future__ import annotations

import pytest

from jgroups_py.config.load import load
from jgroups_py.model.errors import ConfigError
from jgroups_py.model.units import millis, seconds
from jgroups_py.protocols.flow.fc import parse_fc
from jgroups_py.protocols.flow.flow_config import FlowControlConfig
from jgroups_py.protocols.flow.strategies import Max, Min, Strategy, StrategySettings, Tagged, strategy_class

W = 2000
START = 5000


class Half(Max):
    """A strategy of one's own."""


def settings(group_min_size: int = 0, tag: int | None = None) -> StrategySettings:
    return StrategySettings(W, tag, group_min_size)


def test_accept_4_12_below_the_group_minimum_size_the_limit_is_frozen() -> None:
    group = Min(settings(3), START)
    for receiver in (1, 2, 2):
        group.status(receiver, 6000, W, None)
        assert group.limit == START
        assert not group.connected
    group.status(3, 6000, W, None)
    assert group.limit == 6000 + W
    assert group.connected


def test_accept_4_12_a_receiver_a_window_behind_the_slowest_is_not_admitted() -> None:
    group = Min(settings(2), START)
    limits = []
    for receiver, position in enumerate((2 * W, W - 1, W)):
        group.status(receiver, position, W, None)
        limits.append(max(group.limit or 0, START))
    assert limits == [START, START, START]
    assert group.receivers() == 2


def test_accept_4_12_the_limit_is_the_lowest_position_and_window_of_those_admitted() -> None:
    window = 10_000
    group = Min(StrategySettings(window, None, 2), START)
    limits = []
    for receiver, position in enumerate((2 * window, window - 1, window)):
        group.status(receiver, position, window, None)
        limits.append(group.limit)
    assert limits == [START, START, 2 * window]


def test_max_follows_the_fastest_receiver_and_requires_none() -> None:
    group = Max(settings(3, tag=7))
    assert group.connected
    group.status("slow", 100, W, None)
    group.status("fast", 900, W, None)
    group.status("slow", 200, W, None)
    assert group.limit == 900 + W
    group.gone("fast")
    assert group.limit == 900 + W                      # what was allowed was allowed
    group.gone("slow")
    assert group.limit is None


def test_tagged_follows_the_slowest_receiver_with_the_tag() -> None:
    group = Tagged(settings(2, tag=1001))
    group.setup("not answered", 0)
    for receiver, position in (("a", 500), ("b", 300)):
        group.status(receiver, position, W, 1001)
    group.status("other tag", 0, W, 1002)
    group.status("no tag", 0, W, None)
    assert group.limit == 300 + W
    group.gone("no tag")
    assert group.connected
    group.gone("a")
    group.status("b", 900, W, 1001)
    assert not group.connected
    assert group.limit == 300 + W                      # frozen


def test_a_receiver_that_was_set_up_counts_before_its_first_answer() -> None:
    group = Min(settings())
    group.setup("a", 1000)
    group.status("b", 5000, W, None)
    assert group.limit == 1000 + W
    group.status("a", 4000, W, None)
    assert group.limit == 4000 + W


@pytest.mark.parametrize(("text", "strategy", "tag", "size", "timeout_ns", "rrwm"), [
    ("max", "max", None, None, None, None),
    ("max,g:7/2,t:5s", "max", 7, 2, seconds(5), None),
    ("min", "min", None, None, None, None),
    ("min,g:/3", "min", None, 3, None, None),
    ("min,t:200ms", "min", None, None, millis(200), None),
    ("min,g:/3,t:5s", "min", None, 3, seconds(5), None),
    ("min,g:123/4", "min", 123, 4, None, None),        # min ignores the tag
    ("tagged,g:1001", "tagged", 1001, None, None, None),
    ("tagged,g:1001/3,t:5s", "tagged", 1001, 3, seconds(5), None),
    ("tagged,t:5s,g:1001/3,rrwm:8", "tagged", 1001, 3, seconds(5), 8),
    ("tagged,g:3000000000/0", "tagged", 3_000_000_000, 0, None, None),
    ("tagged,g:-1", "tagged", 2 ** 64 - 1, None, None, None),
    ("tagged, g:9223372036854775807/1", "tagged", 2 ** 63 - 1, 1, None, None),
])
def test_accept_4_12_every_valid_form_of_fc(
    text: str, strategy: str, tag: int | None, size: int | None, timeout_ns: int | None, rrwm: int | None,
) -> None:
    found = parse_fc(text)
    assert (found.strategy, found.group_tag, found.group_min_size, found.receiver_timeout_ns, found.rrwm) == (
        strategy, tag, size, timeout_ns, rrwm)
    assert FlowControlConfig(fc=text).strategy_class() is strategy_class(strategy)


INVALID = [
    ("minute", "none of the strategies max, min, tagged"),
    ("tagged", "g:TAG"), ("tagged,g:/3", "g:TAG"),
    ("tagged,g:", "neither a tag nor a size"), ("tagged,g:/", "neither a tag nor a size"),
    ("tagged,g:100/", "no size after the slash"), ("tagged,g:100/,t:5s", "no size after the slash"),
    ("tagged,g:100,t:", "is not a duration"), ("min,t:", "is not a duration"), ("min,t:5", "has no unit"),
    ("min,t:0s", "at least 1ns"), ("min,t:-1s", "is not a duration"), ("min,t:soon", "is not a duration"),
    ("min,g:x", "is not a whole number"), ("min,g:/x", "is not a whole number"), ("min,g:/-1", "out of range"),
    ("tagged,g:18446744073709551616", "64 bits"), ("min,g:/3,g:/4", "twice"), ("min,t:5s,t:6s", "twice"),
    ("min,,t:5s", "is no option"), ("min,x:1", "is no option"), ("min,g", "is no option"),
    ("g:/3", "does not begin with a strategy"),
    (",g:/3", "does not begin with a strategy"), ("min,rrwm:0", "out of range"), ("min,rrwm:", "is not a whole number"),
    ("nowhere:Class", "cannot be imported"), (".:x", "does not begin with a dot"),
    ("jgroups_py.testing.bench:Bench", "is no subclass"),
    ("min,t:100ms", "below status_interval"),
]


@pytest.mark.parametrize(("text", "why"), INVALID)
def test_accept_4_12_every_invalid_form_of_fc_is_refused_and_names_what_is_allowed(text: str, why: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load("flow", {"fc": text})
    assert why in str(caught.value)
    assert "flow.xml:" in str(caught.value)


@pytest.mark.parametrize("plain", [
    {"strategy": "max"}, {"group_tag": "7"}, {"group_min_size": "3"}, {"receiver_timeout_ns": "5s"}, {"rrwm": "4"}])
def test_fc_and_a_property_must_not_set_the_same_value(plain: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match="the same thing twice"):
        FlowControlConfig(fc="tagged,g:1/1,t:1s,rrwm:2", **plain)


def test_fc_and_properties_complete_each_other() -> None:
    config = FlowControlConfig(fc="tagged", group_tag="1001", group_min_size=3)
    assert config.settings == StrategySettings(4 << 20, 1001, 3)
    assert FlowControlConfig(strategy="tagged", group_tag=1001, group_min_size=3).settings == config.settings


def test_the_profile_selects_the_defaults() -> None:
    assert FlowControlConfig().timeout_ns == seconds(5)
    assert FlowControlConfig(profile="aeron-1.26").timeout_ns == seconds(2)
    assert FlowControlConfig(profile="aeron-1.26", fc="min,t:3s").timeout_ns == seconds(3)


def test_a_strategy_from_outside_the_package_is_named_by_module_and_class() -> None:
    config = FlowControlConfig(fc=f"{__name__}:Half")
    assert config.strategy_class() is Half
    assert issubclass(Half, Strategy)


def test_a_strategy_from_outside_the_package_is_found_by_entry_point(monkeypatch: pytest.MonkeyPatch) -> None:
    from importlib.metadata import EntryPoint

    from jgroups_py.model import plugins
    entry = EntryPoint("half", f"{__name__}:Half", "jgroups_py.flow_control")
    monkeypatch.setattr(plugins, "entry_points", lambda group: [entry])
    assert FlowControlConfig(strategy="half").strategy_class() is Half
