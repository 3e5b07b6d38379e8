"""The relays of other sites that have sent HELLO to this relay, with a cursor each."""
from __future__ import annotations

from jgroups_py.protocols.relay.outbound.peers import RelayPeers
from jgroups_py.protocols.relay.part import RelayPart, RelayPort


class PeerCursors(RelayPart, RelayPeers):
    """RelayPeers as one of RELAY's parts. Introducer adds and removes peers; without a bridge there are none."""

    def __init__(self, layer: RelayPort) -> None:
        RelayPart.__init__(self, layer)
        RelayPeers.__init__(self)
