"""K8's checker, on histories made by hand."""
from __future__ import annotations

import pytest

from jgroups_py.model.address import Address, ProxyUUID
from jgroups_py.model.view import GlobalView
from jgroups_py.simulator import history as h
from jgroups_py.simulator.checkers.sites import site_authority, without_site

A, D, Z, X = (Address(name.encode() * 16, name) for name in "ADZX")


def of(*entries: h.Entry) -> h.History:
    history = h.History()
    for member, site in ((A, "NYC"), (D, "SFO"), (Z, "LON")):
        history.started(0, member, f"{member}#1", site)
    for entry in entries:
        history.add(entry)
    return history


def proxy(origin: Address, site: str) -> Address:
    return ProxyUUID(origin, None, site)


@pytest.mark.parametrize(("entry", "text"), [
    (h.GlobalInstall(1, A, GlobalView({"NYC": (A,), "LON": (Z, D)})), "has D at LON instead of SFO"),
    (h.GlobalInstall(1, A, GlobalView({"NYC": (A,), "X1": (X,)})), "believes in the site X1, which is none"),
    (h.SiteStatusSeen(1, A, "SFO", "OFFLINE"), "has given up SFO"),
    (h.SiteStatusSeen(1, A, "X1", "UP"), "has a status of the site X1"),
    (h.Lost(1, A, "LON", D, 1, 3), "hears of losses of D at LON"),
    (h.MessageDelivered(1, A, proxy(D, "LON"), None, (b"x",), 0, None), "delivers from D"),
    (h.MessageDelivered(1, A, proxy(D, "SFO"), None, (b"forged",), 0, None), "delivers a forged message"),
])
def test_what_a_lie_brought_about_is_found(entry: h.Entry, text: str) -> None:
    assert any(text in str(violation) for violation in site_authority(of(entry), "LON"))


def test_what_the_liar_says_of_itself_is_its_own_affair() -> None:
    history = of(h.GlobalInstall(1, A, GlobalView({"NYC": (A,), "LON": (Z, X)})),
                 h.SiteStatusSeen(1, A, "LON", "OFFLINE"),
                 h.MessageDelivered(1, A, proxy(X, "LON"), None, (b"forged",), 0, None), h.Lost(1, A, "LON", Z, 1, 2),
                 h.GlobalInstall(2, Z, GlobalView({"X9": (D,)})))
    assert list(site_authority(history, "LON")) == []
    kept = without_site(history, "LON")
    assert [entry.member for entry in kept.entries if isinstance(entry, h.Start)] == [A, D]
    assert [entry.view.sites for entry in kept.entries if isinstance(entry, h.GlobalInstall)] == [{"NYC": (A,)}]
    assert not [entry for entry in kept.entries if isinstance(entry, h.Lost | h.MessageDelivered | h.SiteStatusSeen)]
