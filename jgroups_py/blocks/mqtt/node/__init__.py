"""A whole broker as its file describes it: clients, other nodes, REST."""
from jgroups_py.blocks.mqtt.node.node import BrokerNode

__all__ = ["BrokerNode"]
