"""NAKACK: reliable multicast, in each sender's order, and the half of virtual synchrony that holds messages.

protocol.py is the layer; nak_sender.py requests what is missing, nak_schedule.py decides when, retransmit_queue.py
answers such requests. future_views.py keeps batches of views that are not installed yet, last_seqno_announcer.py makes
the loss of a sender's last message noticeable. headers.py is what goes over the wire, config.py the properties.
"""
from jgroups_py.protocols.nakack.config import NakackConfig
from jgroups_py.protocols.nakack.protocol import Nakack

__all__ = ["Nakack", "NakackConfig"]
