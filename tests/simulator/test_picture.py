"""The Lamport diagram of a hand-made history."""
from __future__ import annotations

from jgroups_py.model.address import Address
from jgroups_py.simulator import history as h
from jgroups_py.simulator.checkers import Violation, check
from jgroups_py.simulator.picture import COLUMN, TIME_WIDTH, picture
from tests.simulator.history_writer import HistoryWriter


def drawn(writer: HistoryWriter, limit: int = 60) -> list[str]:
    """The picture of a tale's first violation."""
    violations = check(writer.history)
    return list(picture(writer.history, violations[:1], limit))


def named(name: str) -> HistoryWriter:
    """A history whose members are named as incarnations, as in the simulator."""
    writer = HistoryWriter()
    writer.history.names = {member: f"{text}#1" for member, text in writer.history.names.items()}
    writer.group(1, name)
    return writer


def column(line: str, place: int) -> str:
    return line[TIME_WIDTH + place * COLUMN]


def test_arrows_go_from_the_senders_column_to_the_receivers() -> None:
    writer = named("ABCD")
    writer.send("A", "A#1>*/0")
    writer.deliver("A", "A#1>*/0", at="ACA")
    lines = drawn(writer)
    arrow = next(line for line in lines if "C#1 delivers" in line)
    assert arrow[TIME_WIDTH:].startswith("+-----+---->|     |")
    assert [column(next(line for line in lines if "A#1 sends" in line), place) for place in range(4)] == list("*|||")
    assert lines[-1].endswith("S2: A#1 delivered A#1>*/0 twice")


def test_only_what_the_violation_names_is_drawn() -> None:
    writer = named("AB")
    writer.send("B", *[f"B#1>*/{number}" for number in range(5)])
    writer.send("A", "A#1>*/0")
    writer.deliver("B", "B#1>*/0", at="AB")
    writer.deliver("A", "A#1>*/0", at="AA")
    text = "\n".join(drawn(writer))
    assert "A#1>*/0" in text
    assert "B#1>*" not in text


def test_faults_are_drawn_and_columns_show_which_members_run() -> None:
    writer = named("ABC")
    writer.history.add(h.Remark(writer.tick(), "A is paused"))
    writer.crash("B")
    writer.send("C", "C#1>*/0")
    writer.deliver("C", "C#1>*/0", at="CC")
    lines = drawn(writer)
    crash = next(line for line in lines if "B#1 crashes" in line)
    send = next(line for line in lines if "C#1 sends" in line)
    assert [column(crash, place) for place in range(3)] == [":", "X", "|"]
    assert [column(send, place) for place in range(3)] == [":", " ", "*"]


def test_a_picture_is_bounded_and_counts_what_is_left_out() -> None:
    writer = named("AB")
    for counter in range(2, 200):
        writer.group(counter, "AB")
    writer.send("A", "A#1>*/0")
    writer.deliver("A", "A#1>*/0", at="AA")
    lines = drawn(writer, limit=10)
    assert 10 < len(lines) < 25
    assert any("more)" in line for line in lines)
    assert "A#1 sends to all: A#1>*/0" in "\n".join(lines)


def test_sites_stand_above_their_members() -> None:
    writer = HistoryWriter(NYC="AB", SFO="CD")
    writer.history.names = {member: f"{text}#1" for member, text in writer.history.names.items()}
    sites, names, *_ = picture(writer.history)
    assert sites.index("SFO") == names.index("C")
    assert sites.index("NYC") == names.index("A")


def test_a_message_of_an_unknown_member_can_be_drawn() -> None:
    writer = named("AB")
    writer.deliver(Address(b"x" * 16, "X"), "X#1>*/0", at="B")
    assert "S1" in drawn(writer)[-1]


def test_where_nothing_is_named_messages_are_drawn_and_where_members_are_they_are_not() -> None:
    writer = named("AB")
    writer.send("A", "A#1>*/0")
    general = "\n".join(picture(writer.history, [Violation("equal", "they differ", writer.at_ns)]))
    views = "\n".join(picture(writer.history, [Violation("L", "A#1 ends alone", writer.at_ns)]))
    assert "A#1 sends" in general
    assert "A#1 sends" not in views
    assert "A#1 installs" in views
