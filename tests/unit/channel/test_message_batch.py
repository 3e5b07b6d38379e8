"""What a receiver of batches gets: payloads as objects, and as one buffer with their lengths."""
from __future__ import annotations

import pickle

import numpy as np
import pytest

from jgroups_py import wire
from jgroups_py.channel.message import MessageBatch
from jgroups_py.model.batch import Batch
from jgroups_py.testing.bench import address, multicast

CLUSTER = wire.cluster_id("group")
CASES = {"one": [b"alone"], "one, empty": [b""], "all empty": [b"", b"", b""],
         "equal": [b"%03d" % number for number in range(200)],
         "of different lengths": [b"x" * n for n in (5, 0, 70_000, 1)], "equal, sent again": [b"ab"] * 3}


@pytest.mark.parametrize("payloads", CASES.values(), ids=CASES)
@pytest.mark.parametrize("way", ["as sent", "as received", "a part", "joined"])
def test_buffer_and_lengths_say_the_same_as_the_payloads(payloads, way):
    batch = multicast("A", *payloads)
    if way == "as received":
        batch = wire.decode_frame(b"".join(wire.encode_frame(CLUSTER, batch)), CLUSTER, wire.Interner())
    elif way == "a part":
        batch = multicast("A", b"before", *payloads, b"behind").cut(1, 1 + len(payloads))
    elif way == "joined":
        batch = multicast("A", *payloads[:1]).join(multicast("A", *payloads[1:])) if payloads[1:] else batch
    got = MessageBatch(batch)
    buffer, lengths = got.buffer(), got.lengths()
    assert buffer.readonly
    assert buffer.format == "B"
    assert lengths.readonly
    assert lengths.format == "I"
    assert lengths.tolist() == [len(payload) for payload in got.payloads]
    assert len(lengths) == len(got)
    stops = np.cumsum(np.asarray(lengths, np.int64))
    cut = [bytes(buffer[stop - length:stop]) for stop, length in zip(stops.tolist(), lengths.tolist(), strict=True)]
    assert cut == list(got.payloads) == payloads
    assert len(buffer) == int(stops[-1])


def test_numpy_and_arrow_take_buffer_and_lengths_without_a_copy():
    pa = pytest.importorskip("pyarrow")
    got = MessageBatch(multicast("A", b"ab", b"", b"cde"))
    buffer, lengths = got.buffer(), got.lengths()
    for data in (buffer, lengths):
        where = np.frombuffer(data, np.uint8).ctypes.data
        assert pa.py_buffer(data).address == where
        assert np.asarray(data).ctypes.data == where
    offsets = np.concatenate(([0], np.cumsum(np.asarray(lengths, np.int64))))
    column = pa.Array.from_buffers(pa.large_binary(), len(got), [None, pa.py_buffer(offsets), pa.py_buffer(buffer)])
    assert column.to_pylist() == [b"ab", b"", b"cde"]


def test_what_a_receiver_keeps_of_a_buffer_stays_as_it_was():
    batch = multicast("A", b"one", b"two")
    kept = MessageBatch(batch).buffer(), MessageBatch(batch).lengths()
    again = MessageBatch(pickle.loads(pickle.dumps(batch)))
    del batch
    assert bytes(kept[0]) == b"onetwo" == bytes(again.buffer())
    assert kept[1].tolist() == [3, 3]
    with pytest.raises(TypeError):
        kept[0][0] = 0
    with pytest.raises(TypeError):
        kept[1][0] = 0


def test_a_batch_made_of_one_message_has_its_payload_as_buffer():
    batch = Batch(address("A"), None, (b"payload",))
    assert MessageBatch(batch).buffer().obj is batch.payloads[0]
