"""Bundles for bug reports: what is in them, what never is, and who did not answer."""
from __future__ import annotations

import base64
import json
import os
import re
import signal
import socket
import stat
import threading
import time
import zipfile
from pathlib import Path
from typing import Any

import pytest

from jgroups_py.cli import bundle, main
from jgroups_py.sealing.keyring import new_keyring
from tests.integration.members import Group
from tests.integration.serf_agent import until

pytestmark = pytest.mark.real
SEALED = Path(__file__).parents[2] / "stacks" / "sealed.xml"
TOKEN, PAYLOAD, VARIABLE = "planted-token-of-the-endpoint", "planted-payload", "planted-variable"
IP = re.compile(r"\b\d{1,3}(?:\.\d{1,3}){3}\b|[0-9a-f]*::[0-9a-f]+")
MARGIN_SECONDS = 3.0                        # the start of threads and files on a busy machine


def private(path: Path, text: str) -> Path:
    path.touch(0o600)
    path.write_text(text)
    return path


def read(path: Path) -> dict[str, Any]:
    with zipfile.ZipFile(path) as files:
        assert files.testzip() is None
        return {name: json.loads(files.read(name)) for name in files.namelist()}


def states(documents: dict[str, Any]) -> dict[str, str]:
    return {member["name"].partition("@")[0]: member["state"] for member in documents["survey.json"]["members"]}


