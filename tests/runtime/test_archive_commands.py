"""`jgroups archive`: what it prints, what it finds wrong, what it would send."""
import json
from argparse import ArgumentTypeError
from pathlib import Path

import pytest

pytest.importorskip("pyarrow")

from jgroups_py.archive.layout import recorders, segments
from jgroups_py.archive.segment import OpenFile
from jgroups_py.channel.message import MessageBatch
from jgroups_py.cli import main
from jgroups_py.cli.archive import replay as replay_module
from jgroups_py.cli.archive.cat import rows_by_time
from jgroups_py.cli.archive.command import speed
from jgroups_py.cli.archive.replay import ReplayTally, best_recorders, wanted_rows
from jgroups_py.cli.archive.times import moment
from jgroups_py.config.load import load
from jgroups_py.config.spec import StackSpec
from jgroups_py.model.batch import Batch
from jgroups_py.model.outputs import Record
from jgroups_py.wire.topic_headers import topic_header
from tests.runtime.recorders import VIEW, A, closed, message, open_recorder, until

B_HEX = "b" * 32


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """A recorded ten messages of its own; B came later and has the last four, and one of a block."""
    recorder, _ = open_recorder(tmp_path, "A", A.raw.hex(), payload=True)
    recorder.put(message(1, 10, size=4))
    closed(recorder)
    recorder, _ = open_recorder(tmp_path, "B", B_HEX, payload=True)
    recorder.put(message(7, 4, size=4))
    recorder.put(Record("lost", 1, VIEW, count=3, origin=A, stream="all", first=11))
    closed(recorder)
    return tmp_path


def run(*words: object) -> int:
    return main(["archive", *map(str, words)])


def test_ls_shows_each_recorder(archive, capsys):
    assert run("ls", archive, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert [(each["recorder"]["member"], each["state"], each["stop"], each["segments"]) for each in found] == [
        ("A", "ended", 12, 1), ("B", "ended", 7, 1)]
    assert run("ls", archive) == 0
    assert "demo: A 00010203" in capsys.readouterr().out


def test_ls_distinguishes_recorders_that_run_from_those_that_crashed(tmp_path, capsys):
    living, _ = open_recorder(tmp_path)
    assert run("ls", tmp_path, "--json") == 0
    assert [each["state"] for each in json.loads(capsys.readouterr().out)] == ["recording"]
    closed(living)
    [recorder] = recorders(tmp_path)
    crashed = OpenFile(tmp_path, recorder, 100, 10**18, 0)
    crashed.close()
    assert run("ls", tmp_path, "--json") == 0
    assert [each["state"] for each in json.loads(capsys.readouterr().out)] == ["crashed"]


def test_verify_finds_nothing_in_a_whole_archive(archive, capsys):
    assert run("verify", archive, "--complete") == 0
    assert capsys.readouterr().out.endswith("whole: 2 recorders, 19 rows, 0 messages dropped by recorders\n")


def test_verify_finds_a_flipped_bit_in_a_sealed_segment(archive, capsys):
    path = segments(archive, recorders(archive)[0])[0].path
    data = bytearray(path.read_bytes())
    data[200] ^= 1
    path.write_bytes(data)
    assert run("verify", archive, "--json") == 1
    first, second = json.loads(capsys.readouterr().out)["recorders"]
    assert (first["whole"], second["whole"]) == (False, True)
    assert first["problems"] or first["missing"]


def test_verify_finds_a_segment_that_is_gone(tmp_path, capsys):
    recorder, _ = open_recorder(tmp_path, segment_age_ns="1s")
    until(lambda: recorder.stats()["segments"])
    recorder.put(message(1))
    recorder.put(message(11))
    closed(recorder)
    first, second = segments(tmp_path, recorder.identity)
    OpenFile(tmp_path, recorder.identity, second.stop + 5, 10**18, 0).close()
    second.path.unlink()
    assert run("verify", tmp_path, "--json") == 1
    [found] = json.loads(capsys.readouterr().out)["recorders"]
    assert found["missing"] == [[first.stop, second.stop + 5]]


def test_verify_lists_gaps_and_fails_for_them_only_on_request(tmp_path, capsys):
    recorder, _ = open_recorder(tmp_path)
    recorder.put(Record("gap", 1, VIEW, count=7, origin=A, first=1, detail={"of": "sent", "why": "slow"}))
    closed(recorder)
    assert run("verify", tmp_path) == 0
    assert "7 messages dropped by the recorder" in capsys.readouterr().out
    assert run("verify", tmp_path, "--complete") == 1


def test_verify_seals_what_a_crash_left_open(tmp_path, capsys):
    recorder, _ = open_recorder(tmp_path)
    closed(recorder)
    [recorder] = recorders(tmp_path)
    from jgroups_py.archive.rows import lines_of
    file = OpenFile(tmp_path, recorder, 2, 10**18, 0)
    file.append(lines_of([message(1)], 2, 0).serialize(), 10)
    file.close()
    with file.segment.path.open("ab") as torn:
        torn.write(b"torn")
    assert run("verify", tmp_path) == 0
    assert "4 bytes of unfinished rows, after a crash" in capsys.readouterr().out
    assert run("verify", tmp_path, "--seal") == 0
    assert [segment.sealed for segment in segments(tmp_path, recorder)] == [True, True]


def test_cat_prints_rows_of_all_recorders_by_time(archive, capsys):
    assert run("cat", archive) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 19
    assert any("lost        A:all 11 to 14" in line for line in lines)
    assert run("cat", archive, "--json", "--kind", "delivered", "--only", "member=B", "--limit", 2) == 0
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(row["member"], row["seqno"], row["payload"]) for row in found] == [
        ("B", 7, "AAAAAA=="), ("B", 8, "AAAAAA==")]


