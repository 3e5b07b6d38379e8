"""Texts of others: which names are taken, and that none of them steers a terminal or forges a line of a log."""
from __future__ import annotations

import contextlib
import json
import logging

import pytest

import jgroups_py as jg
from jgroups_py.cli import main, members, site
from jgroups_py.cli.showing import complain, show
from jgroups_py.config.load import load
from jgroups_py.model.errors import ConfigError
from jgroups_py.model.text import escaped, is_host, is_name, is_plain
from jgroups_py.protocols.fd_sock.protocol import FdSockConfig
from jgroups_py.protocols.transport.protocol import TcpConfig
from jgroups_py.system import logs

EVIL = "\x1b[31mRED\x1b]0;title\x07\nforged\u202egpj"
SHOWN = "\\x1b[31mRED\\x1b]0;title\\x07\\x0aforged\\u202egpj"


def test_what_steers_a_terminal_is_shown_as_its_number():
    assert escaped(EVIL) == SHOWN
    assert is_plain(SHOWN)
    assert escaped("half \ud800 a pair") == "half \\ud800 a pair"
    assert escaped("Zoë 👩\u200d🚀 名前") == "Zoë 👩\u200d🚀 名前"


@pytest.mark.parametrize("code", [*range(0x20), *range(0x7F, 0xA0), 0x061C, 0x200E, 0x200F, *range(0x2028, 0x202F),
                                  *range(0x2066, 0x206A), 0xD800, 0xDFFF])
def test_no_name_has_a_character_that_steers(code):
    assert not is_name(f"a{chr(code)}b")
    assert is_plain(escaped(chr(code)))


def test_names_have_1_to_255_bytes():
    assert [is_name(name) for name in ("", "x", "x" * 255, "x" * 256, "é" * 127, "é" * 128)] == [
        False, True, True, False, True, False]


def test_a_members_own_names_obey_the_rules_for_those_of_others():
    with pytest.raises(ValueError, match="no control characters"):
        jg.JChannel("udp", name=EVIL)
    with pytest.raises(ConfigError, match="no name"):
        load("nyc", {"site": "NY\nC"})


def test_an_external_address_that_others_would_refuse_is_a_wrong_configuration():
    for config in (TcpConfig, FdSockConfig):
        assert config(external_addr="node-1.example").external_addr == "node-1.example"
        with pytest.raises(ConfigError, match="neither an IP address nor"):
            config(external_addr="not a host")
    assert is_host("node_1")


def test_subcommands_show_no_raw_text(capsys):
    show(EVIL, "second")
    complain(EVIL)
    out, err = capsys.readouterr()
    assert (out, err) == (f"{SHOWN}\nsecond\n", f"{SHOWN}\n")


def test_members_of_any_name_keep_their_line_and_column():
    member = {"name": EVIL, "address": "", "state": EVIL, "incarnation": None, "tags": {EVIL: EVIL}, "rtt_ms": None}
    text = members.as_text({"view": EVIL, "cluster": "c", "member": EVIL, "members": [member]})
    assert len(text.split("\n")) == 3
    assert all(map(is_plain, text.split("\n")))


def test_sites_of_any_name_keep_their_line():
    figures = dict.fromkeys((*site.FIGURES, "draining", "forbidden", "on_hold"), 0)
    row = {**figures, "status": EVIL, "status_there": EVIL, "members": [EVIL], "origins": [{**figures, "origin": EVIL}]}
    text = site.as_text({"site": EVIL, "member": EVIL, "relay": EVIL, "held_messages": 0, "held_bytes": 0,
                         "hold_limit_bytes": 1, "sites": {EVIL: row}}, origins=True)
    assert len(text.split("\n")) == 4
    assert all(map(is_plain, text.split("\n")))


@pytest.mark.parametrize("words", [
    ["lint", "{file}"], ["draw", "{file}"], ["props", EVIL], ["props", f"a.{EVIL}"],
    ["member", "--stack", "{file}", "--cluster", "c"], ["bench", "multicast", "--stack", "{file}"],
])
def test_texts_of_stack_files_and_arguments_steer_no_terminal(words, tmp_path, capsys):
    file = tmp_path / f"{EVIL}.yaml"
    file.write_text(f"- UDP: {{mcast_addr: {json.dumps(EVIL)}}}\n- PING: {{}}\n- {json.dumps(EVIL)}: {{}}\n",
                    encoding="utf-8")
    with contextlib.suppress(SystemExit):
        main([word.replace("{file}", str(file)) for word in words])
    out, err = capsys.readouterr()
    assert "RED" in out + err
    assert all(map(is_plain, (out + err).split("\n")))
    assert not any(line.startswith("forged") for line in (out + err).split("\n"))


def test_an_event_is_one_line(capsys, monkeypatch):
    facts = {"event": "failed", "name": EVIL, "tags": {"a": EVIL}, "evidence": [EVIL]}
    monkeypatch.setattr("jgroups_py.cli.events.follow", lambda _: [facts])
    assert main(["events", "--control", "x"]) == 0
    line = capsys.readouterr().out.removesuffix("\n")
    assert line.count("forged") == 3
    assert is_plain(line)


def test_a_log_record_is_one_line_and_others_keep_their_arguments(caplog):
    log = logging.getLogger("jgroups_py")
    log.warning("%s joined", EVIL)
    log.warning("%s joined", "B")
    broken = logging.LogRecord("jgroups_py", logging.WARNING, "", 0, "%d", ("no number",), None)
    assert logs.OneLine().filter(broken)                     # the handler reports it, as ever
    first, second = caplog.records[:2]
    assert first.getMessage() == f"{SHOWN} joined"
    assert (second.msg, second.args) == ("%s joined", ("B",))
