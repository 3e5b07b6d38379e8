"""Safeguards of states, of the own group and of other sites, shown by profiles states and site-states."""
from __future__ import annotations

from typing import Any

from jgroups_py.batch import Batch
from jgroups_py.protocols.relay.gate import FULL, Gate
from jgroups_py.protocols.relay.state import States
from jgroups_py.protocols.relay.state_provider import Provider
from jgroups_py.protocols.relay.state_relay import StateRelay
from jgroups_py.protocols.state_transfer import protocol as transfer_module
from jgroups_py.protocols.state_transfer.parties import Session, Transfer
from jgroups_py.protocols.state_transfer.protocol import StateTransfer
from tests.sim.planted_bugs.safeguard import Patch, Safeguard


def always(mine: Any, its: Any) -> bool:
    """What is asked about its counts is true of any."""
    return True


def all_is_delivered(self: StateTransfer, transfer: Transfer, batch: Batch) -> None:
    self.deliver(batch)


def one_piece_lost(self: StateTransfer, number: int, session: Session) -> None:
    session.read()
    pump(self, number, session)


pump = StateTransfer.pump


def nothing(self: Any, *_: Any) -> None:
    """What is asked for is not done."""


def cut_at_once(self: Provider) -> None:
    for key in list(self.waiting):
        self.cut(key)


def put_nothing_off(self: StateRelay, site: str, origin: Any) -> bool:
    return False


def keep_nothing_back(self: Gate, closed: bool, why: str = FULL) -> None:
    """Members go on multicasting."""


def skip_nothing(self: States, vector: Any) -> tuple[()]:
    return ()


def guard(name: str, left: str, owner: Any, method: str, without: Any, breaks: str = "G") -> Safeguard:
    """A safeguard of STATE_TRANSFER."""
    return Safeguard(name, "STATE_TRANSFER", left, (Patch(owner, method, without),), "states", breaks)


def far(name: str, left: str, owner: Any, method: str, without: Any, breaks: str = "G") -> Safeguard:
    """A safeguard of rule 16 of RELAY."""
    return Safeguard(name, "16", left, (Patch(owner, method, without),), "site-states", breaks)


STATES_SAFEGUARDS = (
    guard("a cut is reached first", "the state begins, and is cut, whatever has been delivered", transfer_module,
          "covers", always),
    guard("multicasts wait for the cut", "they are delivered as they come", StateTransfer, "keep_back",
          all_is_delivered),
    guard("all bytes of a state arrive", "a piece is dropped whenever more is asked for", StateTransfer, "pump",
          one_piece_lost),
    guard("requests are answered", "nobody hears them", StateTransfer, "asked", nothing, "L"),
    far("states are cut behind what the site has", "the provider does not wait until it has that", Provider,
        "delivered", cut_at_once),
    far("dissemination waits for a state", "the relay goes on", StateRelay, "puts_off", put_nothing_off),
    far("multicasts wait for a state of another site", "members go on multicasting", Gate, "shut", keep_nothing_back),
    far("what a state holds is skipped", "members go on where they stood", States, "skip", skip_nothing),
    far("tries that failed are over", "nobody says so", StateRelay, "abandon", nothing, "L"),
)
