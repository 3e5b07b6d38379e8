"""${name:default}."""
import pytest

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
