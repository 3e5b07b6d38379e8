"""A real member records: it is killed, its disk is full, pyarrow is missing."""
from __future__ import annotations

import json
import resource
from pathlib import Path

import pytest

pytest.importorskip("pyarrow")

from jgroups_py.archive.encryption import keys_of
from jgroups_py.archive.layout import recorders, segments
from jgroups_py.archive.reading import next_row, read_all
from jgroups_py.channel.sync import JChannel
from jgroups_py.cli import main
from jgroups_py.model.outputs import Record
from jgroups_py.wire import AppHeaders
from tests.integration.members import Event, Group, Member, free_ports
from tests.runtime.recorders import VIEW, A, closed, open_recorder, until

pytestmark = pytest.mark.real
UDP = Path(__file__).parents[2] / "stacks" / "udp.xml"
UNLIMITED = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)


def recording_stack(folder: Path, **properties: str) -> str:
    """The shipped stack, with ARCHIVE."""
    words = " ".join(f'{name}="{value}"' for name, value in properties.items())
    path = folder / "udp.xml"
    path.write_text(UDP.read_text().replace("</config>", f'<ARCHIVE directory="{folder}/archive" {words}/></config>'))
    return str(path)


def archive_stats(member: Member) -> dict[str, float]:
    return member.stats()["protocols"]["ARCHIVE"]


def archive_event(event: Event) -> bool:
    return event["event"] == "archive"


@pytest.mark.parametrize("encrypted", [False, True])
def test_a_killed_member_loses_at_most_what_was_not_synced(encrypted, tmp_path):
    directory, keyring = tmp_path / "archive", tmp_path / "archive.keys"
    assert main(["keys", "generate", "--keyring", str(keyring)]) == 0
    keys, option = (keys_of(keyring), ["--key-file", str(keyring)]) if encrypted else (None, [])
    properties = {"archive_keyring": str(keyring)} if encrypted else {}
    with Group(recording_stack(tmp_path, payload="true", fsync_interval="20ms", flush_interval="5ms",
                               **properties)) as group:
        [member] = group.start("A")
        member.command("flood 10000000 500 3000")
        while (synced := archive_stats(member)["synced_rows"]) < 1000:
            pass
        member.kill()
        member.process.wait(10)
        [crashed] = recorders(directory)
        rows = read_all(directory, keys=keys).to_pylist()
        assert [segment.sealed for segment in segments(directory, crashed)][-1:] == [False]
        assert len(rows) == next_row(directory, crashed) >= synced
        assert [row["row"] for row in rows] == list(range(len(rows)))
        delivered = [row for row in rows if row["kind"] == "delivered"]
        assert [row["seqno"] for row in delivered] == list(range(1, len(delivered) + 1))
        assert [int.from_bytes(row["payload"][:8], "big") for row in delivered] == list(range(len(delivered)))
    assert main(["archive", "verify", str(directory), "--seal", *option]) == 0
    assert [segment.sealed for segment in segments(directory, crashed)] == [True] * len(segments(directory, crashed))
    assert read_all(directory, keys=keys).to_pylist() == rows
    assert {segment.encrypted for segment in segments(directory, crashed)} == {encrypted}


def test_without_its_keyring_an_archive_is_not_begun(tmp_path):
    stack = recording_stack(tmp_path, archive_keyring=str(tmp_path / "none.keys"))
    with Group(stack) as group:
        error = group.spawn("A").wait(lambda event: event["event"] == "error", "error")
    assert "none.keys: No such file" in error["message"]
    assert not (tmp_path / "archive").exists()


def test_a_member_lives_on_when_its_disk_is_full_and_records_again(tmp_path):
    with Group(recording_stack(tmp_path, payload="true", flush_interval="5ms", compression="none")) as group:
        [member] = group.start("A")
        resource.prlimit(member.process.pid, resource.RLIMIT_FSIZE, (30_000, resource.RLIM_INFINITY))
        member.command("flood 200 1000")
        failed = member.wait(archive_event, "failure of the archive")
        assert "File too large" in failed["error"]
        since = member.mark()
        member.command("send still alive")
        member.wait(lambda event: event.get("payload") == "still alive", "message", since)
        resource.prlimit(member.process.pid, resource.RLIMIT_FSIZE, UNLIMITED)
        assert member.wait(archive_event, "recovery of the archive", since)["error"] == ""
        assert member.leave() == 0
    rows = read_all(tmp_path / "archive").to_pylist()
    for kind in ("sent", "delivered"):
        missed = sum(row["count"] for row in rows if row["kind"] == "gap" and f'"{kind}"' in row["detail"])
        assert missed + sum(row["kind"] == kind for row in rows) == 201
    assert rows[-1]["kind"] == "stop"


def test_without_pyarrow_a_member_does_not_start_and_names_the_missing_extra(tmp_path, monkeypatch):
    hidden = tmp_path / "hidden" / "pyarrow"
    hidden.mkdir(parents=True)
    (hidden / "__init__.py").write_text("raise ImportError(\"No module named 'pyarrow'\")")
    monkeypatch.setenv("PYTHONPATH", str(hidden.parent))
    with Group(recording_stack(tmp_path)) as group:
        error = group.spawn("A").wait(lambda event: event["event"] == "error", "error")
    assert "pip install 'jgroups_py[archive]'" in error["message"]


def test_replay_multicasts_what_was_recorded_with_payloads_and_headers_in_order(tmp_path, capsys):
    recorder, _ = open_recorder(tmp_path, payload=True)
    payloads = [str(number).encode() for number in range(500)]
    for at in range(0, 500, 50):
        recorder.put(Record("delivered", at, VIEW, 50, 1, A, None, "all", at + 1, None, 0, (AppHeaders({200: b"h"}),),
                            tuple(map(len, payloads[at:at + 50])), tuple(payloads[at:at + 50])))
    closed(recorder)
    port = str(free_ports(str(UDP))["mcast_port"])
    received: list[tuple[bytes, bytes]] = []
    with JChannel(str(UDP), name="L", properties={"mcast_port": port},
                  receiver=lambda message: received.append((message.payload, message.headers[200]))) as listener:
        listener.connect("again")
        assert main(["archive", "replay", str(tmp_path), "--cluster", "again", "--stack", str(UDP), "--speed", "max",
                     "-p", f"mcast_port={port}", "--json"]) == 0
        until(lambda: len(received) >= 500)
    assert received == [(payload, b"h") for payload in payloads]
    assert json.loads(capsys.readouterr().out)["messages"] == 500
