"""From files and lists to a checked StackSpec: what loads, and the text of each error."""
import contextlib
import pickle
import random
import re
from pathlib import Path

import attrs
import pytest

from jgroups_py.config import load as loading
from jgroups_py.config.load import bridge_loader, load, packaged, parse, resolve_bridge
from jgroups_py.config.problems import Place, Problem, StackError
from jgroups_py.config.spec import LayerSpec, StackSpec
from jgroups_py.model.errors import ConfigError
from jgroups_py.model.units import millis, seconds
from jgroups_py.protocols.transport.protocol import TcpConfig, UdpConfig
from tests.unit.config.stock import STOCK, write_all

STACKS = Path(__file__).parents[3] / "stacks"
SHIPPED = sorted(path.stem for path in STACKS.glob("*.xml"))
UDP = ["UDP", "PING", "MERGE3", "FD_SOCK", "FD_ALL", "VERIFY_SUSPECT", "NAKACK", "UNICAST", "STABLE", "GMS", "MFC",
       "UFC", "FRAG", "STATE_TRANSFER"]


def names(spec: StackSpec) -> list[str]:
    return [layer.name for layer in spec.layers]


def without(*gone: str) -> list[str]:
    return [name for name in UDP if name not in gone]


def errors(source: object, **properties: object) -> str:
    with pytest.raises(ConfigError) as caught:
        load(source, properties)                # type: ignore[arg-type]
    return str(caught.value)


# --- the shipped stacks ---------------------------------------------------------------------------------------------

@pytest.mark.parametrize("name", SHIPPED)
def test_a_shipped_stack_loads_without_a_warning_and_its_yaml_file_gives_the_same(name):
    from_xml, from_yaml = load(STACKS / f"{name}.xml"), load(STACKS / f"{name}.yaml")
    assert from_xml.warnings == from_yaml.warnings == ()
    for one, other in zip(from_xml.layers, from_yaml.layers, strict=True):
        assert one.name == other.name
        if one.name != "RELAY":                 # its bridge_props names the twin of the bridge
            assert one.config == other.config


def test_every_file_in_stacks_is_tested_above():
    assert packaged() == SHIPPED
    assert sorted(path.stem for path in STACKS.glob("*.yaml")) == packaged()


def test_a_packaged_stack_is_known_by_its_name_and_by_its_file_name():
    assert load("udp").layers == load("udp.xml").layers == load().layers


def test_the_two_sites_differ_in_site_and_multicast_port_only():
    nyc, sfo = load("nyc"), load("sfo")
    assert nyc.config_of("RELAY").site == "NYC"
    assert sfo.config_of("RELAY").site == "SFO"
    assert nyc.config_of("UDP").mcast_port != sfo.config_of("UDP").mcast_port
    assert [layer.config for layer in nyc.layers[1:-1]] == [layer.config for layer in sfo.layers[1:-1]]


@pytest.mark.parametrize(("sealed", "plain"), [
    ("sealed", "udp"), ("sealed-site", "nyc"), ("sealed-bridge", "bridge")])
def test_a_sealed_stack_is_the_unsealed_one_with_encrypt(sealed, plain):
    """But for where the bridge's file and the trust file of a site are."""
    ours, theirs = ([(layer.name, layer.config) for layer in load(STACKS / f"{name}.xml").layers]
                    for name in (sealed, plain))
    assert [name for name, _ in ours if name == "ENCRYPT"] == ["ENCRYPT"]
    for (name, config), (other, wanted) in zip([each for each in ours if each[0] != "ENCRYPT"], theirs, strict=True):
        assert name == other
        if name == "RELAY":
            config, wanted = (attrs.evolve(each, bridge_props="", trust="") for each in (config, wanted))
        assert config == wanted, name


def test_traffic_of_shipped_stacks_stays_on_this_host_unless_configured_otherwise():
    for name in packaged():
        transport = load(name).layers[0].config
        assert transport.bind_addr == "127.0.0.1"
        assert getattr(transport, "ip_ttl", 0) == 0


