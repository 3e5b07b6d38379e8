"""Which mutants there are, what they change, and that a draw is always the same."""
from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.mutants.mutations import OPERATORS, Mutant, all_mutants, draw, mutants_of
from tests.mutants.named import NAMED, Named, problems
from tests.mutants.operators import OWN, NegateFilter, RemoveStatement, SwapIn
from tests.mutants.rooms import ROOMS, room_of, sources

ROOT = Path(__file__).parents[2]
SOURCE = '''"""Doc."""
from __future__ import annotations

LIMIT = 4


class Thing:
    """Doc."""

    def __init__(self) -> None:
        self.seen = {}

    def take(self, number: int | None, mine: list[int]) -> int:
        """Doc."""
        assert number != 3, "three"
        if number is None or number in self.seen:
            return self.count("dropped")
        self.seen[number] = True
        for other in mine:
            if other > number:
                continue
            self.notify(other)
        total = number + 1
        return total
'''


def changes(operator: str, source: str = SOURCE) -> list[str]:
    """The first line that each mutant of an operator makes another."""
    found = []
    for mutant in mutants_of("thing.py", source):
        if mutant.operator == operator:
            after = mutant.apply(source).splitlines()
            found.append(next(line.strip() for line, old in zip(after, source.splitlines(), strict=True)
                              if line != old))
    return found


@pytest.mark.parametrize("operator", OWN, ids=lambda operator: operator.__name__)
def test_added_operators_do_what_their_examples_show(operator: type[SwapIn | NegateFilter | RemoveStatement]) -> None:
    for example in operator.examples():
        (mutant,) = [mutant for mutant in mutants_of("example.py", example.pre_mutation_code)
                     if mutant.operator == operator.__name__]
        assert mutant.apply(example.pre_mutation_code) == example.post_mutation_code


def test_statements_that_do_something_are_removed_and_bindings_stay() -> None:
    assert changes("RemoveStatement") == ["pass"] * 4
    places = [mutant.text for mutant in mutants_of("thing.py", SOURCE) if mutant.operator == "RemoveStatement"]
    assert places == ['return self.count("dropped")', "self.seen[number] = True", "continue", "self.notify(other)"]


def test_comparisons_conditions_loops_and_arithmetic_are_turned_round() -> None:
    assert changes("ReplaceComparisonOperator_Is_IsNot") == ["if number is not None or number in self.seen:"]
    assert changes("SwapIn") == ["if number is None or number not in self.seen:"]
    assert changes("ReplaceOrWithAnd") == ["if number is None and number in self.seen:"]
    assert changes("ReplaceComparisonOperator_Gt_GtE") == ["if other >= number:"]
    assert changes("ReplaceBinaryOperator_Add_Sub") == ["total = number - 1"]
    assert changes("ZeroIterationForLoop") == ["for other in []:"]
    assert changes("ReplaceContinueWithBreak") == ["break"]


def test_assertions_and_annotations_are_left_alone() -> None:
    assert not changes("ReplaceComparisonOperator_NotEq_Eq"), "it stands in an assertion"
    assert not changes("ReplaceBinaryOperator_BitOr_BitAnd"), "int | None is a type"


def test_no_condition_is_turned_round_twice() -> None:
    assert changes("AddNot") == ["if not number is None or number in self.seen:"], "other > number has its operators"
    assert not changes("AddNot", "if not x:\n    f(x)\n"), "the not is taken away instead"


def test_the_same_seed_draws_the_same_and_a_larger_number_draws_those_and_more() -> None:
    mutants = list(all_mutants(ROOT, ["jgroups_py/windows/ranges.py", "jgroups_py/protocols/stable/protocol.py"]))
    ten = draw(mutants, 10, 7)
    assert draw(reversed(mutants), 10, 7) == ten == draw(mutants, 20, 7)[:10]
    assert len({mutant.key for mutant in mutants}) == len(mutants) > 50
    assert draw(mutants, 10, 8) != ten


def test_lines_added_elsewhere_do_not_change_the_draw() -> None:
    before = [mutant.key for mutant in draw(mutants_of("thing.py", SOURCE), 8, 1)]
    longer = SOURCE.replace("LIMIT = 4\n", "LIMIT = 4\nOTHER = 5\n# and a remark\n")
    assert [mutant.key for mutant in draw(mutants_of("thing.py", longer), 8, 1)] == before


@pytest.fixture(scope="module")
def everything() -> list[Mutant]:
    return list(all_mutants(ROOT, sources(ROOT)))


@pytest.mark.long
@pytest.mark.slow
def test_every_drawn_mutant_compiles_and_differs(everything: list[Mutant]) -> None:
    for mutant in draw(everything, 12, 3):
        source = (ROOT / mutant.path).read_text(encoding="utf-8")
        after = mutant.apply(source)
        compile(after, mutant.path, "exec")
        assert ast.dump(ast.parse(after)) != ast.dump(ast.parse(source)), str(mutant)


@pytest.mark.long
@pytest.mark.slow
def test_every_kind_of_mutant_but_one_shift_is_among_those_of_the_protocols(everything: list[Mutant]) -> None:
    kinds = {mutant.operator: None for mutant in everything}
    assert [name for name in OPERATORS if name not in kinds] in ([], ["ReplaceBinaryOperator_RShift_LShift"])


def test_every_room_has_sources_tests_and_profiles() -> None:
    for room in ROOMS:
        assert all((ROOT / path).is_file() for path in room.files(ROOT)), room.name
        assert room.profiles
        assert list(room.test_files(ROOT)), room.name
    assert room_of("jgroups_py/protocols/relay/journal/journal.py").name == "journal"
    assert room_of("jgroups_py/protocols/relay/sites.py").name == "relay"
    with pytest.raises(ValueError, match="in none of the rooms"):
        room_of("jgroups_py/channel/sync.py")


def test_mutants_made_by_hand_fit_the_sources() -> None:
    assert not problems(ROOT)
    assert len({named.key for named in NAMED}) == len(NAMED) >= 8


def test_a_mutant_made_by_hand_reports_that_its_text_is_gone() -> None:
    named = Named("x", "thing.py", "Thing.take", "if other > number:", "if False:")
    assert named.apply(SOURCE) == SOURCE.replace("if other > number:", "if False:")
    assert SOURCE.splitlines()[named.line(SOURCE) - 1].strip() == "if other > number:"
    with pytest.raises(ValueError, match="0 times, not once"):
        named.apply(SOURCE.replace("other > number", "number < other"))
    with pytest.raises(ValueError, match=r"no Thing\.take"):
        named.apply(SOURCE.replace("def take", "def give"))
