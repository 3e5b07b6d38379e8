"""What an operator is shown of the other sites: `jgroups site status`."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from jgroups_py.protocols.relay.sites import STATUS_NAMES, Book, Site, total

if TYPE_CHECKING:
    from jgroups_py.protocols.relay.relay import Relay


def report(relay: Relay) -> dict[str, Any]:
    """As this member sees it: exact for its own messages, the relay's word for the rest."""
    ledger = relay.ledger()
    return {
        "site": relay.config.site, "member": relay.me.name, "is_relay": relay.is_relay,
        "relay": relay.view.coordinator.name if relay.has_view else None,
        "held_messages": relay.hold.messages, "held_bytes": relay.hold.nbytes,
        "hold_limit_bytes": relay.config.hold_bytes,
        "sites": {site.name: about(relay, site, list(ledger[site.name].items())) for site in relay.table},
    }


def about(relay: Relay, site: Site, books: list[tuple[Any, Book]]) -> dict[str, Any]:
    """One other site. takes_us_for: its opinion of ours, where we are the relay and it said so."""
    theirs = relay.status.takes_us_for.get(site.name)
    return {
        "status": STATUS_NAMES[site.status], "forbidden": site.forbidden, "draining": site.draining is not None,
        "on_hold": site.paused,
        "takes_us_for": None if theirs is None else STATUS_NAMES.get(theirs),
        "members": [member.name for member in site.members],
        **total(book for _, book in books),
        "origins": [{"origin": origin.name, "address": origin.raw.hex(), **attrs.asdict(book)}
                    for origin, book in books if book.numbered],
    }
