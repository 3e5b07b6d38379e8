"""Bytes that the encoders of others wrote are the packets that they meant, and ours are the same bytes."""
from __future__ import annotations

from pathlib import Path

import pytest

from jgroups_py.blocks.mqtt.codec.decoder import Decoder
from jgroups_py.blocks.mqtt.codec.encoder import encode
from jgroups_py.blocks.mqtt.codec.packets import ProtocolVersion, SentBy
from tests.unit.blocks.mqtt.golden.expected import EXPECTED, WRITTEN_OTHERWISE

FOLDER = Path(__file__).parent / "golden"
GOLDEN = [(encoder, *line.split()) for encoder in EXPECTED
          for line in (FOLDER / f"{encoder}.txt").read_text(encoding="utf-8").splitlines()]


def version_of(case: str) -> ProtocolVersion:
    return ProtocolVersion.MQTT_3_1_1 if case.startswith("3-") else ProtocolVersion.MQTT_5


def test_every_case_is_expected():
    assert {(encoder, case) for encoder, case, _ in GOLDEN} == {
        (encoder, case) for encoder, cases in EXPECTED.items() for case in cases}


@pytest.mark.parametrize(("encoder", "case", "data"), GOLDEN, ids=lambda value: value[:30])
def test_bytes_of_others_are_read_as_they_were_meant(encoder: str, case: str, data: str):
    decoder = Decoder(SentBy.EITHER, version_of(case))
    assert tuple(decoder.feed(bytes.fromhex(data))) == EXPECTED[encoder][case]
    assert decoder.pending_bytes == 0


@pytest.mark.parametrize(("encoder", "case", "data"), GOLDEN, ids=lambda value: value[:30])
def test_we_write_the_bytes_that_others_write(encoder: str, case: str, data: str):
    written = b"".join(encode(packet, version_of(case)) for packet in EXPECTED[encoder][case])
    assert (written.hex() == data) == ((encoder, case) not in WRITTEN_OTHERWISE)
