"""What each header on the bridge says about sites and members: the one list by which its sender is judged.

A site speaks for itself alone (K8): its relay may name its own site, members and origins as such, and those of the
receiving site as the receiver's. What it carries of third sites is carried, not claimed: the vector of a HELLO or of a
state lists what a site has of all others, and counts for that site only. A header that is not listed here cannot be
received on the bridge at all (`Relay.assemble`).
"""
from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import attrs

from jgroups_py.model.address import Address
from jgroups_py.model.batch import Header
from jgroups_py.protocols.relay.headers import (
    BaseHeader,
    Forward,
    Goodbye,
    HelloHeader,
    NeedHeader,
    ProbeHeader,
    RefusedHeader,
    SeenHeader,
    SiteInterestHeader,
    SiteUnicast,
    SiteUnicastSeen,
    StandingHeader,
    ViewHeader,
)
from jgroups_py.protocols.relay.headers.receipts import AwaitSettled, Settled
from jgroups_py.protocols.relay.headers.state import (
    Key,
    Keyed,
    StateFailed,
    StateFetch,
    StateFixed,
    StateMore,
    StatePiece,
)


@attrs.frozen
class Claims:
    """site: of the sender, if the header names it. theirs: members and origins of the sender's site; ours: of the
    receiver's. our_site: the name that must be the receiver's. attempt: the attempt to get a state of which the sender
    must be the other side."""

    site: str | None = None
    theirs: Iterable[Address] = ()
    ours: Iterable[Address] = ()
    our_site: str | None = None
    attempt: Key | None = None


NOTHING = Claims()


def _forward(header: Forward, own: str) -> Claims:
    return Claims(header.site, (header.origin,))


def _hello(header: HelloHeader, own: str) -> Claims:
    return Claims(header.site, ours=header.seen.get(own, {}))


def _view(header: ViewHeader, own: str) -> Claims:
    return Claims(header.site, header.members)


def _of_our_origins(header: SeenHeader | NeedHeader, own: str) -> Claims:
    return Claims(ours=header.numbers)


def _of_their_origins(header: ProbeHeader | AwaitSettled, own: str) -> Claims:
    return Claims(theirs=header.numbers)


def _settled(header: Settled, own: str) -> Claims:
    return Claims(ours=(*header.numbers, *header.lost))


def _site_alone(header: Goodbye | StandingHeader, own: str) -> Claims:
    return Claims(header.site)


def _base(header: BaseHeader, own: str) -> Claims:
    return Claims(header.site, (*header.numbers, *header.owed))


def _unicast(header: SiteUnicast, own: str) -> Claims:
    return Claims(header.origin_site, (header.origin,), (header.dest,), header.dest_site)


def _unicast_seen(header: SiteUnicastSeen, own: str) -> Claims:
    return Claims(None, (header.dest,), (header.origin,), header.origin_site)


def _state_request(header: StateFetch, own: str) -> Claims:
    return Claims(theirs=(header.requester,), ours=(header.target,))


def _state_exchange(header: Keyed, own: str) -> Claims:
    return Claims(attempt=header.key)


def _nothing(header: Header, own: str) -> Claims:
    return NOTHING


CLAIMS: dict[type[Header], Callable[[Any, str], Claims]] = {
    Forward: _forward, HelloHeader: _hello, ViewHeader: _view, SeenHeader: _of_our_origins,
    NeedHeader: _of_our_origins, ProbeHeader: _of_their_origins, AwaitSettled: _of_their_origins, Settled: _settled,
    Goodbye: _site_alone, StandingHeader: _site_alone, BaseHeader: _base, SiteUnicast: _unicast,
    SiteUnicastSeen: _unicast_seen, StateFetch: _state_request, StateFixed: _state_exchange,
    StatePiece: _state_exchange, StateMore: _state_exchange, StateFailed: _state_exchange,
    # An epoch of the receiver's site: the introducer decides how far, and how often, it is followed.
    RefusedHeader: _nothing, SiteInterestHeader: _nothing,
}
"""Header -> what it claims at a site of this name."""
