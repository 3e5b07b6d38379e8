"""Every input of the corpora gives a value or the documented error, and is cheap."""
from __future__ import annotations

from pathlib import Path

import pytest

from jgroups_py.model.errors import WireError
from jgroups_py.protocols.swim.memberlist.packet import read_packet
from tests.fuzz.codecs import Result, attempt
from tests.fuzz.corpus import FOLDER, files, read
from tests.fuzz.targets import OPEN, targets

INPUTS = [path for folder in sorted(FOLDER.iterdir()) if folder.is_dir() for path in files(folder.name)]


@pytest.mark.parametrize("path", INPUTS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_an_input_that_once_escaped_does_not(path: Path) -> None:
    assert attempt(targets()[path.parent.name], read(path), Result()) is None


def test_every_corpus_has_its_codec() -> None:
    assert len(INPUTS) >= 15
    assert {path.parent.name for path in INPUTS} <= set(targets())


@pytest.mark.parametrize("name", ["compounds-in-compounds", "bytes-multiplied"])
def test_envelopes_of_a_packet_do_not_multiply(name: str) -> None:
    with pytest.raises(WireError):
        read_packet(read(FOLDER / "memberlist-packet" / f"{name}.hex"), OPEN)
