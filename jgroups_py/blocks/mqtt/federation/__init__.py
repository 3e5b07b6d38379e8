"""Brokers that act as one: the core (core.py), and a group that carries it (group_link.py, channel_link.py)."""
