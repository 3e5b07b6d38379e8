"""Which changes make a mutant: those of cosmic-ray that turn conditions and arithmetic round, and three of our own.

cosmic-ray's `ReplaceComparisonOperator_Eq_Is` and the like are left out: they change how equality is asked, not what is
asked, and nearly all of them are equivalent. Its operators have neither `in` nor the filters of comprehensions nor
removed statements, so those are written here against its `Operator` interface.
"""
from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import parso
from cosmic_ray.operators.operator import Example, Operator
from cosmic_ray.operators.provider import OperatorProvider
from parso.python.tree import Keyword

Position = tuple[tuple[int, int], tuple[int, int]]

COMPARISONS = ("Eq_NotEq", "NotEq_Eq", "Lt_LtE", "Lt_GtE", "LtE_Lt", "LtE_Gt", "Gt_GtE", "Gt_LtE", "GtE_Gt", "GtE_Lt",
               "Is_IsNot", "IsNot_Is")
ARITHMETIC = ("Add_Sub", "Sub_Add", "Mul_FloorDiv", "FloorDiv_Mul", "Div_Mul", "Mod_FloorDiv", "LShift_RShift",
              "RShift_LShift", "BitOr_BitAnd", "BitAnd_BitOr")
CONDITIONS = ("AddNot", "ReplaceAndWithOr", "ReplaceOrWithAnd", "ReplaceTrueWithFalse", "ReplaceFalseWithTrue",
              "ReplaceUnaryOperator_Delete_Not")
FLOW = ("ReplaceBreakWithContinue", "ReplaceContinueWithBreak", "ZeroIterationForLoop")


class SwapIn(Operator):
    """`in` becomes `not in`, and the other way round."""

    def mutation_positions(self, node: Any) -> Iterator[Position]:
        """Where the node has one."""
        for at in self._points(node):
            yield node.children[at].start_pos, node.children[at].end_pos

    def mutate(self, node: Any, index: int) -> Any:
        """The node with the one at `index` swapped."""
        at = self._points(node)[index]
        swapped = "in" if node.children[at].get_code().split() == ["not", "in"] else "not in"
        node.children[at] = parso.parse(f" {swapped}")
        return node

    @staticmethod
    def _points(node: Any) -> list[int]:
        if node.type != "comparison":
            return []
        return [at for at in range(1, len(node.children), 2)
                if node.children[at].get_code().split() in (["in"], ["not", "in"])]

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        """For the tests of the operators."""
        return (Example("x in y", "x not in y"), Example("x not in y", "x in y"),
                Example("a < b in c", "a < b not in c"))


class NegateFilter(Operator):
    """The filter of a comprehension is negated."""

    def mutation_positions(self, node: Any) -> Iterator[Position]:
        """Its condition. A lone comparison is turned round by its own operator."""
        if node.type == "comp_if" and not turned_elsewhere(node.children[1]):
            yield node.children[1].start_pos, node.children[1].end_pos

    def mutate(self, node: Any, index: int) -> Any:
        """The node with `not (...)` around its condition."""
        assert index == 0, "a filter has one condition"
        node.children[1] = parso.parse(f" not ({node.children[1].get_code().strip()})")
        return node

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        """For the tests of the operators."""
        return (Example("[x for x in y if x]", "[x for x in y if not (x)]"),
                Example("[x for x in y if a or b]", "[x for x in y if not (a or b)]"))


class RemoveStatement(Operator):
    """A statement becomes `pass`: calls, writes to attributes and items, `+=`, del, raise, continue, break, return.

    What is bound here, be it a name or, in `__init__` and `start`, an attribute, stays bound: without it nothing runs,
    which every test notices. The last `return` of a function stays for the same reason, and so do assertions, which
    state facts and do nothing.
    """

    KINDS = ("atom_expr", "del_stmt", "raise_stmt", "yield_expr", "await_expr")

    def mutation_positions(self, node: Any) -> Iterator[Position]:
        """The statement, if the node is one that may go."""
        if node.type == "simple_stmt" and self._goes(node):
            yield node.children[0].start_pos, node.children[0].end_pos

    def mutate(self, node: Any, index: int) -> Any:
        """The node with `pass` in place of the statement."""
        assert index == 0, "a statement goes once"
        gone = node.children[0]
        node.children[0] = Keyword("pass", gone.start_pos, gone.get_first_leaf().prefix)
        return node

    def _goes(self, node: Any) -> bool:
        what = node.children[0]
        if len(node.children) != 2:                                  # a; b
            return False
        if what.type == "expr_stmt":
            second = what.children[1]
            binds = second.type == "operator" and second.value == "=" and \
                (what.children[0].type == "name" or binds_attributes(node))
            return second.type != "annassign" and not binds
        if what.type == "keyword":
            return what.value in ("return", "continue", "break")
        if what.type == "return_stmt":
            return not (node.parent.type == "suite" and node.parent.parent.type == "funcdef"
                        and node.parent.children[-1] is node)
        return what.type in self.KINDS

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        """For the tests of the operators."""
        return (Example("f(x)\n", "pass\n"), Example("self.x = 1\n", "pass\n"), Example("x += 1\n", "pass\n"),
                Example("def f():\n    if a:\n        return 1\n    return 2\n",
                        "def f():\n    if a:\n        pass\n    return 2\n"))


def turned_elsewhere(condition: Any) -> bool:
    """Whether another operator gives the very mutant that negating this condition would."""
    return bool(condition.type == "not_test" or (condition.type == "comparison" and len(condition.children) == 3))


def binds_attributes(node: Any) -> bool:
    """Whether a statement stands in a method that gives an object its attributes."""
    at = node
    while at is not None and at.type != "funcdef":
        at = at.parent
    return at is not None and at.name.value in ("__init__", "start")


OWN: tuple[type[Operator], ...] = (SwapIn, NegateFilter, RemoveStatement)


def chosen() -> dict[str, Operator]:
    """Name -> operator, all that are used."""
    provider = OperatorProvider()
    names = [*CONDITIONS, *FLOW, *(f"ReplaceComparisonOperator_{name}" for name in COMPARISONS),
             *(f"ReplaceBinaryOperator_{name}" for name in ARITHMETIC)]
    return {**{name: provider[name]() for name in names}, **{kind.__name__: kind() for kind in OWN}}
