"""Formats of other systems beside ENCRYPT in one process: refused, unless the network is said to be trusted."""
from __future__ import annotations

from pathlib import Path

import pytest

import jgroups_py as jg
from jgroups_py.blocks.name_service import NameService
from jgroups_py.config.load import load
from jgroups_py.model.errors import ConfigError
from jgroups_py.runtime.foreign_formats import FORMATS, OpenFormat, OpenFormats, format_of
from jgroups_py.sealing.keyring import new_keyring
from jgroups_py.system.free_ports import free_range
from jgroups_py.system.secrets import write_keyring

SEALED, CLEAR = OpenFormat("UDP", sealed=True, foreign=False), OpenFormat("UDP", sealed=False, foreign=False)
FOREIGN, TRUSTED = OpenFormat("INFLUX", sealed=False, foreign=True), OpenFormat("INFLUX", sealed=False, foreign=False)
KEY = "AAAAAAAAAAAAAAAAAAAAAA=="


@pytest.mark.parametrize(("first", "second"), [(SEALED, FOREIGN), (FOREIGN, SEALED)])
def test_what_is_not_sealed_does_not_stand_beside_encrypt(first, second):
    formats = OpenFormats()
    entered = formats.enter(first)
    with pytest.raises(ConfigError, match=r'INFLUX believes .* give INFLUX trusted_network="true"'):
        formats.enter(second)
    formats.leave(entered)
    formats.enter(second)


def test_anything_else_goes_together():
    formats = OpenFormats()
    for each in (SEALED, CLEAR, TRUSTED, SEALED):
        formats.enter(each)
    other = OpenFormats()
    for each in (CLEAR, FOREIGN, TRUSTED, FOREIGN):
        other.enter(each)


@pytest.mark.parametrize(("stack", "properties", "foreign"), [
    ("udp", {}, False), ("tcp", {}, False), ("influx", {}, True), ("serf", {}, True)])
def test_stacks_of_other_systems_are_foreign_unless_said_otherwise(stack, properties, foreign):
    assert format_of(load(stack, properties)).foreign is foreign
    assert not format_of(load(stack, properties)).sealed


@pytest.mark.parametrize(("transport", "foreign"), [
    (("INFLUX", {"trusted_network": True}), False), (("MEMBERLIST", {"trusted_network": True}), False),
    (("MEMBERLIST", {"encrypt": KEY}), False), (("MEMBERLIST", {}), True)])
def test_a_trusted_network_or_keys_make_it_none(transport, foreign):
    above = ["PEX"] if transport[0] == "INFLUX" else ["SWIM"]
    assert format_of(load([transport, *above])).foreign is foreign


@pytest.mark.real
def test_a_name_service_beside_a_sealed_channel_needs_a_trusted_network(tmp_path: Path):
    write_keyring(tmp_path / "k", new_keyring(b"k" * 32), new=True)
    with jg.JChannel("sealed", "A", {"keyring": tmp_path / "k", "mcast_port": free_range()}) as member:
        member.connect("sealed")
        with pytest.raises(ConfigError, match="NameService believes frames that are not sealed"):
            NameService("a", f"127.0.0.1:{free_range()}")
        NameService("a", f"127.0.0.1:{free_range()}", trusted_network=True).close()
    with NameService("a", f"127.0.0.1:{free_range()}"), \
            jg.JChannel("sealed", "A", {"keyring": tmp_path / "k", "mcast_port": free_range()}) as member, \
            pytest.raises(jg.ChannelError, match="NameService believes"):
        member.connect("sealed")
    assert FORMATS._open == []
