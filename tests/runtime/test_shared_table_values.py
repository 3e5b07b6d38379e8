"""SharedTable: what a channel cannot carry is not written."""
import pytest

import jgroups_py as jg
from jgroups_py.blocks.anti_entropy import SharedTable


def test_a_value_that_no_message_holds_is_refused_at_once():
    with jg.JChannel("udp") as channel:
        table = SharedTable(channel)
        with pytest.raises(ValueError, match="exceeds"):
            table.put(b"key", bytes(channel.max_message_bytes))
        assert table.get(b"key") is None
        table.close()
