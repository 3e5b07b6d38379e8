"""TOPICS: multicasts about a topic reach the members, and cross to the sites, that are interested in it."""
from jgroups_py.protocols.topics.protocol import Topics

__all__ = ["Topics"]
