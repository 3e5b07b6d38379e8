"""What `jgroups props` prints comes from the configuration classes."""
from pathlib import Path

import pytest

from jgroups_py.config.docs import as_text, changed, doc_of
from jgroups_py.config.properties import canonical, table_of
from jgroups_py.config.spec import LayerSpec
from jgroups_py.protocols import ALIASES, KNOWN, MEANINGLESS
from jgroups_py.protocols.transport.protocol import UdpConfig


@pytest.mark.parametrize("name", list(KNOWN))
def test_every_protocol_is_documented_and_its_defaults_can_be_written_into_a_file(name):
    doc, table = doc_of(KNOWN[name].load()), table_of(KNOWN[name].load())
    assert doc.summary
    assert name in as_text(doc)
    for row in doc.properties:
        item = table.by_name[row.name]
        if row.default is not None:
            assert item.convert(row.default) == item.default, f"{name}.{row.name}={row.default!r}"


@pytest.mark.parametrize("name", list(KNOWN))
def test_no_two_properties_of_a_protocol_share_a_name(name):
    table = table_of(KNOWN[name].load())
    assert len(table.by_name) == sum(1 + len(item.also) for item in table.properties)


def test_values_that_differ_from_their_default_are_shown_in_human_units():
    layer = LayerSpec("UDP", UdpConfig(ip_ttl=3, max_bundle_bytes=32768))
    assert changed(layer) == {"max_bundle_size": ("32K", "64000"), "ip_ttl": ("3", "0")}


def test_every_name_of_java_leads_to_a_protocol_of_this_package():
    for name in [*ALIASES, *KNOWN, *MEANINGLESS]:
        assert canonical(f"org.jgroups.protocols.{name}") == canonical(name) is not None
    assert canonical("NAKACK4") == canonical("pbcast.NAKACK2") == "NAKACK"
    assert canonical("nothing") is None


# These would change which members communicate, or where members are looked for: they must not be ignored.
REFUSED = ("tls.", "initial_hosts_file")


def properties_of_jgroups() -> list[tuple[str, str]]:
    """(our protocol, property) for all that jgroups5.txt lists."""
    found, protocol = [], ""
    for line in (Path(__file__).parent / "jgroups5.txt").read_text(encoding="utf-8").splitlines():
        if line.endswith(":") and not line.startswith(("#", " ")):
            protocol = line[:-1]
        elif line.startswith(" "):
            found += [(protocol, name) for name in line.split()]
    return found


def test_every_property_of_jgroups_5_is_known_ignored_with_a_reason_or_refused():
    listed = properties_of_jgroups()
    assert len(listed) > 300
    for protocol, name in listed:
        table = table_of(KNOWN[protocol].load())
        known = name in table.by_name or name in table.ignored
        assert known is not name.startswith(REFUSED), f"{protocol}.{name}"
