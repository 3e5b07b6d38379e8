"""Safeguards of states, of the own group and of other sites, shown by profiles states and site-states."""
from __future__ import annotations

from typing import Any

from jgroups_py.model.batch import Batch
from jgroups_py.protocols.relay.inbound.delivery import RemoteDelivery
from jgroups_py.protocols.relay.origin.send_gate import SendGate
from jgroups_py.protocols.relay.state.forwarder import StateForwarder
from jgroups_py.protocols.relay.state.provider import StateProvider
from jgroups_py.protocols.state_transfer.protocol import StateTransfer
from jgroups_py.protocols.state_transfer.transfers import Position, ProvidedState, RequestedState
from tests.simulator.planted_bugs.safeguard import Patch, Safeguard


def always(mine: Any, its: Any) -> bool:
    """Any counts cover any others."""
    return True


def all_is_delivered(self: StateTransfer, transfer: RequestedState, batch: Batch) -> None:
    self.deliver(batch)


def one_part_lost(self: StateTransfer, number: int, state: ProvidedState) -> None:
    state.read()
    send_parts(self, number, state)


send_parts = StateTransfer.send_parts


def nothing(self: Any, *_: Any) -> None:
    """Does nothing."""


def cut_at_once(self: StateProvider) -> None:
    for key in list(self.waiting):
        self.fix(key)


def put_nothing_off(self: StateForwarder, site: str, origin: Any) -> bool:
    return False


def keep_nothing_back(self: SendGate, closed: bool, why: str) -> None:
    """Members go on multicasting."""


def skip_nothing(self: RemoteDelivery, vector: Any) -> tuple[()]:
    return ()


def guard(name: str, left: str, owner: Any, method: str, without: Any, breaks: str = "G") -> Safeguard:
    """A safeguard of STATE_TRANSFER."""
    return Safeguard(name, "STATE_TRANSFER", left, (Patch(owner, method, without),), "states", breaks)


def far(name: str, left: str, owner: Any, method: str, without: Any, breaks: str = "G") -> Safeguard:
    """A safeguard of rule 16 of RELAY."""
    return Safeguard(name, "16", left, (Patch(owner, method, without),), "site-states", breaks)


STATES_SAFEGUARDS = (
    guard("a cut is reached first", "the state begins, and is cut, whatever has been delivered", Position,
          "covers", always),
    guard("multicasts wait for the cut", "they are delivered as they come", StateTransfer, "keep_back",
          all_is_delivered),
    guard("all bytes of a state arrive", "a part is dropped whenever more is allowed", StateTransfer, "send_parts",
          one_part_lost),
    guard("requests are answered", "they are dropped", StateTransfer, "on_request", nothing, "L"),
    far("a state is cut where the site has delivered everything before",
        "the provider does not wait until it has that", StateProvider, "fix_covered_states", cut_at_once),
    far("dissemination waits for a state", "the relay goes on", StateForwarder, "defers", put_nothing_off),
    far("multicasts wait for a state of another site", "members go on multicasting", SendGate, "shut",
        keep_nothing_back),
    far("what a state contains is not delivered", "members deliver it as well", RemoteDelivery, "skip_to",
        skip_nothing),
    far("a failed attempt is over at every member", "its end is not announced", StateForwarder, "abandon", nothing,
        "L"),
)
