"""What is pure in `jgroups bench`: ways, documents of several ways, counting messages one by one."""
from __future__ import annotations

from argparse import ArgumentParser, Namespace

import pytest

from jgroups_py.cli.bench import command
from jgroups_py.cli.bench.figures import as_lines, figure
from jgroups_py.cli.load import InOrder
from jgroups_py.cli.numbered import NUMBER, maker, numbered
from jgroups_py.model.address import Address

A = Address(bytes(15) + b"a", "A")


def parsed(*words: str) -> Namespace:
    parser = ArgumentParser()
    command.add_parser(parser.add_subparsers())
    return parser.parse_args(["bench", "multicast", *words])


def test_one_by_one_comes_first_and_batches_second():
    assert [(load.way.piece, load.way.singly) for load in command._loads(parsed())] == [(1, True), (64, False)]


def test_piece_and_singly_name_a_single_way():
    assert [(load.way.piece, load.way.singly) for load in command._loads(parsed("--piece", "8"))] == [(8, False)]
    assert [(load.way.piece, load.way.singly) for load in command._loads(parsed("--singly"))] == [(64, True)]


def test_an_unknown_way_is_refused_with_the_known_ones(capsys):
    with pytest.raises(SystemExit):
        parsed("--ways", "one,two")
    assert "'two': a way is one of one, batch, asyncio, uvloop" in capsys.readouterr().err


def test_a_document_of_several_ways_has_a_table_for_each():
    rate = {"msgs_per_s": figure([5.0]), "faults": []}
    lines = as_lines({"benchmark": "multicast", "parameters": {}, **rate, "faults": ["A lacks one"],
                      "ways": {"one by one": rate, "in batches": rate}})
    assert [line for line in lines if line and not line.startswith(" ")] == [
        "multicast: ", "one by one", lines[4], "in batches", lines[8], "FAULT: A lacks one"]
    assert lines[4] == lines[8]


def test_a_message_that_is_made_alone_is_as_one_of_many():
    assert maker(100)(77) == numbered(77, 78, 100)[0]


def receive(counts: InOrder, payload: bytes) -> None:
    """As the receiver of the benchmark does."""
    number, = NUMBER.unpack_from(payload)
    if counts.next.get(A) == number:
        counts.next[A] = number + 1
    else:
        counts.add_one(A, payload)


@pytest.mark.parametrize(("numbers", "count", "following", "duplicates", "out_of_order"), [
    ([0, 1, 2, 3], 4, 4, 0, 0), ([0, 1, 1, 2], 4, 3, 1, 0), ([0, 1, 3, 4], 4, 5, 0, 1), ([0, 2, 1, 3], 4, 4, 1, 1)])
def test_messages_one_by_one_are_counted_like_a_batch(numbers, count, following, duplicates, out_of_order):
    counts = InOrder()
    for number in numbers:
        receive(counts, maker(8)(number))
    assert counts.as_dict() == {"A": {"count": count, "next": following, "duplicates": duplicates,
                                      "out_of_order": out_of_order}}
    assert counts.as_dict() == counts.as_dict()
