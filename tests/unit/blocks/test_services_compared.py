"""Offers compared: what fits, and what members lack."""
from __future__ import annotations

from jgroups_py.blocks.service.compared import compared, fingerprint
from jgroups_py.blocks.service.messages import Offered

ADD, FIND, OLD = b"add-----", b"find----", b"old-----"


def test_members_with_the_same_methods_fit_whatever_their_versions() -> None:
    found = compared({"B": [Offered("orders", "2", (FIND, ADD))], "A": [Offered("orders", "1", (ADD, FIND))]}, {})
    assert found == [{"name": "orders", "fits": True, "interfaces": [
        {"fingerprint": fingerprint([ADD, FIND]), "versions": {"1": ["A"], "2": ["B"]}, "methods": 2, "lacks": []}]}]


def test_what_some_members_of_a_service_lack_is_named_or_shown_by_its_key() -> None:
    offers = {"A": [Offered("orders", "2", (ADD, FIND))], "B": [Offered("orders", "1", (ADD, OLD))],
              "C": [Offered("orders", "2", (ADD, FIND)), Offered("mails", "1", (ADD,))]}
    mails, orders = compared(offers, {FIND: "orders.find"})
    assert (mails["name"], mails["fits"]) == ("mails", True)
    assert orders["fits"] is False
    assert [(one["versions"], one["lacks"]) for one in orders["interfaces"]] == [
        ({"2": ["A", "C"]}, [OLD.hex()]), ({"1": ["B"]}, ["orders.find"])]


def test_a_group_without_services_has_none() -> None:
    assert compared({"A": []}, {}) == []
