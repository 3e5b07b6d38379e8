"""The checker of receipts finds planted violations, and nothing in clean histories."""
from __future__ import annotations

import pytest

from jgroups_py.sim import history as h
from jgroups_py.sim.checkers import check
from jgroups_py.view import View
from tests.sim.tale import Tale, broken


class Told(Tale):
    """A tale of two sites in which A waits for a receipt."""

    def __init__(self) -> None:
        super().__init__(NYC="AB", SFO="DEF")
        self.here, self.there = self.group(1, "AB"), self.group(1, "DEF")
        for name in "ABDEF":
            self.sees(name, NYC="AB", SFO="DEF")

    def await_(self, *sites: str) -> None:
        self.send("A", "a1")
        self.history.add(h.Awaited(self.tick(), self.who["A"], b"a1", sites))

    def receipt(self, lost_for: str = "", **views: View) -> None:
        ids = {site: (view.id,) for site, view in views.items()}
        self.history.add(h.Receipted(self.tick(), self.who["A"], b"a1", ids, lost_for))

    def arrives(self, at: str) -> None:
        self.deliver(self.proxy("A", "D"), "a1", at=at)

    def ends(self, live: str = "ABDEF") -> None:
        self.heal()
        self.end(live)


@pytest.fixture
def tale() -> Told:
    told = Told()
    told.await_("SFO")
    told.deliver("A", "a1", at="AB")
    return told


def test_a_receipt_after_all_have_it_breaks_nothing(tale: Told) -> None:
    tale.arrives("DEF")
    tale.receipt(SFO=tale.there)
    tale.ends()
    assert check(tale.history) == []


def test_a_receipt_before_the_last_member_has_it(tale: Told) -> None:
    tale.arrives("DE")
    tale.receipt(SFO=tale.there)
    tale.arrives("F")
    tale.ends()
    assert broken(tale) == ["R10"]


def test_who_crashed_before_is_not_asked_for(tale: Told) -> None:
    tale.arrives("DE")
    tale.crash("F")
    tale.receipt(SFO=tale.there)
    tale.group(2, "DE")
    for name in "ABDE":
        tale.sees(name, NYC="AB", SFO="DE")
    tale.ends("ABDE")
    assert check(tale.history) == []


def test_a_receipt_of_a_view_that_nobody_had(tale: Told) -> None:
    tale.arrives("DEF")
    tale.receipt(SFO=tale.view(9, "DEF"))
    tale.ends()
    assert broken(tale) == ["R10"]


def test_a_receipt_of_another_sites_view(tale: Told) -> None:
    tale.arrives("DEF")
    tale.receipt(SFO=tale.here)
    tale.ends()
    assert broken(tale) == ["R10"]


def test_a_receipt_of_the_own_site_before_all_have_it() -> None:
    tale = Told()
    tale.await_("NYC")
    tale.deliver("A", "a1", at="A")
    tale.receipt(NYC=tale.here)
    tale.deliver("A", "a1", at="B")
    tale.arrives("DEF")
    tale.ends()
    assert broken(tale) == ["R10"]


def test_a_receipt_that_never_comes(tale: Told) -> None:
    tale.arrives("DEF")
    tale.ends()
    assert broken(tale) == ["R10"]


def test_a_loss_that_is_none(tale: Told) -> None:
    tale.arrives("DEF")
    tale.receipt("SFO")
    tale.ends()
    assert broken(tale) == ["R10"]


def test_a_loss_that_was_declared(tale: Told) -> None:
    tale.arrives("DE")
    tale.history.add(h.Lost(tale.tick(), tale.who["F"], "NYC", tale.who["A"], 1, 2))
    tale.receipt("SFO")
    tale.ends()
    assert check(tale.history) == []
