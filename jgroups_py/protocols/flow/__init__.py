"""MFC and UFC: flow control by credits (protocol.py). FLOW: by strategy (flow.py). design/protocols/flow.md."""
from jgroups_py.protocols.flow.config import FlowConfig
from jgroups_py.protocols.flow.flow import FlowControl
from jgroups_py.protocols.flow.flow_config import FlowControlConfig
from jgroups_py.protocols.flow.protocol import Mfc, Ufc

__all__ = ["FlowConfig", "FlowControl", "FlowControlConfig", "Mfc", "Ufc"]
