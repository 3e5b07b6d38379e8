"""STATE_TRANSFER: a member gets the application's state from another one. See protocol.py and design/protocols."""
from jgroups_py.protocols.state_transfer.config import StateTransferConfig
from jgroups_py.protocols.state_transfer.headers import (
    StateCancelHeader,
    StateCutHeader,
    StatePartHeader,
    StateRefusedHeader,
    StateRequestHeader,
    StateWindowHeader,
)
from jgroups_py.protocols.state_transfer.protocol import StateTransfer

__all__ = ["StateCancelHeader", "StateCutHeader", "StatePartHeader", "StateRefusedHeader", "StateRequestHeader",
           "StateTransfer", "StateTransferConfig", "StateWindowHeader"]