def test_properties_fill_the_stack_and_its_bridge():
    given = {"bind_addr": "127.0.0.2", "mcast_port": 45999, "bridge_port": "7950", "bridge_hosts": "127.0.0.2[7950]"}
    spec = load("nyc", given)
    assert (spec.layers[0].config.bind_addr, spec.layers[0].config.mcast_port) == ("127.0.0.2", 45999)
    bridge = bridge_loader(spec)(spec.config_of("RELAY").bridge_props)
    assert (bridge.layers[0].config.bind_addr, bridge.layers[0].config.bind_port) == ("127.0.0.2", 7950)
    assert spec.warnings == ()


# --- JGroups' own files ---------------------------------------------------------------------------------------------

@pytest.mark.parametrize("name", list(STOCK))
def test_a_stock_file_of_jgroups_loads_and_every_ignored_property_is_reported_once(name, tmp_path):
    write_all(tmp_path)
    spec = load(tmp_path / name)
    expected = ["TCP", "TCPPING", *UDP[2:]] if name.startswith("tcp") else UDP
    assert names(spec) == expected
    assert len(dict.fromkeys(spec.warnings)) == len(spec.warnings)
    assert any("thread_pool.min_threads has no meaning here" in warning for warning in spec.warnings)
    assert any("BARRIER is left out" in warning for warning in spec.warnings)
    for layer in spec.layers:
        assert layer.place.file.startswith(str(tmp_path))


def test_stock_values_arrive_in_our_units(tmp_path):
    write_all(tmp_path)
    udp, tcp = load(tmp_path / "udp-5.5.xml"), load(tmp_path / "tcp-5.5.xml", {"jgroups.tcp.port_range": 5})
    assert udp.config_of("UDP").mcast_port == 45588
    assert tcp.config_of("TCP").connect_timeout_ns == millis(300)
    assert tcp.config_of("TCPPING").port_range == 5


def test_an_include_that_is_not_beside_the_file_is_taken_from_the_package(tmp_path):
    write_all(tmp_path)
    (tmp_path / "udp-default.xml").unlink()
    spec = load(tmp_path / "udp-5.5.xml", {"bind_addr": "127.0.0.1"})
    assert spec.layers[0].config.bind_addr == "127.0.0.1"


def test_a_placeholder_without_value_and_default_leaves_the_property_at_its_default(tmp_path):
    write_all(tmp_path)
    spec = load(tmp_path / "tcp-5.0.xml")
    assert spec.config_of("TCP").external_addr == ""
    assert any("${jgroups.external_addr} has no value" in warning for warning in spec.warnings)


def test_full_class_names_of_java_are_accepted():
    spec = load([name.replace("GMS", "org.jgroups.protocols.pbcast.GMS") for name in UDP])
    assert names(spec) == UDP


# --- errors of one protocol -----------------------------------------------------------------------------------------

def broken(folder: Path, old: str, new: str, name: str = "udp.xml") -> str:
    """The errors of a shipped stack with one text replaced."""
    text = (STACKS / name).read_text(encoding="utf-8")
    assert old in text
    (folder / name).write_text(text.replace(old, new, 1), encoding="utf-8")
    return errors(folder / name).replace(str(folder) + "/", "")


def line_of(text: str, name: str = "udp.xml") -> int:
    return next(at for at, line in enumerate((STACKS / name).read_text(encoding="utf-8").splitlines(), 1)
                if text in line)


def test_an_unknown_property_names_file_line_nearest_name_and_what_is_allowed(tmp_path):
    error = broken(tmp_path, "mcast_port=", "mcast_prt=")
    assert error.startswith(f"udp.xml:{line_of('mcast_port=')}: UDP: unknown property 'mcast_prt'; "
                           "did you mean 'mcast_port'? (allowed: ")
    assert "ip_ttl" in error


