"""What relays say to each other on the bridge, handed to the half of RELAY that it concerns."""
from __future__ import annotations

from typing import TYPE_CHECKING

from jgroups_py.address import Address
from jgroups_py.batch import NO_RELIABILITY, Batch, Header
from jgroups_py.protocols.relay.headers import (
    Base,
    Forward,
    Goodbye,
    Hello,
    Letter,
    LetterSeen,
    Need,
    Probe,
    Refused,
    Seen,
    Standing,
    View,
)
from jgroups_py.protocols.relay.interests import Wants
from jgroups_py.protocols.relay.receipt_headers import Settled, Wanted
from jgroups_py.protocols.relay.state_headers import Keyed

if TYPE_CHECKING:
    from jgroups_py.protocols.relay.relay import Relay


def from_bridge(relay: Relay, batch: Batch) -> None:
    """A message of another relay; claims (messages, unicasts) count only from the accepted one of its site.

    Nothing counts from one that is not on the bridge as we see it. It died while this was under way, and as a peer it
    would hold up TRIM for ever; or our view of the bridge is late: when it comes we greet the other, and it answers.
    """
    header, inner, src = batch.headers[-1], batch.pop(), batch.src
    if batch.flags & NO_RELIABILITY or relay.sending.bridge_view is None or src not in relay.sending.bridge_view:
        return relay.count("from_strangers")
    if isinstance(header, Forward):
        peer = relay.sending.obeyed(header.site, header.epoch, src)
        if peer is not None:
            relay.receiving.forward(header, inner, peer)
    elif isinstance(header, Letter):
        if header.epoch is not None and relay.sending.obeyed(header.origin_site, header.epoch, src) is not None:
            relay.post.onward(header, inner)
    elif isinstance(header, Keyed):
        relay.states.carrier.from_bridge(header, inner.payloads, src)
    elif isinstance(header, LetterSeen):
        relay.post.seen_onward(header)
    else:
        control(relay, header, src)
    return None


def control(relay: Relay, header: Header, src: Address) -> None:
    """What relays tell each other about themselves and about what they have."""
    sending = relay.sending
    if isinstance(header, Seen):
        sending.on_seen(header, src)
    elif isinstance(header, Hello):
        sending.on_hello(header, src)
    elif isinstance(header, View):
        sending.on_view(header, src)
    elif isinstance(header, Wants):
        relay.interests.heard(header, src)
    elif isinstance(header, Need):
        sending.on_need(header, src)
    elif isinstance(header, Refused):
        sending.on_refused(header)
    elif isinstance(header, Goodbye):
        sending.on_goodbye(header, src)
    elif isinstance(header, Standing):
        relay.status.on_standing(header, src)
    elif isinstance(header, Base):
        # A claim like FORWARD: another half of a split site may know nothing of an origin but what it was told.
        if sending.obeyed(header.site, header.epoch, src) is not None:
            relay.receiving.gone(header)
    elif isinstance(header, Probe):
        peer = sending.peers.get(src)
        if peer is None:
            relay.count("from_strangers")
        else:
            relay.receiving.probe(peer.site.name, header.numbers, peer)
    elif isinstance(header, (Wanted, Settled)):
        relay.receipts.from_bridge(header, src)
    else:
        relay.count("unexpected_on_bridge")
