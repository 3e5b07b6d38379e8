"""Protocols from outside the package, in files and lists."""
from __future__ import annotations

import attrs
import pytest

from jgroups_py import wire
from jgroups_py.cli import main
from jgroups_py.config.load import load, parse
from jgroups_py.config.own import FIRST_ID
from jgroups_py.model.batch import Batch, Header
from jgroups_py.model.errors import ConfigError
from jgroups_py.model.units import duration
from jgroups_py.protocols import KNOWN
from jgroups_py.protocols.nakack import Nakack
from jgroups_py.stack.protocol import Protocol

HERE = f"{__name__}."
BOTTOM = [("UDP", {"bind_addr": "127.0.0.1"}), "PING", "NAKACK", "UNICAST", "GMS"]
IN_A_FILE = """<config xmlns="urn:org:jgroups">
    <UDP/><PING/><NAKACK/><UNICAST/><GMS/>
    <{name} {properties}/>
</config>"""


@attrs.frozen
class StampConfig:
    """What Stamp takes."""

    late_ns: int = duration("1s", doc="After which a message is late.")


@wire.header(proto=FIRST_ID, kind=1)
class Stamped(Header):
    """When it was sent."""

    at_ns: int = wire.field(wire.U64)


class Stamp(Protocol):
    """The time at which a message was sent."""

    Config = StampConfig

    def down(self, batch: Batch) -> None:
        self.pass_down(batch.push(Stamped(self.now_ns)))

    def up(self, batch: Batch) -> None:
        self.count("up")
        self.pass_up(batch.pop())


class Plain(Protocol):
    """Has no properties."""


class MyNakack(Nakack):
    """Numbers in some other way."""


@attrs.frozen
class Undescribed:
    """A field without doc."""

    late_ns: int = 1


class Wrong(Protocol):
    """Its properties cannot be read from a file."""

    Config = Undescribed


class Thief(Protocol):
    """Takes the name of another."""

    name = "PING"


@pytest.mark.parametrize("given", [
    (Stamp, {"late": "2s"}), {Stamp: {"late": "2s"}}, (Stamp, StampConfig(late_ns="2s")),
    (f"{HERE}Stamp", {"late": "2s"}),
])
def test_a_list_names_it_by_its_class_or_where_that_is(given):
    spec = load([*BOTTOM, given])
    assert (spec.layers[-1].name, spec.layers[-1].config) == ("Stamp", StampConfig(late_ns="2s"))
    assert isinstance(spec.build()[-1], Stamp)
    assert load(list(spec.layers)).layers == spec.layers


def test_a_class_alone_has_its_defaults():
    assert load([*BOTTOM, Plain]).layers[-1].build().name == "Plain"


def test_a_file_names_it_by_module_and_class():
    spec = parse(IN_A_FILE.format(name=f"{HERE}Stamp", properties='late="2s"'), "x.xml")
    assert spec.layers[-1].build().config == StampConfig(late_ns="2s")


def test_a_subclass_of_a_packaged_protocol_stands_in_its_place():
    spec = load([MyNakack if layer == "NAKACK" else layer for layer in BOTTOM])
    assert (spec.layers[2].name, type(spec.layers[2].build())) == ("NAKACK", MyNakack)


@pytest.mark.parametrize(("name", "properties", "message"), [
    (f"{HERE}Stamp", 'lat="2s"', r"x\.xml:3: .*Stamp: unknown property 'lat'; did you mean 'late'\?"),
    (f"{HERE}Nothing", "", "has no attribute 'Nothing'"),
    ("no.such.Module", "", r"'no.such:Module' cannot be imported: No module named 'no'"),
    (f"{HERE}StampConfig", "", r"StampConfig' is no subclass of jgroups_py\.stack\.protocol\.Protocol"),
    (f"{HERE}Wrong", "", r"Undescribed\.late_ns is not made by duration\(\)"),
    (f"{HERE}Thief", "", "Thief has the name of a packaged protocol, PING"),
    ("STAMP", "", "unknown protocol 'STAMP'.* or package.module.Class of a protocol of your own"),
    ("org.jgroups.protocols.STAMP", "", "unknown protocol"),
])
def test_what_cannot_stand_in_a_stack_is_an_error_with_the_reason(name, properties, message):
    with pytest.raises(ConfigError, match=message):
        parse(IN_A_FILE.format(name=name, properties=properties), "x.xml")


def test_the_tools_show_it(tmp_path, capsys):
    file = tmp_path / "x.xml"
    file.write_text(IN_A_FILE.format(name=f"{HERE}Stamp", properties='late="2s"'), encoding="utf-8")
    assert main(["lint", str(file)]) == 0
    assert main(["draw", str(file)]) == 0
    shown = capsys.readouterr().out
    assert "+-- Stamp" in shown
    assert f"header Stamped (id {FIRST_ID})" in shown
    assert "late=2s (not 1s)" in shown
    assert main(["props", f"{HERE}Stamp"]) == 0
    assert "After which a message is late." in capsys.readouterr().out
    assert main(["props", "no.such.Module"]) == 2


def test_ids_of_headers_of_this_package_are_below_the_first_one_of_others():
    assert max(known.wire_id for known in KNOWN.values()) < FIRST_ID