def test_an_unknown_property_in_yaml_names_its_line_too(tmp_path):
    error = broken(tmp_path, "mcast_port:", "mcast_prt:", "udp.yaml")
    assert error.startswith(f"udp.yaml:{line_of('mcast_port:', 'udp.yaml')}: UDP: unknown property 'mcast_prt'; ")


def test_an_unknown_protocol_names_the_nearest_one(tmp_path):
    error = broken(tmp_path, "<UNICAST ", "<UNICATS ")
    assert error.startswith(f"udp.xml:{line_of('<UNICAST ')}: unknown protocol 'UNICATS'; did you mean 'UNICAST'?")


def test_a_protocol_of_jgroups_that_is_not_offered_is_reported_as_such(tmp_path):
    assert "CENTRAL_LOCK is a protocol of JGroups that is not offered here" in broken(
        tmp_path, "<FRAG ", "<CENTRAL_LOCK/><FRAG ")


@pytest.mark.parametrize(("old", "new", "text"), [
    ('ip_ttl="${ip_ttl,jgroups.udp.ip_ttl:0}"', 'ip_ttl="300"', "UDP: ip_ttl: '300' is out of range: 0 to 255"),
    ('timeout="5s"', 'timeout="5 parsecs"', "FD_ALL: timeout: '5 parsecs' is not a duration"),
    ('max_bytes="4M"', 'max_bytes="4X"', "STABLE: max_bytes: '4X' is not a size"),
    ('min_threshold="0.4"', 'min_threshold="1.4"', "MFC: min_threshold: '1.4' is outside 0 to 1"),
    ('ip_ttl="${ip_ttl,jgroups.udp.ip_ttl:0}"', 'ip_mcast="perhaps"', "UDP: ip_mcast: 'perhaps' is neither true"),
    ("239.8.8.8", "10.8.8.8", "UDP: mcast_addr '10.8.8.8' is not an IP multicast address"),
    ("239.8.8.8", "somewhere", "UDP: mcast_addr 'somewhere' is not an IP multicast address"),
    ('frag_size="60K"', 'frag_size="9e9"', "FRAG: frag_size: '9e9' is not a size"),
    ('frag_size="60K"', f'frag_size="{"9" * 400}"', "FRAG: frag_size: "),
    ("45588}", "45588", "UDP: mcast_port: a ${ is not closed"),
])
def test_a_wrong_value_names_line_property_value_and_what_is_allowed(tmp_path, old, new, text):
    error = broken(tmp_path, old, new)
    assert text in error
    assert error.startswith("udp.xml:")


def test_all_errors_of_a_file_are_shown_at_once(tmp_path):
    text = (STACKS / "udp.xml").read_text(encoding="utf-8")
    (tmp_path / "udp.xml").write_text(text.replace("mcast_port=", "mcast_prt=").replace("<GMS", "<GMZ"))
    with pytest.raises(StackError) as caught:
        load(tmp_path / "udp.xml")
    assert [problem.place.line for problem in caught.value.problems] == [line_of("mcast_port="), line_of("<GMS")]
    assert pickle.loads(pickle.dumps(caught.value)).problems == caught.value.problems


def test_a_property_given_under_two_of_its_names_is_an_error():
    assert "'ip_ttl' is given twice" in errors([("UDP", {"ip_ttl": 0, "mcast_ttl": 1}), *UDP[1:]])


# --- errors of the whole stack --------------------------------------------------------------------------------------

