"""MFC and UFC: flow control by credits. See protocol.py and design/protocols/flow.md."""
from jgroups_py.protocols.flow.config import FlowConfig
from jgroups_py.protocols.flow.protocol import Mfc, Ufc

__all__ = ["FlowConfig", "Mfc", "Ufc"]
