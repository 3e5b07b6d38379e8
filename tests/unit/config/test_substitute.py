"""${name:default}."""
import pytest

from jgroups_py.config.load import find, load, packaged
from jgroups_py.config.substitute import Substitution
from jgroups_py.model.errors import ConfigError


@pytest.mark.parametrize(("value", "filled"), [
    ("plain", "plain"),
    ("", ""),
    ("${port:1}", "7801"),
    ("${nothing:}", ""),
    ("${a,b,port:1}", "7801"),
    ("${a:127.0.0.1[7800],127.0.0.2[7800]}", "127.0.0.1[7800],127.0.0.2[7800]"),
    ("${a:${b:${port}}}", "7801"),
    ("x${port}y${flag:no}z", "x7801ytruez"),
    ("a}b", "a}b"),
    ("$port", "$port"),
    ("${nothing}", None),
])
def test_values_are_filled_from_properties_and_defaults(value, filled):
    assert Substitution({"port": 7801, "flag": True}).fill(value) == filled


@pytest.mark.parametrize(("value", "message"), [
    ("a ${nothing}", "has no value and no default"),
    ("${a:${b}}", "has no value and no default"),
    ("${open", "not closed"),
    ("${:x}", "empty or nested name"),
    ("${}", "empty or nested name"),
    ("${${a}:x}", "empty or nested name"),
    ("${a:" * 40 + "}" * 40, "inside each other"),
])
def test_what_cannot_be_filled_is_a_config_error(value, message):
    with pytest.raises(ConfigError, match=message):
        Substitution({}).fill(value)


def test_the_environment_is_not_looked_at(monkeypatch):
    monkeypatch.setenv("bind_addr", "10.0.0.1")
    assert Substitution({}).fill("${bind_addr:127.0.0.1}") == "127.0.0.1"


def test_names_that_no_value_asked_for_are_known():
    fill = Substitution({"bind_adr": "x", "port": 1})
    fill.fill("${bind_addr:y} ${port}")
    assert fill.unused() == ["bind_adr"]


@pytest.mark.parametrize(("properties", "ttl"), [
    ({}, 0), ({"bind_addr": "site_local"}, 8), ({"jgroups.bind_addr": "site_local"}, 8), ({"bind_addr": "10.0.0.1"}, 0),
    ({"bind_addr": "site_local", "ip_ttl": 1}, 1), ({"bind_addr": "site_local", "jgroups.udp.ip_ttl": 0}, 0),
    ({"bind_addr": "10.0.0.1", "jgroups.bind_addr": "site_local"}, 0),
])
def test_multicasts_leave_the_host_if_its_site_is_named_and_else_only_if_told(properties, ttl):
    by_multicasts = [name for name in packaged() if "${ip_ttl" in find(name).read_text()]
    assert {"udp", "nyc", "udp-total", "swim"} <= set(by_multicasts)
    for name in by_multicasts:
        assert load(name, properties).layers[0].config.ip_ttl == ttl, name


def test_the_default_of_a_file_of_ones_own_stays():
    fill = Substitution({"bind_addr": "site_local"}).fill
    assert [fill("${ip_ttl:2}"), fill("${jgroups.udp.ip_ttl:8}"), fill("${mcast_port:0}")] == ["2", "8", "0"]
