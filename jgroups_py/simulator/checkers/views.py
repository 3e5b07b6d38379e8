"""M1 to M5, S7, S8: the guarantees of views, and of reports that a member is gone."""
from __future__ import annotations

import itertools
from collections.abc import Iterator

from jgroups_py.model.address import Address
from jgroups_py.model.view import MergeView, View, ViewId
from jgroups_py.simulator import history as h
from jgroups_py.simulator.checkers.facts import Facts, Violation


def self_inclusion(facts: Facts) -> Iterator[Violation]:
    """M1: install(p, V) implies p in V."""
    for install in facts.installs:
        if install.member not in install.view:
            yield Violation("M1", f"{facts.name(install.member)} installed {facts.history.view(install.view)}, "
                            "in which it is not", install.at_ns)


def monotone_views(facts: Facts) -> Iterator[Violation]:
    """M2: p installs V then W implies id(V) < id(W)."""
    for member, installs in facts.installs_of.items():
        for before, after in itertools.pairwise(installs):
            if not before.view.id < after.view.id:
                yield Violation("M2", f"{facts.name(member)} installed {facts.show_id(after.view)} after "
                                f"{facts.show_id(before.view)}, whose id is not lower", after.at_ns)


def initial_view(facts: Facts) -> Iterator[Violation]:
    """M3: every send and delivery lies within a view."""
    for send in facts.sends:
        if send.view is None:
            yield Violation("M3", f"{facts.name(send.member)} sent {h.show_payloads(send.payloads)} outside any view",
                            send.at_ns)
    for delivery in facts.deliveries:
        if delivery.view is None:
            yield Violation("M3", f"{facts.name(delivery.member)} delivered {h.show_payloads(delivery.payloads)} "
                            "outside any view", delivery.at_ns)


def view_agreement(facts: Facts) -> Iterator[Violation]:
    """M4: equal ids imply equal ordered members."""
    known: dict[ViewId, tuple[View, Address]] = {}
    for install in facts.installs:
        view = install.view
        agreed, first = known.setdefault(view.id, (view, install.member))
        if agreed.members != view.members:
            yield Violation("M4", f"{facts.name(install.member)} installed {facts.history.view(view)}, but "
                            f"{facts.name(first)} installed {facts.history.view(agreed)}", install.at_ns)


def certain_ends(facts: Facts) -> Iterator[Violation]:
    """M5: p is certain that the process of q has ended (MemberGone) implies that it has."""
    for report in facts.gone_too_early:
        yield Violation("M5", f"{facts.name(report.member)} was certain that the process of {facts.name(report.gone)} "
                        "had ended, which ran", report.at_ns)


def successors(facts: Facts) -> Iterator[Violation]:
    """S7: p goes V to W, q in V installs W implies q's previous view is V."""
    into: dict[ViewId, list[h.InstalledView]] = {}
    for install in facts.installs:
        into.setdefault(install.view.id, []).append(install)
    for installs in into.values():
        came_from: dict[ViewId, h.InstalledView] = {}
        for install in installs:
            if install.previous is not None:
                came_from.setdefault(install.previous.id, install)
        for install in came_from.values():
            previous = install.previous
            assert previous is not None, "only installs with a previous view were noted"
            for other in installs:
                if other.member in previous and other.previous != previous:
                    yield Violation("S7", f"{facts.name(install.member)} went from {facts.history.view(previous)} to "
                                    f"{facts.show_id(other.view)}, but its member {facts.name(other.member)} came "
                                    f"there from {facts.show_id(other.previous)}", other.at_ns)


def merges(facts: Facts) -> Iterator[Violation]:
    """S8: the subgroups of a MergeView are exactly the merged previous views.

    A view that is no MergeView merges nothing: all members that had a view before had the same one.
    """
    plain: dict[ViewId, h.InstalledView] = {}
    for install in facts.installs:
        view = install.view
        if isinstance(view, MergeView):
            yield from _merge(facts, install, view)
        elif install.previous is not None:
            first = plain.setdefault(view.id, install)
            if first.previous != install.previous:
                yield Violation("S8", f"{facts.show_id(view)} is no MergeView, but {facts.name(first.member)} came "
                                f"from {facts.show_id(first.previous)} and {facts.name(install.member)} from "
                                f"{facts.show_id(install.previous)}", install.at_ns)


def _merge(facts: Facts, install: h.InstalledView, view: MergeView) -> Iterator[Violation]:
    name = facts.name(install.member)
    if install.previous is not None and install.previous not in view.subgroups:
        yield Violation("S8", f"{name} came to {facts.history.view(view)} from {facts.show_id(install.previous)}, "
                        "which is none of its subgroups", install.at_ns)
    if install.previous is None and any(install.member in subgroup for subgroup in view.subgroups):
        yield Violation("S8", f"{name} is in a subgroup of {facts.history.view(view)} but had no view before",
                        install.at_ns)
    for subgroup in view.subgroups:
        if not any(member in view for member in subgroup.members):
            yield Violation("S8", f"{facts.history.view(view)} names subgroup {facts.history.view(subgroup)}, of "
                            "which no member is in it", install.at_ns)
