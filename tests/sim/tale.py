"""Hand-made histories in few words."""
from __future__ import annotations

from jgroups_py.address import Address, ProxyUUID
from jgroups_py.sim import history as h
from jgroups_py.sim.checkers import check
from jgroups_py.units import seconds
from jgroups_py.view import GlobalView, MergeView, View, ViewId


class Tale:
    """Writes a history in few words; every call is 10 ms after the one before."""

    def __init__(self, **sites: str) -> None:
        """sites: site -> its members' names; none: members A B C D without a site."""
        self.history = h.History()
        self.at_ns = 0
        self.who: dict[str, Address] = {}
        self.views: dict[str, View | None] = {}
        self.proxies: dict[str, str] = {}
        for site, names in (sites or {"": "ABCD"}).items():
            for name in names:
                self.who[name] = Address(name.encode().rjust(16, b"0"), name)
                self.views[name] = None
                self.proxies[name] = site
                self.history.started(0, self.who[name], name, site)

    def tick(self) -> int:
        self.at_ns += seconds(0.01)
        return self.at_ns

    def view(self, counter: int, members: str, subgroups: tuple[View, ...] = ()) -> View:
        addresses = tuple(self.who[name] for name in members)
        view_id = ViewId(counter, addresses[0])
        return MergeView(view_id, addresses, subgroups) if subgroups else View(view_id, addresses)

    def install(self, view: View, at: str, **missed: dict[str, int]) -> View:
        """All of `at` install `view`. missed: member -> what the MergeView says that it has not got, by senders."""
        for name in at:
            lacks = {self.who[sender]: number for sender, number in missed.get(name, {}).items()}
            shown = MergeView(view.id, view.members, view.subgroups, lacks) if isinstance(view, MergeView) else view
            self.history.add(h.Install(self.tick(), self.who[name], shown, self.views[name]))
            self.views[name] = view
        return view

    def group(self, counter: int, members: str) -> View:
        return self.install(self.view(counter, members), members)

    def send(self, name: str, *payloads: str, dest: str | None = None, flags: int = 0) -> None:
        to = self.who[dest] if dest else None
        data = tuple(payload.encode() for payload in payloads)
        self.history.add(h.Send(self.tick(), self.who[name], to, data, flags, self.views[name]))

    def deliver(self, src: str | Address, *payloads: str, at: str, unicast: bool = False, flags: int = 0) -> None:
        for name in at:
            dest = self.who[name] if unicast else None
            source = self.who[src] if isinstance(src, str) else src
            data = tuple(payload.encode() for payload in payloads)
            self.history.add(h.Delivery(self.tick(), self.who[name], source, dest, data, flags, self.views[name]))

    def proxy(self, name: str, relay: str, site: str | None = None) -> ProxyUUID:
        return ProxyUUID(self.who[name], self.who[relay], site or self.proxies[name])

    def sees(self, name: str, **sites: str) -> None:
        """A global view."""
        members = {site: tuple(self.who[one] for one in names) for site, names in sites.items()}
        self.history.add(h.GlobalInstall(self.tick(), self.who[name], GlobalView(members)))

    def crash(self, name: str) -> None:
        self.history.add(h.Crash(self.tick(), self.who[name]))

    def wants_to_leave(self, name: str) -> None:
        self.history.add(h.Leaving(self.tick(), self.who[name]))

    def leave(self, name: str) -> None:
        """It is out, as it asked for."""
        self.history.add(h.Leave(self.tick(), self.who[name], "left"))

    def heal(self) -> None:
        self.history.add(h.Healed(self.tick()))

    def end(self, live: str, pending: int = 0) -> None:
        self.history.add(h.End(self.tick(), {self.who[name]: pending for name in live}))


def broken(tale: Tale) -> list[str]:
    """The guarantees that the tale breaks, each once."""
    return list(dict.fromkeys(violation.guarantee for violation in check(tale.history)))
