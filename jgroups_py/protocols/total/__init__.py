"""TOTAL: all members deliver the multicasts of all senders in one order.

protocol.py is the layer: it gives places. safe_order.py keeps back what some member may lack (order="safe").
unplaced.py keeps what has no place yet; headers.py is what goes over the wire, config.py the properties.
"""
from jgroups_py.protocols.total.config import TotalConfig
from jgroups_py.protocols.total.protocol import Total

__all__ = ["Total", "TotalConfig"]