def test_cat_shows_a_part_of_the_time(archive, capsys):
    rows = list(rows_by_time(archive, recorders(archive)))
    begin_ns, end_ns = rows[1]["wall_ns"], rows[-1]["wall_ns"]
    part = list(rows_by_time(archive, recorders(archive), begin_ns, end_ns))
    assert part == [row for row in rows if begin_ns <= row["wall_ns"] < end_ns]
    assert run("cat", archive, "--from", "2100-01-01") == 0
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("words", [["ls", "/no/archive"], ["ls", "DIR", "--only", "member=C"]])
def test_an_archive_that_is_none_is_wrong_use(archive, words, capsys):
    assert run(*[archive if word == "DIR" else word for word in words]) == 2
    assert "contains no archive" in capsys.readouterr().err


@pytest.mark.parametrize(("parse", "text"), [(moment, "noon"), (speed, "0x"), (speed, "fast")])
def test_bad_times_and_speeds_are_errors_that_name_what_is_allowed(parse, text):
    with pytest.raises(ArgumentTypeError, match=f"{text}.*write"):
        parse(text)


# --- replay: what is sent ---------------------------------------------------------------------------------------------

def chosen(archive: Path) -> tuple[list[dict], ReplayTally]:
    tally, found = ReplayTally(), recorders(archive)
    rows = rows_by_time(archive, found, kinds=("delivered",))
    return list(wanted_rows(rows, best_recorders(archive, found), tally)), tally


def test_replay_takes_each_message_once_from_the_recorder_with_most_of_the_sender(archive):
    rows, _ = chosen(archive)
    assert [(row["member"], row["seqno"]) for row in rows] == [("A", number) for number in range(1, 11)]


def test_replay_prefers_the_senders_own_record(tmp_path):
    for member, incarnation in (("B", "0" * 32), ("A", A.raw.hex()), ("C", "f" * 32)):
        recorder, _ = open_recorder(tmp_path, member, incarnation, payload=True)
        recorder.put(message(1, 3, size=4))
        closed(recorder)
    rows, _ = chosen(tmp_path)
    assert [row["member"] for row in rows] == ["A"] * 3


def test_replay_leaves_out_unicasts_blocks_and_what_has_no_payload(tmp_path):
    from jgroups_py.wire.block_headers import OneWayRequest
    recorder, _ = open_recorder(tmp_path, payload=True)
    recorder.put(message(1, 2, size=4))
    recorder.put(message(3, 5))
    recorder.put(Record("delivered", 9, VIEW, rows=3, origin=A, stream="all", first=8, sizes=1,
                        headers=(OneWayRequest(1),), payloads=(b"x",) * 3))
    recorder.put(Record("delivered", 9, VIEW, origin=A, stream="unicast", dest=A, first=1, sizes=1, payloads=(b"u",)))
    recorder.put(Record("delivered", 9, VIEW, origin=A, stream="all", first=11, sizes=1, payloads=(b"t",),
                        headers=(topic_header("orders"),)))
    closed(recorder)
    rows, tally = chosen(tmp_path)
    assert [(row["seqno"], row["topic"]) for row in rows] == [(1, None), (2, None), (11, "orders")]
    assert (tally.of_blocks, tally.without_payload) == (3, 5)


class Clock:
    """Stands in for `monotonic` and `sleep`: sleeping is all that takes time."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        self.slept: list[float] = []
        monkeypatch.setattr(replay_module, "monotonic", lambda: self.now)
        monkeypatch.setattr(replay_module, "sleep", self.sleep)

    def sleep(self, duration: float) -> None:
        self.slept.append(round(duration, 6))
        self.now += duration


class EchoChannel:
    """A channel whose messages come back at once."""

    address = A
    receiver: replay_module.Sender

    def __init__(self, spec: StackSpec) -> None:
        self.spec = spec
        self.sent: list[tuple[tuple[bytes, ...], str | None]] = []

    def send_batch(self, dest, payloads, flags, headers) -> None:
        self._echo(tuple(payloads), None)

    def send(self, dest, payload, flags, headers, topic) -> None:
        self._echo((payload,), topic)

    def _echo(self, payloads: tuple[bytes, ...], topic: str | None) -> None:
        self.sent.append((payloads, topic))
        self.receiver.receive_batch(MessageBatch(Batch(A, None, payloads, (), 0)))


def row(wall_ns: int, payload: bytes, topic: str | None = None) -> dict:
    return {"wall_ns": wall_ns, "payload": payload, "headers": None, "flags": 0, "topic": topic}


@pytest.mark.parametrize(("rate", "slept"), [(1.0, [0.0, 2.0, 1.0]), (2.0, [0.0, 1.0, 0.5]), (0.0, [])])
def test_replay_keeps_the_pace_of_the_record_or_as_many_times_it(monkeypatch, rate, slept):
    clock, channel = Clock(monkeypatch), EchoChannel(load("udp"))
    sender = replay_module.Sender(channel, rate)
    sender.send([row(10**18, b"a"), row(10**18, b"b"), row(10**18 + 2 * 10**9, b"c"), row(10**18 + 3 * 10**9, b"d")])
    assert clock.slept == slept
    assert [payloads for payloads, _ in channel.sent] == [(b"a", b"b"), (b"c",), (b"d",)]
    assert (sender.tally.messages, sender.tally.arrived, sender.tally.payload_bytes) == (4, 4, 4)


@pytest.mark.parametrize(("stack", "topic"), [("topics", "orders"), ("udp", None)])
def test_replay_publishes_on_the_topic_if_the_stack_has_topics(stack, topic):
    channel = EchoChannel(load(stack))
    replay_module.Sender(channel, 0.0).send([row(1, b"a", "orders")])
    assert channel.sent == [((b"a",), topic)]
