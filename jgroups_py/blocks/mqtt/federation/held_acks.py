"""HeldAcks: when the events of peers are acknowledged, which the publishers there wait for. Pure.

A frame of events is acknowledged when it has been carried out, unless something of it is not safe yet:

    the copies of the sessions here do not have it                              copies.py
    it went on to a node that a session has moved to, which does not have it    `onward_token`; `ack_timeout_s` at most
    it was given on to a node with a member of its shared subscription          the same, unless that node is silent
    it is for a session that is on its way here, and in no other queue          `hold_for_arrival`

What is held is freed in the order of the stream (FederationPeer.held_acks).
"""
from __future__ import annotations

from typing import Protocol

import attrs

from jgroups_py.blocks.mqtt.broker.broker import Broker
from jgroups_py.blocks.mqtt.broker.publication import SECOND, Publication
from jgroups_py.blocks.mqtt.federation.copies import SessionCopies
from jgroups_py.blocks.mqtt.federation.handover import Handovers
from jgroups_py.blocks.mqtt.federation.peer import FederationPeer, HeldPeerAck
from jgroups_py.model.counters import Counters


class HeldAcksHost(Protocol):
    """What this asks of the federation."""

    counters: Counters

    @property
    def broker(self) -> Broker:
        """The broker."""

    def new_token(self) -> int:
        """A token that waits for one more than it is given to."""

    def retain(self, token: int) -> None:
        """A token waits for one more."""

    def settle(self, token: int) -> None:
        """One of those that a token waits for is done."""

    def made(self, token: int) -> int:
        """No more is added to what a token waits for: the token, or 0 if it waits for nothing."""

    def stir(self) -> None:
        """There is something to drain."""


@attrs.define(eq=False)
class OnwardAck:
    """An acknowledgement to a peer that waits until others have what went on to them."""

    peer: FederationPeer
    held: HeldPeerAck
    at_ns: int
    is_given_up: bool = False


class HeldAcks:
    """See the module. `begin` and `finish` stand around what carries out a frame of events."""

    def __init__(self, host: HeldAcksHost, copies: SessionCopies, handovers: Handovers) -> None:
        self._host = host
        self._copies = copies
        self._handovers = handovers
        self._carries_out = False
        self._token = 0                                  # what the frame that is carried out waits for; 0: nothing
        self._onwards: dict[int, OnwardAck] = {}         # by the token
        self._arrivals: dict[str, list[int]] = {}        # client id -> the tokens that wait for its session

    def begin(self) -> None:
        """The events of a frame are carried out."""
        self._carries_out = True

    def finish(self, peer: FederationPeer, now_ns: int) -> None:
        """They have been: they are acknowledged once nothing is waited for."""
        self._carries_out = False
        token, self._token = self._token, 0
        if token:
            token = self._host.made(token)
        is_dirty = self._copies.is_dirty
        if is_dirty or token or peer.held_acks:
            held = peer.hold_ack(is_dirty + (token > 0))
            if is_dirty:
                self._copies.wait(lambda: self.free(peer, held))
            if token:
                self._onwards[token] = OnwardAck(peer, held, now_ns)

    def free(self, peer: FederationPeer, held: HeldPeerAck) -> None:
        """One of those that an acknowledgement waits for is done."""
        held.waits -= 1
        peer.owes_ack = True
        self._host.stir()

    # --- what went on to another node ---------------------------------------------------------------------------------

    def onward_token(self) -> int:
        """The token for what goes on to a peer now; 0 if it is of no frame that is carried out."""
        if self._carries_out and not self._token:
            self._token = self._host.new_token()
        return self._token

    def came(self, token: int) -> bool:
        """What a token waited for is done; whether it is one of these."""
        found = self._onwards.pop(token, None)
        if found is not None and not found.is_given_up:
            self.free(found.peer, found.held)
        return found is not None

    def look(self, now_ns: int) -> None:
        """No acknowledgement waits longer than `ack_timeout_s` for what went on."""
        timeout_ns = round(self._host.broker.options.ack_timeout_s * SECOND)
        for found in self._onwards.values():
            if now_ns - found.at_ns < timeout_ns:
                return                                   # they are in order
            if not found.is_given_up:
                found.is_given_up = True
                self._host.counters.add("onward_late")
                self.free(found.peer, found.held)

    # --- what is for a session on its way -----------------------------------------------------------------------------

    def hold_for_arrival(self, client_id: str) -> None:
        """What is carried out now is acknowledged when a session is here that is on its way, and in its copies."""
        token = self.onward_token()
        if token:
            self._host.retain(token)
            self._arrivals.setdefault(client_id, []).append(token)

    def hold_for_members(self, publication: Publication) -> None:
        """The same for a message of a shared subscription, if it has just gone to such a session: it is nowhere else,
        and there are no copies of the session yet."""
        for client_id, arriving in self._handovers.arriving.items():
            session = self._host.broker.sessions.get(client_id)
            if arriving.is_copy and session is not None and session.queue:
                last = session.queue[-1]
                if last.group and last.publication is publication:
                    self.hold_for_arrival(client_id)

    def look_at_arrivals(self) -> None:
        """Of sessions that are here now, the copies are waited for."""
        for client_id, tokens in list(self._arrivals.items()):
            if not self._handovers.is_incomplete(client_id):
                del self._arrivals[client_id]
                for token in tokens:
                    self._after_copies(token)

    def _after_copies(self, token: int) -> None:
        if not self._copies.wait(lambda: self._host.settle(token)):
            self._host.settle(token)
