"""Variables of the environment: an argument comes first, then a variable, then the file's default."""
from __future__ import annotations

from argparse import ArgumentTypeError, Namespace

import pytest

from jgroups_py.cli.environment import blamed, fill_options, properties_of, variables_of
from jgroups_py.config.load import load, parse
from jgroups_py.model.errors import ConfigError


def options(**given: str) -> Namespace:
    return Namespace(**{"stack": None, "cluster": None, "name": None, "http": None, **given})


def no_empty(text: str) -> str:
    if text == "bad":
        raise ArgumentTypeError("the name is bad")
    return text


def test_an_argument_comes_before_a_variable_and_an_empty_variable_counts_as_none() -> None:
    args = options(stack="tcp")
    fill_options(args, {"JGROUPS_STACK": "udp", "JGROUPS_CLUSTER": "chat", "JGROUPS_NAME": ""}, {})
    assert vars(args) == {"stack": "tcp", "cluster": "chat", "name": None, "http": None}


def test_what_is_in_neither_place_is_an_error_that_names_both() -> None:
    with pytest.raises(ConfigError, match="--cluster is missing; give it, or set JGROUPS_CLUSTER"):
        fill_options(options(stack="udp"), {}, {})


def test_a_wrong_value_names_its_variable() -> None:
    with pytest.raises(ConfigError, match="JGROUPS_CLUSTER='bad': the name is bad"):
        fill_options(options(stack="udp"), {"JGROUPS_CLUSTER": "bad"}, {"cluster": no_empty})


def test_properties_are_filled_by_their_variables_unless_they_are_given() -> None:
    environment = {"JGROUPS_BIND_ADDR": "10.0.0.1", "JGROUPS_P_IP_TTL": "3", "JGROUPS_P_MCAST_PORT": "1", "HOME": "/"}
    found = properties_of(environment, {"ip_ttl": "2"})
    udp = load("udp", found).config_of("UDP")
    assert (udp.bind_addr, udp.ip_ttl, udp.mcast_port) == ("10.0.0.1", 2, 1)
    assert udp.port_range == load("udp").config_of("UDP").port_range, "the file's default"


def test_variables_fill_stack_files_by_their_name_and_those_that_no_file_uses_are_not_warned_of() -> None:
    text = """<config><TCP bind_port="7800" external_addr="${env.POD_IP:}"/><TCPPING initial_hosts="${env.HOSTS:a:1}"/>
              <NAKACK/><UNICAST/><GMS/></config>"""
    spec = parse(text, "stack.xml", properties_of({"POD_IP": "10.0.0.7", "OTHER": "x"}, {}))
    assert spec.config_of("TCP").external_addr == "10.0.0.7"
    assert spec.config_of("TCPPING").initial_hosts == (("a", 1),)
    assert [warning for warning in load("udp", properties_of({"OTHER": "x"}, {})).warnings if "OTHER" in warning] == []


def test_a_library_reads_no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JGROUPS_BIND_ADDR", "10.0.0.1")
    assert load("udp").config_of("UDP").bind_addr == "127.0.0.1"


def test_an_error_is_traced_to_the_variable_without_its_value() -> None:
    environment = {"JGROUPS_BIND_PORT": "many", "JGROUPS_P_IP_TTL": "1"}
    with pytest.raises(ConfigError) as raised:
        load("tcp", properties_of(environment, {}))
    assert blamed(str(raised.value), environment, {}) == ["bind_port is from JGROUPS_BIND_PORT in the environment"]
    assert blamed(str(raised.value), environment, {"bind_port": "many"}) == [], "the argument is to blame"


def test_a_variable_of_its_own_comes_before_the_general_form() -> None:
    assert variables_of({"JGROUPS_P_BIND_ADDR": "10.0.0.2", "JGROUPS_BIND_ADDR": "10.0.0.1"}, {}) == {
        "bind_addr": "JGROUPS_BIND_ADDR"}
