"""Histories that a test writes by hand, for checkers to judge."""
from __future__ import annotations

from jgroups_py.model.address import Address, ProxyUUID
from jgroups_py.model.units import seconds
from jgroups_py.model.view import GlobalView, MergeView, View, ViewId
from jgroups_py.simulator import history as h
from jgroups_py.simulator.checkers import check


class HistoryWriter:
    """Writes a history, an entry a call; each entry is 10 ms after the one before."""

    def __init__(self, **sites: str) -> None:
        """sites: site -> its members' names; none: members A B C D without a site."""
        self.history = h.History()
        self.at_ns = 0
        self.addresses: dict[str, Address] = {}
        self.views: dict[str, View | None] = {}
        self.proxies: dict[str, str] = {}
        for site, names in (sites or {"": "ABCD"}).items():
            for name in names:
                self.addresses[name] = Address(name.encode().rjust(16, b"0"), name)
                self.views[name] = None
                self.proxies[name] = site
                self.history.started(0, self.addresses[name], name, site)

    def tick(self) -> int:
        self.at_ns += seconds(0.01)
        return self.at_ns

    def view(self, counter: int, members: str, subgroups: tuple[View, ...] = ()) -> View:
        addresses = tuple(self.addresses[name] for name in members)
        view_id = ViewId(counter, addresses[0])
        return MergeView(view_id, addresses, subgroups) if subgroups else View(view_id, addresses)

    def install(self, view: View, at: str, **missed: dict[str, int]) -> View:
        """All of `at` install `view`. missed: member -> `missed` of its MergeView, by names of senders."""
        for name in at:
            lacks = {self.addresses[sender]: number for sender, number in missed.get(name, {}).items()}
            shown = MergeView(view.id, view.members, view.subgroups, lacks) if isinstance(view, MergeView) else view
            self.history.add(h.InstalledView(self.tick(), self.addresses[name], shown, self.views[name]))
            self.views[name] = view
        return view

    def group(self, counter: int, members: str) -> View:
        return self.install(self.view(counter, members), members)

    def send(
        self, name: str, *payloads: str, dest: str | None = None, flags: int = 0, sites: tuple[str, ...] | None = None,
    ) -> None:
        to = self.addresses[dest] if dest else None
        data = tuple(payload.encode() for payload in payloads)
        self.history.add(h.MessageSent(
            self.tick(), self.addresses[name], to, data, flags, self.views[name], sites=sites))

    def deliver(
        self, src: str | Address, *payloads: str, at: str, unicast: bool = False, flags: int = 0, place: int = 0,
    ) -> None:
        for name in at:
            dest = self.addresses[name] if unicast else None
            source = self.addresses[src] if isinstance(src, str) else src
            data = tuple(payload.encode() for payload in payloads)
            self.history.add(h.MessageDelivered(
                self.tick(), self.addresses[name], source, dest, data, flags, self.views[name], place))

    def proxy(self, name: str, relay: str, site: str | None = None) -> ProxyUUID:
        return ProxyUUID(self.addresses[name], self.addresses[relay], site or self.proxies[name])

    def global_view(self, name: str, **sites: str) -> None:
        """It installs a global view."""
        members = {site: tuple(self.addresses[one] for one in names) for site, names in sites.items()}
        self.history.add(h.GlobalInstall(self.tick(), self.addresses[name], GlobalView(members)))

    def crash(self, name: str) -> None:
        self.history.add(h.Crash(self.tick(), self.addresses[name]))

    def leaving(self, name: str) -> None:
        self.history.add(h.Leaving(self.tick(), self.addresses[name]))

    def leave(self, name: str) -> None:
        """It has left, as it requested."""
        self.history.add(h.MemberLeft(self.tick(), self.addresses[name], "left"))

    def gone(self, name: str, other: str) -> None:
        """It is certain that the process of another one has ended."""
        self.history.add(h.ReportedGone(self.tick(), self.addresses[name], self.addresses[other]))

    def heal(self) -> None:
        self.history.add(h.Healed(self.tick()))

    def end(self, live: str, pending: int = 0) -> None:
        self.history.add(h.End(self.tick(), {self.addresses[name]: pending for name in live}))


def broken(writer: HistoryWriter) -> list[str]:
    """The guarantees that the history breaks, each once."""
    return list(dict.fromkeys(violation.guarantee for violation in check(writer.history)))