@pytest.mark.parametrize(("stack", "text"), [
    ([], "the stack is empty"),
    (UDP[1:], "PING stands first; a stack starts with a transport: UDP or TCP"),
    (["UDP", "TCP", *UDP[1:]], "TCP is a transport; it must be the first protocol"),
    ([*UDP, "UDP"], "UDP is a transport; it must be the first protocol"),
    (["UDP", "NAKACK", "GMS", "UNICAST"], "PING or TCPPING or DNS_PING or KUBE_PING or FILE_PING or PEX is missing"),
    (without("NAKACK", "STABLE"), "NAKACK is missing; without it multicasts would get lost"),
    (without("UNICAST"), "UNICAST is missing"),
    (without("GMS"), "GMS is missing; without it no group would be formed"),
    ([*UDP, "FRAG"], "FRAG is in the stack twice"),
    (["UDP", "PING", ("FILE_PING", {"location": "x"}), *UDP[2:]], "only one discovery protocol is allowed"),
    (["UDP", "PING", "GMS", *without("UDP", "PING", "GMS")], "GMS must stand above NAKACK (later in the file)"),
    (["UDP", *without("UDP", "PING"), "PING"], "GMS asks discovery, below it, for members"),
    (["UDP", "PING", "STABLE", *without("UDP", "PING", "STABLE")], "STABLE must stand above NAKACK"),
    (["UDP", "PING", "VERIFY_SUSPECT", "FD_ALL", *without("UDP", "PING", "VERIFY_SUSPECT", "FD_ALL")],
     "VERIFY_SUSPECT must stand above FD_ALL"),
    ([*without("FRAG", "MFC", "STATE_TRANSFER"), "FRAG", "MFC"], "FRAG must stand above MFC (later in the file)"),
    ([*without("FRAG", "STATE_TRANSFER"), "TOTAL", "FRAG"], "TOTAL must stand above FRAG (later in the file): it "
     "orders whole messages"),
    ([*UDP, "TOTAL"], "STATE_TRANSFER must stand above TOTAL"),
    ([*UDP, "SEQUENCER"], "STATE_TRANSFER must stand above TOTAL"),
    (["TCP", *UDP[1:]], "PING finds members by IP multicast, which TCP does not have"),
    ([("UDP", {"ip_mcast": False}), *UDP[1:]], "which UDP with ip_mcast=false does not have"),
    ([("UDP", {"max_bundle_size": "8K"}), *UDP[1:]], "FRAG: frag_size 60K leaves no room"),
    (["UDP", ("PING", 3)], "is not a protocol; write"),
    (["UDP", 3], "is not a protocol; write"),
])
def test_a_stack_that_could_not_work_is_refused_with_the_reason(stack, text):
    assert text in errors(stack)


def test_relay_below_another_layer_is_refused(tmp_path):
    text = (STACKS / "nyc.xml").read_text(encoding="utf-8").replace("    <FRAG frag_size=\"60K\"/>\n", "")
    (tmp_path / "nyc.xml").write_text(text.replace("</config>", "<FRAG/></config>"))
    assert "RELAY must stand above all others (last in the file), found FRAG above it" in errors(tmp_path / "nyc.xml")


@pytest.mark.parametrize(("stack", "text"), [
    (["UDP", "PING", ("ENCRYPT", {"keyring": "k"}), *UDP[2:]],
     "ENCRYPT must stand directly above UDP (second in the file), found PING (python) below it: its messages would not "
     "be encrypted"),
    ([*UDP, ("ENCRYPT", {"keyring": "k"})], "ENCRYPT must stand directly above UDP (second in the file), found "
     "STATE_TRANSFER"),
    (["MEMBERLIST", ("ENCRYPT", {"keyring": "k"}), "SWIM"],
     "ENCRYPT cannot stand on MEMBERLIST, which has a frame format of its own; allowed are UDP and TCP"),
    (["UDP", "ENCRYPT", *UDP[1:]], "ENCRYPT: keyring is empty: give the path of a file"),
    (["UDP", ("ENCRYPT", {"keyring": ""}), *UDP[1:]], "keyring is empty: give the path of a file"),
    (["UDP", ("ENCRYPT", {"keyring": "k", "mode": "clear"}), *UDP[1:]], "'clear' is not one of shared"),
    (["UDP", "SYM_ENCRYPT", *UDP[1:]], "SYM_ENCRYPT is a protocol of JGroups that is not offered here; write ENCRYPT "
     "directly above the transport, with keyring="),
    ([*UDP, ("org.jgroups.protocols.ASYM_ENCRYPT", {"encrypt_entire_message": "false"})],
     "whole frames are sealed and not payloads"),
    ([*UDP, "SSL_KEY_EXCHANGE"], "take it out: ENCRYPT needs no other protocol to exchange keys"),
    (["UDP", ("ENCRYPT", {"keyring": "k", "encrypt_entire_message": "false"}), *UDP[1:]],
     "unknown property 'encrypt_entire_message'"),
    (["UDP", ("ENCRYPT", {"keyring": "k", "key": "00ff"}), *UDP[1:]], "unknown property 'key'"),
])
def test_encrypt_must_stand_directly_above_a_transport_with_our_frames(stack, text):
    assert text in errors(stack)


