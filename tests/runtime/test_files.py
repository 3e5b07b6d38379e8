"""The shared folder of FILE_PING."""
from __future__ import annotations

import pytest

from jgroups_py.runtime.disk.shared_folder import MAX_ENTRY_BYTES, read_folder, store_entry


def test_entries_are_read_in_order_of_their_names(tmp_path):
    folder = str(tmp_path / "made" / "on" / "demand")
    for name in ("b", "a", "c"):
        store_entry(folder, name, name.encode())
    store_entry(folder, "b", None)
    store_entry(folder, "b", None)
    assert read_folder(folder) == (b"a", b"c")


def test_a_folder_that_is_not_there_is_empty(tmp_path):
    assert read_folder(str(tmp_path / "nothing")) == ()


def test_an_unfinished_or_far_too_large_entry_is_left_out(tmp_path):
    store_entry(str(tmp_path), "good", b"x")
    (tmp_path / "half.123.tmp").write_bytes(b"half")
    (tmp_path / "huge").write_bytes(bytes(MAX_ENTRY_BYTES + 1))
    assert read_folder(str(tmp_path)) == (b"x",)


@pytest.mark.parametrize("name", ["", "../up", "a/b", ".hidden", "/etc/passwd"])
def test_a_name_that_leads_elsewhere_is_refused(tmp_path, name):
    with pytest.raises(OSError, match="not a plain file name"):
        store_entry(str(tmp_path), name, b"x")
