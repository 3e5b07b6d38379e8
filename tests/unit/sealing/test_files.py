"""The preamble of encrypted files, and the cipher of their records: golden bytes, and what does not open."""
from __future__ import annotations

from pathlib import Path

import pytest

from jgroups_py.model.errors import ConfigError, WireError
from jgroups_py.sealing.files import PREAMBLE_BYTES, FileCipher, is_preamble, key_of, preamble
from jgroups_py.sealing.keyring import ACTIVE, group_key

KEY = group_key(bytes(range(32)), ACTIVE)
HEAD = preamble(KEY, bytes(range(32, 64)))
GOLDEN_HEAD = "4a475345414c 01 00 KEYID 202122232425262728292a2b2c2d2e2f303132333435363738393a3b3c3d3e3f"


def test_the_preamble_has_its_golden_bytes_which_the_page_shows():
    assert HEAD.hex() == GOLDEN_HEAD.replace("KEYID", KEY.id.hex()).replace(" ", "")
    assert len(HEAD) == PREAMBLE_BYTES == 48
    assert is_preamble(HEAD)
    made = FileCipher(KEY, HEAD, b"hold\0" + b"0000000000000001.hold").seal(61, b"\4" + bytes(8), b"")
    page = (Path(__file__).parents[3] / "design" / "journal.md").read_text(encoding="utf-8")
    assert HEAD.hex() in page
    assert made.hex() in page


def test_a_record_opens_at_its_offset_in_its_place_with_its_head_only():
    cipher = FileCipher(KEY, HEAD, b"here")
    made = cipher.seal(7, b"text", b"clear")
    assert cipher.open(7, made, b"clear") == b"text"
    other_salt, other_key = preamble(KEY, bytes(32)), group_key(b"o" * 32, ACTIVE)
    for found, at, clear, last in (
            (cipher, 8, b"clear", False), (cipher, 7, b"other", False), (cipher, 7, b"clear", True),
            (FileCipher(KEY, HEAD, b"there"), 7, b"clear", False),
            (FileCipher(KEY, other_salt, b"here"), 7, b"clear", False),
            (FileCipher(other_key, HEAD, b"here"), 7, b"clear", False)):
        with pytest.raises(WireError):
            found.open(at, made, clear, last)
    for stop in range(len(made)):
        with pytest.raises(WireError):
            cipher.open(7, made[:stop], b"clear")
    assert repr(cipher) == "<FileCipher>"


@pytest.mark.parametrize(("head", "why"), [
    (HEAD, "is retired there; it has "), (HEAD[:-1], "a format that this program does not know"),
    (HEAD[:6] + b"\2" + HEAD[7:], "a format that this program does not know"), (b"", "a format that")])
def test_a_key_that_is_missing_and_a_later_format_are_told_with_the_file(head, why):
    with pytest.raises(ConfigError, match=f"^some.file: encrypted .*{why}"):
        key_of(head, {}, "some.file", "a.keys")
    assert key_of(HEAD, {KEY.id: KEY}, "some.file", "a.keys") is KEY
