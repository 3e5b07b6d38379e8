"""`jgroups counters`: what it lists, and how."""
from __future__ import annotations

import json

import pytest

from jgroups_py.cli import main


def shown(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["counters", *arguments]) == 0
    return capsys.readouterr().out


def test_a_protocol_is_found_by_the_names_that_files_use(capsys) -> None:
    text = shown(capsys, "nakack")
    assert text == shown(capsys, "pbcast.NAKACK2")
    assert text.startswith("NAKACK\n")
    assert "old_view_dropped   (drop)\n" in text
    assert "Messages of an earlier view." in text


def test_json_has_name_kind_and_documentation(capsys) -> None:
    (section,) = json.loads(shown(capsys, "TCP", "--json"))
    found = {one["name"]: (one["kind"], one["doc"]) for one in section["counters"]}
    assert found["not_connected_dropped"] == ("drop", "Frames that waited too long for a connection.")
    assert found["malformed_dropped"][0] == "drop"
    assert found["frames_sent"] == ("figure", "Frames sent.")


def test_all_are_listed_and_the_parts_that_are_no_protocols_too(capsys) -> None:
    sections = [section["name"] for section in json.loads(shown(capsys, "--json"))]
    assert {"UDP", "GMS", "RELAY", "EXAMPLE", "channel", "rpc", "shared table"} <= {*sections}


def test_a_protocol_from_outside_is_shown_as_it_declares(capsys) -> None:
    assert "late_replies   (drop)" in shown(capsys, "jgroups_py.protocols.example.Example")


@pytest.mark.parametrize("name", ["NAKAKK", "no.such.module.Class"])
def test_an_unknown_name_is_wrong_use(capsys, name: str) -> None:
    assert main(["counters", name]) == 2
    assert "jgroups counters: " in capsys.readouterr().err
