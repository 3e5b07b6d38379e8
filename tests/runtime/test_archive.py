"""A channel with ARCHIVE: its end waits for the archive, and with on_slow=block its senders wait for the disk."""
from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import attrs
import pytest

pytest.importorskip("pyarrow")

import jgroups_py as jg
from jgroups_py.archive import recorder as recorder_module
from jgroups_py.archive.layout import recorders, segments
from jgroups_py.archive.reading import read_all
from jgroups_py.channel.aio import AsyncChannel
from jgroups_py.config.spec import LayerSpec
from jgroups_py.protocols.archive import Archive, ArchiveConfig
from jgroups_py.system.free_ports import free_range
from tests.runtime.helpers import PATIENCE_SECONDS, eventually
from tests.runtime.solo import Solo, SoloSpec, udp

pytestmark = pytest.mark.real


@attrs.frozen
class RecordedSolo(SoloSpec):
    """UDP, Solo, and ARCHIVE above them."""

    archive: ArchiveConfig | None = None

    def build(self):
        return [*super().build(), Archive(self.archive)]


def recorded(directory: Path, **settings) -> RecordedSolo:
    spec = udp(Solo, mcast_port=free_range())
    config = ArchiveConfig(directory=str(directory), payload=True, **settings)
    return RecordedSolo((*spec.layers, LayerSpec("ARCHIVE", config))[:1], archive=config)


def delivered(directory: Path) -> list[bytes]:
    return [row["payload"] for row in read_all(directory).to_pylist() if row["kind"] == "delivered"]


def sent_until_it_blocks(channel: jg.JChannel) -> int:
    """How many messages a channel took before it let us wait in vain."""
    for number in range(100_000):
        try:
            channel.send(None, bytes(10_000), timeout=0.3)
        except jg.SendTimeoutError:
            return number
    raise AssertionError("it never blocked")


def test_after_close_everything_is_in_sealed_segments(tmp_path):
    with jg.JChannel(recorded(tmp_path), name="A") as channel:
        channel.connect("archive")
        for number in range(100):
            channel.send(None, b"%d" % number)
        eventually(lambda: channel.stats()["ARCHIVE"]["rows"] >= 200)
    [recorder] = recorders(tmp_path)
    assert [segment.sealed for segment in segments(tmp_path, recorder)] == [True]
    assert delivered(tmp_path) == [b"%d" % number for number in range(100)]


def test_an_async_channel_waits_for_its_archive_too(tmp_path):
    async def session() -> None:
        async with AsyncChannel(recorded(tmp_path), name="A") as channel:
            await channel.connect("archive")
            await channel.send(None, b"x")
            async for _ in channel:
                break
    asyncio.run(session())
    assert delivered(tmp_path) == [b"x"]


def test_block_lets_senders_wait_for_the_disk_and_go_on(tmp_path, monkeypatch):
    free, write = threading.Event(), recorder_module.lines_of

    def slow(records, first_row, offset):
        assert not any(record.kind == "sent" for record in records) or free.wait(PATIENCE_SECONDS)
        return write(records, first_row, offset)
    monkeypatch.setattr(recorder_module, "lines_of", slow)
    with jg.JChannel(recorded(tmp_path, on_slow="block", queue_bytes="2M"), name="A") as channel:
        channel.connect("archive")
        sent = sent_until_it_blocks(channel)
        free.set()
        channel.send(None, b"at last", timeout=PATIENCE_SECONDS)
        eventually(lambda: channel.stats()["ARCHIVE"]["waiting_bytes"] == 0)
        assert channel.stats()["ARCHIVE"]["dropped_rows"] == 0
    assert len(delivered(tmp_path)) == sent + 1
