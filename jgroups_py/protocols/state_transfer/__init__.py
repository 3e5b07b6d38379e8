"""STATE_TRANSFER: a member gets the application's state from another. See protocol.py and design/protocols."""
from jgroups_py.protocols.state_transfer.config import StateTransferConfig
from jgroups_py.protocols.state_transfer.headers import (
    Enough,
    More,
    StateCutHeader,
    StatePartHeader,
    StateRefusedHeader,
    StateRequestHeader,
)
from jgroups_py.protocols.state_transfer.protocol import StateTransfer

__all__ = ["Enough", "More", "StateCutHeader", "StatePartHeader", "StateRefusedHeader", "StateRequestHeader",
           "StateTransfer", "StateTransferConfig"]
