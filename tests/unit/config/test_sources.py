"""XML and YAML: what is read, with which line, and what is refused."""
import contextlib
import random

import pytest

from jgroups_py.config import xml, yaml
from jgroups_py.config.problems import StackError
from jgroups_py.config.raw import Include, RawLayer

XML = """<?xml version="1.0" encoding="UTF-8"?>
<!-- ä -->
<config xmlns="urn:org:jgroups">
    <UDP mcast_port="45588"
         note="a &lt; b &#10; é"
         ip_ttl='0'/>
    <PING/>
    <include file="more.xml"/>
</config>
"""
YAML = """# a comment
- UDP:
    mcast_port: 45588

    hosts:
      - a[1]
      - b[2]
- PING
- GMS:
- NAKACK: {xmit_interval: 1.5s, use: true}
- include: {file: more.yaml}
"""


def lines(item: object) -> dict[str, int]:
    assert isinstance(item, RawLayer)
    return {p.name: p.place.line for p in item.properties}


def test_xml_properties_have_the_line_on_which_they_begin():
    items = xml.parse(XML, "a.xml")
    assert [getattr(item, "name", "include") for item in items] == ["UDP", "PING", "include"]
    assert lines(items[0]) == {"mcast_port": 4, "note": 5, "ip_ttl": 6}
    assert [item.place.line for item in items] == [4, 7, 8]


def test_yaml_properties_have_the_line_on_which_they_begin():
    items = yaml.parse(YAML, "a.yaml")
    assert [getattr(item, "name", "include") for item in items] == ["UDP", "PING", "GMS", "NAKACK", "include"]
    assert lines(items[0]) == {"mcast_port": 3, "hosts": 5}
    assert isinstance(items[-1], Include)


def test_yaml_values_are_texts_as_written_and_lists_are_joined():
    items = yaml.parse(YAML, "a.yaml")
    values = {p.name: p.value for item in items if isinstance(item, RawLayer) for p in item.properties}
    assert values == {"mcast_port": "45588", "hosts": "a[1],b[2]", "xmit_interval": "1.5s", "use": "true"}


@pytest.mark.parametrize(("text", "line", "message"), [
    ('<!DOCTYPE a [<!ENTITY x "y">]>\n<config/>', 1, "DTDs, entities and external references are refused"),
    ('<!DOCTYPE config SYSTEM "http://127.0.0.1/x.dtd"><config/>', 1, "refused"),
    ("<config>\n<UDP>&unknown;</UDP></config>", 2, "undefined entity"),
    ("<config>\n<UDP", 2, "not well-formed XML"),
    ("<config>\n<UDP mcast_port=5/></config>", 2, "not well-formed XML: invalid token"),
    ("", 1, "not well-formed XML"),
    ("<config>\n hello</config>", 2, "text between elements"),
    ("<config bind='1'/>", 1, "no attribute 'bind'"),
    ("<config>\n<UDP>\n<x/></UDP></config>", 3, "UDP must not contain elements"),
    ("<config xmlns='urn:else'/>", 1, "xmlns is 'urn:else'; allowed is 'urn:org:jgroups'"),
    ("<stack/>", 1, "the root element is <stack>"),
    ("<config>\n<UDP a='1' a='2'/></config>", 2, "duplicate attribute"),
    ("<config>\n<include/></config>", 2, "an include names one file"),
])
def test_wrong_xml_is_an_error_that_names_the_line(text, line, message):
    with pytest.raises(StackError, match=rf"^a\.xml:{line}: ") as caught:
        xml.parse(text, "a.xml")
    assert message in str(caught.value)


@pytest.mark.parametrize(("text", "line", "message"), [
    ("", 1, "a stack file is a list"),
    ("UDP: {}", 1, "a stack file is a list"),
    ("- PING\n- {a: 1, b: 2}", 2, "one protocol an entry"),
    ("- UDP: 3", 1, "properties are a mapping"),
    ("- UDP: {a: {b: c}}", 1, "not a list or mapping"),
    ("- &a PING\n- *a", 1, "anchors and aliases are refused"),
    ("- PING\n- !!python/object/apply:os.system [ls]", 2, "tags are refused"),
    ("- a\n---\n- b", 2, "another document"),
    ("- " * 300 + "a", 1, "nested too deep"),
    ("- {\n", 2, "not well-formed YAML"),
    ('- "\\uD800"', 1, "has a lone surrogate"),
    ("- include: {path: x}", 1, "an include names one file"),
])
def test_wrong_yaml_is_an_error_that_names_the_line(text, line, message):
    with pytest.raises(StackError, match=rf"^a\.yaml:{line}: ") as caught:
        yaml.parse(text, "a.yaml")
    assert message in str(caught.value)


@pytest.mark.parametrize("text", ["\0", '- "\\U99999999"', "%YAML 1." + "9" * 5000 + "\n---\n- a"])
def test_what_trips_the_yaml_library_itself_is_a_config_error(text):
    with pytest.raises(StackError, match="not well-formed YAML"):
        yaml.parse(text, "a.yaml")


@pytest.mark.parametrize(("parse", "sample"), [(xml.parse, XML), (yaml.parse, YAML)])
def test_damaged_files_give_protocols_or_a_config_error_and_nothing_else(parse, sample):
    rng = random.Random(7)
    alphabet = sample + "<>&;!-[]{}:,'\"#*%@`|\\\0\t\x85\u2028\ud800"
    for _ in range(1500):
        text = list(sample)
        for _ in range(rng.randrange(1, 8)):
            at = rng.randrange(len(text))
            text[at:at + rng.randrange(3)] = [rng.choice(alphabet) for _ in range(rng.randrange(3))]
        with contextlib.suppress(StackError):
            parse("".join(text), "damaged")
