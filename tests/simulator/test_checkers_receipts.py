"""The checker of receipts finds planted violations, and nothing in clean histories."""
from __future__ import annotations

import pytest

from jgroups_py.model.view import View
from jgroups_py.simulator import history as h
from jgroups_py.simulator.checkers import check
from tests.simulator.history_writer import HistoryWriter, broken


class ReceiptWriter(HistoryWriter):
    """A history of two sites in which A waits for a receipt."""

    def __init__(self) -> None:
        super().__init__(NYC="AB", SFO="DEF")
        self.here, self.there = self.group(1, "AB"), self.group(1, "DEF")
        for name in "ABDEF":
            self.global_view(name, NYC="AB", SFO="DEF")

    def await_(self, *sites: str) -> None:
        self.send("A", "a1")
        self.history.add(h.Awaited(self.tick(), self.addresses["A"], b"a1", sites))

    def receipt(self, lost_for: str = "", **views: View) -> None:
        ids = {site: (view.id,) for site, view in views.items()}
        self.history.add(h.Receipted(self.tick(), self.addresses["A"], b"a1", ids, lost_for))

    def arrives(self, at: str) -> None:
        self.deliver(self.proxy("A", "D"), "a1", at=at)

    def ends(self, live: str = "ABDEF") -> None:
        self.heal()
        self.end(live)


@pytest.fixture
def writer() -> ReceiptWriter:
    writer = ReceiptWriter()
    writer.await_("SFO")
    writer.deliver("A", "a1", at="AB")
    return writer


def test_a_receipt_after_all_have_it_breaks_nothing(writer: ReceiptWriter) -> None:
    writer.arrives("DEF")
    writer.receipt(SFO=writer.there)
    writer.ends()
    assert check(writer.history) == []


def test_a_receipt_before_the_last_member_has_it(writer: ReceiptWriter) -> None:
    writer.arrives("DE")
    writer.receipt(SFO=writer.there)
    writer.arrives("F")
    writer.ends()
    assert broken(writer) == ["R10"]


def test_a_member_that_crashed_before_is_not_needed_for_a_receipt(writer: ReceiptWriter) -> None:
    writer.arrives("DE")
    writer.crash("F")
    writer.receipt(SFO=writer.there)
    writer.group(2, "DE")
    for name in "ABDE":
        writer.global_view(name, NYC="AB", SFO="DE")
    writer.ends("ABDE")
    assert check(writer.history) == []


def test_a_receipt_of_a_view_that_no_member_had(writer: ReceiptWriter) -> None:
    writer.arrives("DEF")
    writer.receipt(SFO=writer.view(9, "DEF"))
    writer.ends()
    assert broken(writer) == ["R10"]


def test_a_receipt_of_another_sites_view(writer: ReceiptWriter) -> None:
    writer.arrives("DEF")
    writer.receipt(SFO=writer.here)
    writer.ends()
    assert broken(writer) == ["R10"]


def test_a_receipt_of_the_own_site_before_all_have_it() -> None:
    writer = ReceiptWriter()
    writer.await_("NYC")
    writer.deliver("A", "a1", at="A")
    writer.receipt(NYC=writer.here)
    writer.deliver("A", "a1", at="B")
    writer.arrives("DEF")
    writer.ends()
    assert broken(writer) == ["R10"]


def test_a_receipt_that_never_comes(writer: ReceiptWriter) -> None:
    writer.arrives("DEF")
    writer.ends()
    assert broken(writer) == ["R10"]


def test_a_loss_that_is_none(writer: ReceiptWriter) -> None:
    writer.arrives("DEF")
    writer.receipt("SFO")
    writer.ends()
    assert broken(writer) == ["R10"]


def test_a_loss_that_was_declared(writer: ReceiptWriter) -> None:
    writer.arrives("DE")
    writer.history.add(h.Lost(writer.tick(), writer.addresses["F"], "NYC", writer.addresses["A"], 1, 2))
    writer.receipt("SFO")
    writer.ends()
    assert check(writer.history) == []
