"""PING: discovery by IP multicast. Source: JGroups PING.java."""
from __future__ import annotations

from jgroups_py.batch import Batch
from jgroups_py.protocols.discovery.base import Discovery


class Ping(Discovery):
    """One multicast reaches everybody."""

    def reach(self, question: Batch) -> None:
        if not self.addresses.has_multicast():
            self.count("questions_without_multicast")      # the transport's members are all we can reach then
        self.pass_down(question)
