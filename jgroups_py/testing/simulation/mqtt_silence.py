"""What a simulated broker may do with a peer that is silent: acknowledgements wait for a peer that answers (Q1), and
for one that nothing comes from no longer than it takes to see that (Q11).

The check has its own notes of what came from whom; of the broker it takes only what that waits for.
"""
from __future__ import annotations

from jgroups_py.blocks.mqtt.federation.core import FederationCore
from jgroups_py.blocks.mqtt.federation.stream import PeerEvent
from jgroups_py.model.units import millis, seconds
from jgroups_py.testing.simulation.ledger import Broken

LONGEST_PATIENCE_NS = seconds(1)
"""With a peer whose answers usually take long, or which has just come."""
SLACK_NS = millis(500)
"""Looks that come late are not counted by the broker."""
STOOD_STILL_NS = millis(400)
"""A broker has something to do more often than this."""


class SilenceCheck:
    """Of one life of a broker. silent_ns: its option `silent_s`."""

    def __init__(self, core: FederationCore, silent_ns: int, now_ns: int) -> None:
        self._core = core
        self._silent_ns = silent_ns
        self._heard: dict[str, int] = {}                 # name -> when something came last
        self._waiting: dict[str, tuple[PeerEvent, int]] = {}         # name -> the oldest that is waited for, since when
        self._ran_ns = now_ns                            # when it did something last
        self._went_on_ns = now_ns                        # since when it has not stood still

    def ran(self, now_ns: int) -> None:
        """The broker does something now."""
        if now_ns - self._ran_ns > STOOD_STILL_NS:
            self._went_on_ns = now_ns
        self._ran_ns = now_ns

    def heard(self, name: str, now_ns: int) -> None:
        """A frame of a peer has come."""
        self._heard[name] = now_ns

    def check(self, now_ns: int) -> None:
        """Now, while nothing is being handled."""
        bound_ns = max(LONGEST_PATIENCE_NS, self._silent_ns) + SLACK_NS
        for peer in self._core.peers.values():
            heard_ns = max(self._heard.get(peer.name, 0), peer.came_ns)
            if peer.is_up and not peer.is_awaited and now_ns - heard_ns < self._silent_ns:
                raise Broken("Q1", f"{self._core.name} waits no longer for {peer.name}, which it heard "
                                   f"{(now_ns - heard_ns) / 1e6:.3f} ms ago")
            oldest = next((event for event in (*peer.stream.under_way, *peer.stream.queued, *peer.undecided)
                           if event.token and event.item is not None), None)
            known = self._waiting.get(peer.name)
            if oldest is None:
                self._waiting.pop(peer.name, None)
            elif known is None or known[0] is not oldest:
                self._waiting[peer.name] = oldest, now_ns
            elif peer.is_up and now_ns - max(known[1], heard_ns, self._went_on_ns) > bound_ns:
                raise Broken("Q11", f"{self._core.name} waits for {peer.name}, which is silent since "
                                    f"{heard_ns / 1e9:.6f} s")
