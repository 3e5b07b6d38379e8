"""Forgetting (rule 19): all state about an origin goes `forget_after` after it left its site's view.

Runs on a timer of that length, in two strokes: what is found gone at one stroke and still gone at the next is
forgotten, so state lives between one and two times `forget_after`. Time in which a site is not UP does not count for
its origins: nor does it count there for what the site holds, and sends again when it is back.
"""
from __future__ import annotations

from typing import TYPE_CHECKING

from jgroups_py.address import Address
from jgroups_py.protocols.relay.sites import UP

if TYPE_CHECKING:
    from jgroups_py.protocols.relay.relay import Relay


class Memory:
    """Origins that were gone at the last stroke."""

    def __init__(self, relay: Relay) -> None:
        self.relay = relay
        self.gone: dict[Address, None] = {}

    def known(self) -> dict[Address, None]:
        """Every origin that some state is about."""
        relay = self.relay
        found: dict[Address, None] = dict.fromkeys((*relay.numbers, *relay.ends))
        for numbers in relay.receiving.seen.values():
            found.update(dict.fromkeys(numbers))
        found.update(dict.fromkeys(relay.post.inbox.wanted))
        found.update({box.dest: None for box in relay.post.out})
        return found

    def forget(self) -> None:
        """One stroke."""
        relay = self.relay
        present = dict.fromkeys([*relay.view.members, *relay.site_of_member])
        for site in relay.table:
            if site.status != UP:
                present.update(dict.fromkeys(relay.receiving.seen.get(site.name, {})))
        gone = {origin: None for origin in self.known() if origin not in present}
        for origin in self.gone:
            if origin in gone and origin not in relay.hold.runs:
                self.forget_origin(origin)
                del gone[origin]
        self.gone = gone

    def site_away(self, name: str) -> None:
        """A site is no longer UP: its origins' time begins anew when it is."""
        for origin in self.relay.receiving.seen.get(name, {}):
            self.gone.pop(origin, None)

    def forget_origin(self, origin: Address) -> None:
        """Everything about one origin."""
        relay = self.relay
        relay.numbers.pop(origin, None)
        relay.ends.pop(origin, None)
        relay.divergence.from_disk.pop(origin, None)
        relay.hold.forget(origin)
        relay.receipts.forget(origin)
        relay.post.inbox.wanted.pop(origin, None)
        box = relay.post.out.get(origin)
        if box is not None and not box.runs:
            del relay.post.out.boxes[origin]
        receiving = relay.receiving
        receiving.asked.pop(origin, None)
        receiving.proxies.pop(origin, None)
        for vector in (receiving.seen, receiving.next_out, receiving.acked_out, receiving.to_ack):
            for numbers in vector.values():
                numbers.pop(origin, None)
        for site in relay.table:
            site.forget(origin)
        relay.count("forgotten")