def test_odd_but_possible_stacks_are_warned_of():
    spec = load([*without("FRAG", "STATE_TRANSFER"), "DISCARD"])
    assert any("without FRAG, messages above about" in warning for warning in spec.warnings)
    assert any("DISCARD stands above NAKACK" in warning for warning in spec.warnings)
    spec = load(without("FD_ALL", "FD_SOCK", "STABLE"))
    assert any("without FD_ALL and FD_SOCK and SWIM, a crashed member is never noticed" in warning
               for warning in spec.warnings)
    assert any("without STABLE, NAKACK keeps every multicast" in warning for warning in spec.warnings)


def test_credits_that_run_out_before_they_are_asked_for_are_warned_of():
    spec = load([*without("MFC", "FRAG", "STATE_TRANSFER"), ("MFC", {"max_credits": "100K", "min_threshold": 0.1}),
                 "FRAG"])
    assert any("a sender of large messages stops for a round trip" in warning for warning in spec.warnings)


# --- the bridge -----------------------------------------------------------------------------------------------------

def test_a_broken_bridge_is_found_when_the_site_is_loaded(tmp_path):
    (tmp_path / "nyc.xml").write_text((STACKS / "nyc.xml").read_text(encoding="utf-8"))
    (tmp_path / "bridge.xml").write_text("<config><TCP bind_prt='1'/></config>")
    error = errors(tmp_path / "nyc.xml")
    assert "nyc.xml:" in error
    assert "RELAY: bridge_props: " in error
    assert "bridge.xml:1: TCP: unknown property 'bind_prt'; did you mean 'bind_port'?" in error


@pytest.mark.parametrize(("auth", "trusted", "reason"), [
    ("", "false", "has no AUTH, so a relay"),
    ('<AUTH authority="psk" secret="bridge.secret"/>', "false", r'has AUTH authority="psk", whose members name'),
    ("", "true", ""),
    ('<AUTH identity="a.pem" trust="relays.json"/>', "false", ""),
])
def test_a_trust_file_is_refused_where_nothing_proves_of_which_site_a_relay_is(auth, trusted, reason, tmp_path):
    bridge = (STACKS / "sealed-bridge.xml").read_text(encoding="utf-8")
    (tmp_path / "sealed-bridge.xml").write_text(bridge.replace("<TCPPING", f"{auth}<TCPPING"))
    (tmp_path / "site.xml").write_text((STACKS / "sealed-site.xml").read_text(encoding="utf-8"))
    load(tmp_path / "site.xml", {"trusted_relays": trusted})                  # without a trust file nothing is claimed
    given = {"trust": "sites.trust", "trusted_relays": trusted}
    if not reason:
        assert load(tmp_path / "site.xml", given).config_of("RELAY").trust == "sites.trust"
        return
    with pytest.raises(ConfigError) as refused:
        load(tmp_path / "site.xml", given)
    assert re.search(r"site\.xml:\d+: RELAY: trust: the bridge sealed-bridge\.xml " + reason, str(refused.value))
    assert 'trusted_relays="true"' in str(refused.value)


def test_a_bridge_is_looked_for_beside_the_stack_file(tmp_path):
    text = (STACKS / "bridge.xml").read_text(encoding="utf-8").replace("7900", "7333")
    (tmp_path / "bridge.xml").write_text(text)
    assert resolve_bridge("bridge.xml", str(tmp_path)).layers[0].config.bind_port == 7333


