"""From RELAY to the node and to the application."""
from __future__ import annotations

import attrs

from jgroups_py.model.address import Address
from jgroups_py.model.batch import Batch
from jgroups_py.model.outputs.base import Output
from jgroups_py.model.view import GlobalView, ViewId


@attrs.frozen(eq=False)
class GlobalViewInstalled(Output):
    """RELAY's view of all sites changed."""

    view: GlobalView


@attrs.frozen(eq=False)
class SiteStatusChanged(Output):
    """The status of another site changed; it is "UP", "DOWN" or "OFFLINE"."""

    site: str
    status: str


@attrs.frozen(eq=False)
class RelayAccepted(Output):
    """This relay accepts from now on the relay of another site whose local view is `epoch` (relay rule 11)."""

    site: str
    epoch: ViewId


@attrs.frozen(eq=False)
class MessagesLost(Output):
    """Messages `first` to `stop` of `origin` at `site` will never be delivered here.

    site "": reported by NAKACK, of a member of this group whose messages no member keeps any more; then the numbers are
    those of its multicasts in this view (a large message counts as its fragments), not those of RELAY. With RELAY, what
    it numbers is reported by its own numbers, with this site's name, when the origin's next message comes; the rest
    then, or when the origin is gone, with site "" and the numbers of the view in which it was lost. dest_site: where
    this is reported at the origin's own site (the messages were delivered here), the other site that will never get
    them; else None.
    """

    site: str
    origin: Address
    first: int
    stop: int
    dest_site: str | None = None


@attrs.frozen(eq=False)
class SiteCommandDone(Output):
    """The event SiteCommand `number` was carried out, or why not."""

    number: int
    error: str


@attrs.frozen(eq=False)
class SiteReceipt(Output):
    """What became of the message sent as SendUntil(ticket).

    Every living member of `views` (site -> the local views of its relays) has it; or it is lost for site `lost_for`:
    some member there will not get it. `views` then names the sites that had it before.
    """

    ticket: int
    views: dict[str, tuple[ViewId, ...]]
    lost_for: str = ""


@attrs.frozen(eq=False)
class OpenBridge(Output):
    """Build the bridge stack from `props` (as in RELAY's bridge_props) and connect it to cluster `name`.

    expected: relays of other sites are on it, as far as this site knows (Connect).
    """

    props: str
    name: str
    expected: bool = False


@attrs.frozen(eq=False)
class CloseBridge(Output):
    """Leave the bridge and drop its stack."""


@attrs.frozen(eq=False)
class ToBridge(Output):
    """Send a batch through the bridge stack (its src is filled in by the node)."""

    batch: Batch


@attrs.frozen(eq=False)
class ReadyToLeave(Output):
    """RELAY has left the bridge; the node may disconnect the local stack."""
