"""STATE_TRANSFER: a member gets the application's state from another. See protocol.py and design/protocols."""
from jgroups_py.protocols.state_transfer.config import StateTransferConfig
from jgroups_py.protocols.state_transfer.headers import Ask, Cut, Enough, More, Part, Refused
from jgroups_py.protocols.state_transfer.protocol import StateTransfer

__all__ = ["Ask", "Cut", "Enough", "More", "Part", "Refused", "StateTransfer", "StateTransferConfig"]