def test_a_bridge_cannot_be_relayed_itself():
    with pytest.raises(ConfigError, match="RELAY in a bridge stack"):
        resolve_bridge("nyc.xml", str(STACKS))


# --- sources --------------------------------------------------------------------------------------------------------

def test_a_list_from_python_takes_names_pairs_mappings_and_configurations():
    stack = [("UDP", UdpConfig(mcast_port=4000)), "PING", {"MERGE3": {"min_interval": 500}}, *UDP[3:]]
    spec = load(stack)
    assert spec.config_of("UDP").mcast_port == 4000
    assert spec.config_of("MERGE3").min_interval_ns == seconds(0.5)          # as in a file: a bare number is ms
    assert names(spec) == UDP


def test_a_configuration_of_another_protocol_is_refused():
    error = errors([("UDP", TcpConfig()), *UDP[1:]])
    assert "UDP: a TcpConfig is not its configuration; it takes a UdpConfig" in error


def test_a_stack_spec_is_taken_as_it_is():
    spec = StackSpec((LayerSpec("UDP", UdpConfig()),))
    assert load(spec) is spec


@pytest.mark.parametrize(("source", "text"), [
    ("udq", "did you mean 'udp'?"),
    ("missing.xml", f"no such file; packaged stacks are {', '.join(SHIPPED)}"),
    ("stack.json", "neither a path that ends in .xml, .yaml or .yml"),
    ("\0.xml", "no such file"),
    ("", "neither a path"),
])
def test_a_source_that_does_not_exist_is_a_config_error(source, text):
    assert text in errors(source)


def test_a_property_that_no_file_mentions_is_warned_of():
    warning, = load([("UDP", {"mcast_port": "${mcast_port:1}"}), *UDP[1:]], {"mcast_prt": 1}).warnings[-1:]
    assert warning == ("python: property 'mcast_prt' is used nowhere; did you mean 'mcast_port'? (properties fill "
                       "${name}; names here: mcast_port)")


def test_includes_that_include_each_other_end_in_an_error(tmp_path):
    (tmp_path / "a.xml").write_text('<config><include file="b.xml"/></config>')
    (tmp_path / "b.xml").write_text('<config>\n<include file="a.xml"/></config>')
    assert "includes inside each other" in errors(tmp_path / "a.xml")


def test_an_include_that_is_missing_names_the_line_of_the_include(tmp_path):
    (tmp_path / "a.xml").write_text('<config>\n\n<include file="b.xml"/></config>')
    assert errors(tmp_path / "a.xml").startswith(f"{tmp_path}/a.xml:3: include: ")


@pytest.mark.parametrize("data", [b"\xff\xfe<", b"<config>\n\xe4</config>", b"x" * (loading.MAX_FILE_BYTES + 1)])
def test_a_file_that_is_no_text_of_reasonable_size_is_a_config_error(data, tmp_path):
    (tmp_path / "a.xml").write_bytes(data)
    assert errors(tmp_path / "a.xml").startswith(str(tmp_path))


def test_a_problem_shows_its_place():
    assert str(Problem(Place("a.xml", 3), "wrong")) == "a.xml:3: wrong"
    assert str(Problem(Place("python"), "wrong")) == "python: wrong"


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("name", ["udp.xml", "udp.yaml"])
def test_damaged_stack_files_give_a_stack_or_a_config_error_and_nothing_else(name):
    sample = (STACKS / name).read_bytes()
    rng = random.Random(11)
    for _ in range(1500):
        data = bytearray(sample)
        for _ in range(rng.randrange(1, 6)):
            at = rng.randrange(len(data))
            data[at:at + rng.randrange(4)] = rng.randbytes(rng.randrange(3)) if rng.random() < 0.5 else sample[
                (cut := rng.randrange(len(sample))):cut + rng.randrange(20)]
        with contextlib.suppress(ConfigError):
            parse(loading.decode(bytes(data), name), name)
