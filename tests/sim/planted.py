"""Bugs planted into the production core, each the removal of one safeguard, for the simulator to find.

The same table, in words, is design/safeguards.md.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs

from jgroups_py.events import Filled, Frozen
from jgroups_py.protocols.gms.flush import Flush
from jgroups_py.protocols.gms.gms import Gms
from jgroups_py.protocols.nakack.nakack import Nakack
from jgroups_py.protocols.relay.receiving import Receiving
from jgroups_py.protocols.relay.relay import Relay
from jgroups_py.protocols.relay.sending import Sending
from jgroups_py.protocols.relay.sites import Site
from jgroups_py.protocols.unicast.protocol import Unicast


@attrs.frozen
class Safeguard:
    """A method that is replaced, the profile whose seeds show it, the guarantee that then breaks."""

    name: str
    owner: type
    method: str
    without: Callable[..., Any]
    profile: str
    breaks: str


def no_windows(self: Nakack, header: Any, batch: Any) -> None:
    """Multicasts go up as they come."""
    self.pass_up(batch)


def no_digest_exchange(self: Nakack, event: Any) -> None:
    """Nothing is fetched before a view."""
    self.pass_up(Filled(event.cut))


def no_freeze(self: Nakack, event: Any) -> None:
    """Sending and delivering go on while a view changes."""
    self.pass_up(Frozen({member: self.reach(member) for member in self.members}))


def nothing(self: Any, *_: Any) -> None:
    """What is asked for is not done."""


def one_is_enough(self: Flush, member: Any) -> bool:
    """A view is installed on the first acknowledgement."""
    return True


def unicasts_as_they_come(self: Unicast, header: Any, batch: Any) -> None:
    """Unicasts go up as they come."""
    if self.members is not None:
        self.pass_up(batch)


def acknowledged_before_backups_have_it(self: Receiving, site: str, origin: Any) -> int:
    """The relay acknowledges what only it has for certain."""
    return self.seen.get(site, {}).get(origin, 1)


def no_backups(self: Relay, member: Any) -> bool:
    """Only origin and relay hold runs."""
    return False


def every_epoch_is_obeyed(self: Site, epoch: Any) -> bool:
    """No fencing."""
    self.epoch = epoch
    return True


def no_dedupe(self: Receiving, header: Any, batch: Any) -> None:
    """Members deliver whatever is disseminated."""
    if self.synced:
        self.seen.setdefault(header.site, {})[header.origin] = header.first + batch.count
        self.deliver(header, batch, batch.src)


SAFEGUARDS = (
    Safeguard("windows of NAKACK", Nakack, "data", no_windows, "group", "F"),
    Safeguard("digest exchange", Nakack, "fill", no_digest_exchange, "group", "S5"),
    Safeguard("freeze during a view change", Nakack, "freeze", no_freeze, "group", "S5"),
    Safeguard("resending multicasts", Nakack, "asked", nothing, "group", "L"),
    Safeguard("all acknowledge a view first", Flush, "ack", one_is_enough, "group", "S5"),
    Safeguard("suspicions", Gms, "suspect", nothing, "group", "L"),
    Safeguard("merging", Gms, "merge_needed", nothing, "group", "L"),
    Safeguard("windows of UNICAST", Unicast, "data", unicasts_as_they_come, "group", "S2"),
    Safeguard("resending unicasts", Unicast, "asked_again", nothing, "group", "L"),
    Safeguard("acknowledge late", Receiving, "ackable", acknowledged_before_backups_have_it, "relay-crash", "R3"),
    Safeguard("backups", Relay, "is_backup", no_backups, "relay", "R3"),
    Safeguard("fencing", Site, "accepts", every_epoch_is_obeyed, "relay", "R8"),
    Safeguard("dedupe at every member", Receiving, "disseminate", no_dedupe, "relay", "R3"),
    Safeguard("asking for holes between sites", Sending, "on_need", nothing, "relay", "R3"),
)