@pytest.fixture
def sealed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A, B and C with ENCRYPT, AUTH and an endpoint that asks for a token; and all their secrets."""
    keys = [os.urandom(32), os.urandom(32)]
    keyring, psk = (private(tmp_path / name, new_keyring(key).as_text())
                    for name, key in zip(("group.keys", "auth.keys"), keys, strict=True))
    token = private(tmp_path / "http.token", TOKEN)
    stack = tmp_path / "stack.xml"
    stack.write_text(SEALED.read_text().replace("<PING/>", f'<AUTH authority="psk" secret="{psk}"/><PING/>'))
    monkeypatch.setenv("PLANTED", VARIABLE)
    secrets = [TOKEN, PAYLOAD, VARIABLE, *(text for key in keys for text in (
        key.hex(), base64.b64encode(key).decode(), base64.urlsafe_b64encode(key).decode().rstrip("=")))]
    with Group(str(stack), keyring=str(keyring)) as group:
        for name in "ABC":
            group.spawn(name, ["--control", str(tmp_path / f"{name}.sock"), "--http", "0",
                               "--http-token-file", str(token)]).ready()
        group.settle("ABC")
        yield group, secrets


@pytest.mark.parametrize("way", ["control", "http"])
def test_a_bundle_has_all_reports_and_no_secret_and_names_a_frozen_member(
    sealed: tuple[Group, list[str]], tmp_path: Path, capsys: pytest.CaptureFixture[str], way: str,
):
    group, secrets = sealed
    where = ["--control", str(tmp_path / "A.sock")] if way == "control" else \
        ["--http", group["A"].ready()["http"], "--http-token-file", str(tmp_path / "http.token")]
    group["A"].command(f"send {PAYLOAD}")
    group["B"].wait(lambda event: PAYLOAD in json.dumps(event), "the planted payload")
    out = tmp_path / "whole.zip"
    until(lambda: main(["bundle", *where, "-o", str(out)]) == 0
          and (set(states(read(out)).values()) == {"alive"} or out.unlink()), "all answer")
    documents = read(out)
    assert stat.S_IMODE(out.stat().st_mode) == 0o600
    assert documents["manifest.json"]["members_without_answer"] == []
    assert states(documents) == dict.fromkeys("ABC", "alive")
    properties = {each["protocol"]: each["properties"] for each in documents["stack.json"]["protocols"]}
    assert properties["AUTH"]["secret"] == "***", "the place of the secret is masked, too"
    assert properties["GMS"]["join_timeout"] == "500ms", "and what is no secret is not"
    assert documents["stack.json"]["running"]["python"].startswith("3.")
    assert documents["stats.json"]["stats"]["NAKACK"], "the member's counters are there"
    assert len(documents["members.json"]["members"]) == 3
    assert "RELAY" in documents["sites.json"].get("error", ""), "why there are no sites"
    assert ("events.json" in documents) == (way == "http")
    if way == "http":
        assert "view" in [event["event"] for event in documents["events.json"]["events"]]
    text = capsys.readouterr().out + json.dumps(documents)
    assert [secret for secret in secrets if secret in text] == []

    assert main(["bundle", *where, "--redact", "-o", str(tmp_path / "redacted.zip")]) == 0
    redacted = read(tmp_path / "redacted.zip")
    assert not IP.search(json.dumps(redacted))
    assert {each["protocol"]: each["properties"] for each in redacted["stack.json"]["protocols"]}["UDP"][
        "bind_addr"] == "loopback-1"
    assert IP.search(json.dumps(documents)), "without the option they are there"
    assert redacted.keys() == documents.keys()
    assert redacted["survey.json"].keys() == documents["survey.json"].keys(), "nothing else is taken away"

    os.kill(group["C"].process.pid, signal.SIGSTOP)
    try:
        time.sleep(0.6)                                      # the last survey is not shared any more
        began = time.monotonic()
        assert main(["bundle", *where, "-o", str(tmp_path / "frozen.zip")]) == 0
        assert time.monotonic() - began < bundle.SECONDS + MARGIN_SECONDS
        assert "no answer: C" in capsys.readouterr().out
        frozen = read(tmp_path / "frozen.zip")
        assert [each["name"] for each in frozen["manifest.json"]["members_without_answer"]] == ["C"]
        assert states(frozen) == {"A": "alive", "B": "alive", "C": "no answer"}
        if way == "control":
            began = time.monotonic()
            assert main(["bundle", "--control", str(tmp_path / "C.sock"), "-o", str(tmp_path / "none.zip")]) == 2
            assert time.monotonic() - began < bundle.SECONDS + MARGIN_SECONDS
            assert "did not answer" in capsys.readouterr().err
            assert not (tmp_path / "none.zip").exists(), "nothing is written when the asked member is frozen"
    finally:
        os.kill(group["C"].process.pid, signal.SIGCONT)


def test_what_cannot_be_done_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    def refused(*arguments: str) -> str:
        assert main(["bundle", *arguments]) == 2
        return capsys.readouterr().err
    out, there = str(tmp_path / "b.zip"), tmp_path / "there.zip"
    there.write_text("mine")
    gone = str(tmp_path / "gone.sock")
    assert "give --control PATH or --http URL" in refused("-o", out)
    assert f"no member listens at {gone}: No such file" in refused("--control", gone, "-o", out)
    assert "exists; name another file" in refused("--control", gone, "-o", str(there))
    assert there.read_text() == "mine"
    assert "write http://HOST:PORT" in refused("--http", "http://me:secret@127.0.0.1:1", "-o", out)
    assert "No such file" in refused("--http", "127.0.0.1:1", "--http-token-file", gone, "-o", out)
    assert "no endpoint of a member answers at http://127.0.0.1:1" in refused("--http", "127.0.0.1:1", "-o", out)
    assert not Path(out).exists()


def test_what_listens_and_is_no_member_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
        listening.bind(str(tmp_path / "other.sock"))
        listening.listen()

        def answer() -> None:
            client, _ = listening.accept()
            with client:
                client.recv(100)
                client.sendall(b"[1]\n")
        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        assert main(["bundle", "--control", str(tmp_path / "other.sock"), "-o", str(tmp_path / "b.zip")]) == 2
        assert "is no member" in capsys.readouterr().err
        thread.join(10)


def test_a_document_above_the_bound_is_replaced_by_its_size():
    documents: dict[str, Any] = {"stack.json": {"protocols": "x" * bundle.FILE_BYTES}, "stats.json": {"stats": {}}}
    assert len(bundle.packed(documents)) < bundle.FILE_BYTES
    assert "are the most" in documents["stack.json"]["error"]
    assert documents["stats.json"] == {"stats": {}}
