"""The Lamport diagram of a hand-made history."""
from __future__ import annotations

from jgroups_py.address import Address
from jgroups_py.sim import history as h
from jgroups_py.sim.checkers import Violation, check
from jgroups_py.sim.picture import COLUMN, TIME_WIDTH, picture
from tests.sim.tale import Tale


def drawn(tale: Tale, limit: int = 60) -> list[str]:
    """The picture of a tale's first violation."""
    violations = check(tale.history)
    return list(picture(tale.history, violations[:1], limit))


def named(name: str) -> Tale:
    """A tale whose members are called like incarnations, as the simulator does."""
    tale = Tale()
    tale.history.names = {who: f"{text}#1" for who, text in tale.history.names.items()}
    tale.group(1, name)
    return tale


def column(line: str, place: int) -> str:
    return line[TIME_WIDTH + place * COLUMN]


def test_arrows_go_from_the_senders_column_to_the_receivers() -> None:
    tale = named("ABCD")
    tale.send("A", "A#1>*/0")
    tale.deliver("A", "A#1>*/0", at="ACA")
    lines = drawn(tale)
    arrow = next(line for line in lines if "C#1 delivers" in line)
    assert arrow[TIME_WIDTH:].startswith("+-----+---->|     |")
    assert [column(next(line for line in lines if "A#1 sends" in line), place) for place in range(4)] == list("*|||")
    assert lines[-1].endswith("S2: A#1 delivered A#1>*/0 twice")


def test_only_what_the_violation_names_is_drawn() -> None:
    tale = named("AB")
    tale.send("B", *[f"B#1>*/{number}" for number in range(5)])
    tale.send("A", "A#1>*/0")
    tale.deliver("B", "B#1>*/0", at="AB")
    tale.deliver("A", "A#1>*/0", at="AA")
    text = "\n".join(drawn(tale))
    assert "A#1>*/0" in text
    assert "B#1>*" not in text


def test_faults_are_drawn_and_columns_show_who_is_there() -> None:
    tale = named("ABC")
    tale.history.add(h.Remark(tale.tick(), "A is paused"))
    tale.crash("B")
    tale.send("C", "C#1>*/0")
    tale.deliver("C", "C#1>*/0", at="CC")
    lines = drawn(tale)
    crash = next(line for line in lines if "B#1 crashes" in line)
    send = next(line for line in lines if "C#1 sends" in line)
    assert [column(crash, place) for place in range(3)] == [":", "X", "|"]
    assert [column(send, place) for place in range(3)] == [":", " ", "*"]


def test_a_picture_is_bounded_and_says_what_is_left_out() -> None:
    tale = named("AB")
    for counter in range(2, 200):
        tale.group(counter, "AB")
    tale.send("A", "A#1>*/0")
    tale.deliver("A", "A#1>*/0", at="AA")
    lines = drawn(tale, limit=10)
    assert 10 < len(lines) < 25
    assert any("more)" in line for line in lines)
    assert "A#1 sends to all: A#1>*/0" in "\n".join(lines)


def test_sites_stand_above_their_members() -> None:
    tale = Tale(NYC="AB", SFO="CD")
    tale.history.names = {who: f"{text}#1" for who, text in tale.history.names.items()}
    sites, names, *_ = picture(tale.history)
    assert sites.index("SFO") == names.index("C")
    assert sites.index("NYC") == names.index("A")


def test_a_message_of_somebody_who_never_was_can_be_drawn() -> None:
    tale = named("AB")
    tale.deliver(Address(b"x" * 16, "X"), "X#1>*/0", at="B")
    assert "S1" in drawn(tale)[-1]


def test_where_nothing_is_named_messages_are_drawn_and_where_members_are_they_are_not() -> None:
    tale = named("AB")
    tale.send("A", "A#1>*/0")
    general = "\n".join(picture(tale.history, [Violation("equal", "they differ", tale.at_ns)]))
    views = "\n".join(picture(tale.history, [Violation("L", "A#1 ends alone", tale.at_ns)]))
    assert "A#1 sends" in general
    assert "A#1 sends" not in views
    assert "A#1 installs" in views
