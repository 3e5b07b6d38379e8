"""jgroups lint, draw, props."""
import argparse
import json
from pathlib import Path

import pytest

from jgroups_py.cli import draw, lint, props
from jgroups_py.protocols import KNOWN

STACKS = Path(__file__).parents[3] / "stacks"


def run(*words: str) -> int:
    """The exit code of a command line."""
    parser = argparse.ArgumentParser()
    commands = parser.add_subparsers(required=True)
    for module in (draw, lint, props):
        module.add_parser(commands)
    args = parser.parse_args(words)
    return int(args.run(args))


@pytest.mark.parametrize("name", ["udp", "tcp", "nyc", "sfo", "bridge"])
def test_lint_finds_the_shipped_stacks_right(name, capsys):
    assert run("lint", name) == 0
    assert "right: " in capsys.readouterr().out


def test_lint_shows_every_error_with_its_line_and_exits_1(tmp_path, capsys):
    (tmp_path / "a.xml").write_text("<config>\n<UDP mcast_prt='1'/>\n<PONG/></config>")
    assert run("lint", str(tmp_path / "a.xml")) == 1
    printed = capsys.readouterr().out
    assert f"{tmp_path}/a.xml:2: error: UDP: unknown property 'mcast_prt'; did you mean 'mcast_port'?" in printed
    assert f"{tmp_path}/a.xml:3: error: unknown protocol 'PONG'; did you mean 'PING'?" in printed
    assert "wrong: 2 errors, 0 warnings" in printed


def test_lint_json_is_one_document(tmp_path, capsys):
    assert run("lint", "--json", "-p", "mcast_prt=1", "udp") == 0
    report = json.loads(capsys.readouterr().out)
    assert report["ok"]
    assert report["layers"][0] == "UDP"
    assert "property 'mcast_prt' is used nowhere" in report["warnings"][0]
    assert run("lint", "--json", "nothing.xml") == 1
    assert json.loads(capsys.readouterr().out)["errors"][0]["file"] == "nothing.xml"


def test_draw_shows_layers_from_the_top_with_what_each_adds(capsys):
    assert run("draw", str(STACKS / "udp.xml"), "-p", "ip_ttl=3") == 0
    printed = capsys.readouterr().out
    positions = [printed.index(f"+-- {name} ") for name in ("STATE_TRANSFER", "GMS", "NAKACK", "PING", "UDP")]
    assert positions == sorted(positions)
    assert "ip_ttl=3 (not 0)" in printed
    assert "DigestSource" in printed
    assert "(id 8)" in printed
    assert "ViewChange" in printed


def test_draw_shows_the_bridge_too(capsys):
    assert run("draw", "--json", "nyc") == 0
    document = json.loads(capsys.readouterr().out)
    assert [stack["layers"][0]["name"] for stack in document] == ["RELAY", "FRAG"]
    assert document[0]["layers"][0]["properties"]["site"] == ["NYC", None]


def test_draw_of_a_wrong_stack_exits_1(capsys):
    assert run("draw", "udq") == 1
    assert "did you mean 'udp'?" in capsys.readouterr().err


def test_props_lists_every_protocol(capsys):
    assert run("props", "--json") == 0
    assert [doc["name"] for doc in json.loads(capsys.readouterr().out)] == list(KNOWN)


def test_props_of_one_protocol_by_a_name_that_jgroups_uses(capsys):
    assert run("props", "TCP_NIO2") == 0
    printed = capsys.readouterr().out
    assert printed.startswith("TCP\n")
    assert "sock_conn_timeout   default 2s   (time, like" in printed


def test_props_of_a_typo_names_the_nearest_protocol_and_exits_2(capsys):
    assert run("props", "NAKAKK") == 2
    assert "did you mean 'NAKACK'?" in capsys.readouterr().err


def test_props_of_a_protocol_that_is_left_out_gives_the_reason(capsys):
    assert run("props", "BARRIER") == 0
    assert "left out" in capsys.readouterr().out


@pytest.mark.parametrize(("stack", "properties", "codes"), [
    ("udp", {}, []), ("udp", {"bind_addr": "10.0.0.1"}, ["W-SEC1"]), ("tcp", {"bind_addr": "site_local"}, ["W-SEC1"]),
    ("sealed", {"bind_addr": "10.0.0.1"}, []), ("nyc", {"bridge_addr": "10.0.0.1"}, ["W-SEC2"]),
    ("nyc", {"bind_addr": "10.0.0.1"}, ["W-SEC1", "W-SEC2"]), ("sealed-site", {"bind_addr": "10.0.0.1"}, ["W-SEC3"]),
    ("sealed-site", {"bridge_props": "bridge.xml"}, ["W-SEC2"]), ("udp", {"bind_addr": "127.0.0.2"}, []),
])
def test_lint_warns_of_what_leaves_this_host_in_clear(stack, properties, codes):
    report = lint.check(stack, properties)
    assert report["ok"]
    assert [warning.partition(":")[0] for warning in report["warnings"]] == codes


def test_lint_has_no_warning_of_a_sealed_bridge_with_auth(tmp_path):
    bridge, text = tmp_path / "bridge.xml", (STACKS / "sealed-bridge.xml").read_text()
    assert text.count("<TCPPING") == 1
    bridge.write_text(text.replace("<TCPPING", '<AUTH identity="relay.pem" trust="known.json"/><TCPPING'))
    report = lint.check("sealed-site", {"bind_addr": "10.0.0.1", "bridge_props": str(bridge)})
    assert (report["errors"], report["warnings"]) == ([], [])
