"""Node: one incarnation of a member: its local stack and, while RELAY asks for it, the bridge stack. Pure.

Five verbs drive it (send, receive, advance, drain, next_deadline_ns), plus `bound` and `notify` for events of the
sockets and `disconnect`. The same object runs under runtime/ and under simulator/. RELAY opens nothing itself: it emits
OpenBridge, ToBridge and CloseBridge; the node builds the bridge stack and passes BridgeView, BridgeDelivered and
BridgeClosed back to it.
"""
from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from random import Random
from typing import Any

from jgroups_py.config.spec import StackSpec
from jgroups_py.model.address import ADDRESS_BYTES, SITE_DIGEST_BYTES, Address, PhysicalAddress, site_digest
from jgroups_py.model.batch import Batch
from jgroups_py.model.errors import ConfigError
from jgroups_py.model.events import (
    AppBusy,
    Bound,
    BridgeClosed,
    BridgeDelivered,
    BridgeEnd,
    BridgeView,
    Connect,
    Disconnect,
    Event,
    LeaveRequested,
    Left,
    RenewViewKey,
)
from jgroups_py.model.outputs import (
    BRIDGE,
    LOCAL,
    CloseBridge,
    Closed,
    CloseTransport,
    Deliver,
    NodeFailed,
    OpenBridge,
    OpenTransport,
    Output,
    ReadyToLeave,
    SkipMulticasts,
    ToBridge,
    ViewInstalled,
    ViewKeyRenewed,
)
from jgroups_py.model.ports import Identities
from jgroups_py.model.secrets import Secrets
from jgroups_py.model.view import View
from jgroups_py.node.shedding import Shedding
from jgroups_py.stack.protocol import Protocol
from jgroups_py.stack.stack import Stack
from jgroups_py.stack.tracing import Trace

FOR_THE_NODE = frozenset((OpenBridge, ToBridge, CloseBridge, ReadyToLeave, NodeFailed, SkipMulticasts))
NO_BRIDGE = "this member is no relay now: a new key of the bridge's view is ordered at one"
BridgeLoader = Callable[[str], StackSpec]


class NodeStack(Stack):
    """A stack that collects the events that reached its top."""

    def __init__(self, layers: Sequence[Protocol], me: Address, **options: Any) -> None:
        self.surfaced: list[Event] = []
        super().__init__(layers, me, **options)

    def surface(self, event: Event) -> None:
        self.surfaced.append(event)


def new_address(rng: Random, name: str, site: str = "") -> Address:
    """A random address (not a UUID of any version: all 128 bits are drawn); that of a member of a site ends with the
    site's digest, so that no other site can claim it."""
    drawn = rng.getrandbits(8 * ADDRESS_BYTES).to_bytes(ADDRESS_BYTES, "big")
    return Address(drawn[:-SITE_DIGEST_BYTES] + site_digest(site) if site else drawn, name)


class Node:
    """One member, from connect to its end.

    spec: the local stack; name: logical name; seed: everything random follows from it and `name`; load_bridge: makes
    a StackSpec of RELAY's bridge_props; address: the member's, drawn from the seed by default. trace: the messages
    whose way is logged; explains: drops are reported. Both are emitted as Traced, in order with all other outputs.
    secrets: where keys and their random bytes come from; a stack with ENCRYPT needs it.
    """

    def __init__(
        self, spec: StackSpec, cluster: str, name: str, seed: str, now_ns: int = 0, *,
        load_bridge: BridgeLoader | None = None, address: Address | None = None, trace: Trace | None = None,
        explains: bool = False, secrets: Secrets | None = None,
    ) -> None:
        self.rng = Random(f"{seed}/{name}/node")
        layers = spec.build()
        relay = next((layer for layer in layers if BridgeView in layer.observers), None)
        self.me = address or new_address(self.rng, name, relay.config.site if relay is not None else "")
        self.name = name
        self.seed = seed
        self.cluster = cluster
        self.load_bridge = load_bridge
        self.outputs: list[Output] = []
        self.bridge: NodeStack | None = None
        self.bridge_request = OpenBridge("", "")             # the latest
        self.bridge_orders: dict[int, None] = {}             # of a new key there, that are not answered yet
        self.bridge_number = 0
        self.closed = False
        self.shedding = Shedding()
        self.trace = trace
        self.explains = explains
        self.secrets = secrets
        self.local = NodeStack(layers, self.me, net=LOCAL, seed=seed, member=name, now_ns=now_ns,
                               trace=trace, explains=explains, secrets=secrets)
        self.relay: Protocol | None = relay
        self.outputs.append(OpenTransport(LOCAL, self.local.transport.config, self.me))
        self._shuttle(now_ns)

    # --- the verbs --------------------------------------------------------------------------------------------------

    def send(self, batch: Batch, now_ns: int) -> None:
        """From the application."""
        self.inject(batch, now_ns)

    def inject(self, item: Batch | Event, now_ns: int) -> None:
        """From the application: a batch or an event goes down the local stack, an order about the bridge down that."""
        if isinstance(item, RenewViewKey) and item.bridge:
            self._order_on_bridge(item, now_ns)
        else:
            self.local.inject(item, now_ns)
        self._shuttle(now_ns)

    def _order_on_bridge(self, order: RenewViewKey, now_ns: int) -> None:
        """An operator orders a new key of the bridge's view."""
        if self.bridge is None:
            self.outputs.append(ViewKeyRenewed(order.number, NO_BRIDGE))
        else:
            self.bridge_orders[order.number] = None
            self.bridge.inject(order, now_ns)

    def receive(
        self, frames: Iterable[tuple[bytes, PhysicalAddress | None]], now_ns: int, net: int = LOCAL,
    ) -> None:
        """From the sockets of `net`: everything readable now, at once."""
        stack = self._stack(net)
        if stack is not None:
            stack.receive(frames, now_ns)
            self._shuttle(now_ns)

    def notify(self, event: Event, now_ns: int, net: int = LOCAL) -> None:
        """Events of the sockets of `net` (LinkUp, LinkDown, Listening, FolderRead), up from the bottom."""
        stack = self._stack(net)
        if stack is not None:
            stack.notify(event, now_ns)
            self._shuttle(now_ns)

    def bound(self, net: int, physical: PhysicalAddress, now_ns: int) -> None:
        """The sockets that OpenTransport requested are open: begin to join the group."""
        stack = self._stack(net)
        if stack is not None:
            stack.notify(Bound(physical), now_ns)
            bridge = self.bridge_request
            stack.inject(Connect(self.cluster) if net == LOCAL else Connect(bridge.name, bridge.expected), now_ns)
            self._shuttle(now_ns)

    def bind_failed(self, net: int, reason: str, now_ns: int) -> None:
        """The sockets could not be opened."""
        if net == LOCAL:
            self._close(reason)
        else:
            self._drop_bridge(BridgeEnd.FAILED, reason, now_ns)
            self._shuttle(now_ns)

    def advance(self, now_ns: int) -> None:
        """Time has passed: due timers fire, the local stack's first."""
        self.local.advance(now_ns)
        self._shuttle(now_ns)
        if self.bridge is not None:
            self.bridge.advance(now_ns)
            self._shuttle(now_ns)

    def app_busy(self, on: bool, now_ns: int) -> None:
        """The application fell behind (on) or caught up."""
        self.inject(AppBusy(on), now_ns)

    def disconnect(self, now_ns: int, *, forget: bool = False) -> None:
        """Leave gracefully; the output Closed follows when it is done. forget: as in LeaveRequested."""
        if self.relay is not None:
            self.local.notify_layer(self.relay, LeaveRequested(forget), now_ns)
        else:
            self.local.inject(Disconnect(), now_ns)
        self._shuttle(now_ns)

    def explain(self, on: bool) -> None:
        """Report drops from now on, or no more."""
        if on != self.explains:
            self.explains = on
            self.local.explain(on)
            if self.bridge is not None:
                self.bridge.explain(on)

    def drain(self) -> list[Output]:
        """The outputs since the last call, in order."""
        taken, self.outputs = self.outputs, []
        return taken

    @property
    def next_deadline_ns(self) -> int | None:
        """When `advance` is due next."""
        local = self.local.next_deadline_ns
        if self.bridge is None:
            return local
        bridge = self.bridge.next_deadline_ns
        return bridge if local is None else local if bridge is None else min(local, bridge)

    def pending_bytes(self) -> int:
        """Bytes that the application sent and the local stack keeps back."""
        return self.local.pending_bytes()

    def stats(self) -> dict[str, dict[str, float]]:
        """Protocol name -> its counters; those of the bridge stack as "bridge.NAME"."""
        found = {layer.name: layer.stats() for layer in self.local.layers}
        if self.bridge is not None:
            found.update({f"bridge.{layer.name}": layer.stats() for layer in self.bridge.layers})
        return found

    # --- between the two stacks -------------------------------------------------------------------------------------

    def _stack(self, net: int) -> NodeStack | None:
        return None if self.closed else self.local if net == LOCAL else self.bridge

    def _shuttle(self, now_ns: int) -> None:
        """Pass outputs and events between the two stacks until neither has any for the other."""
        local = self.local
        while True:
            if local.outputs or local.surfaced:
                self._from_local(now_ns)
            if self.bridge is not None:
                self._from_bridge(self.bridge, now_ns)
            if not local.outputs and not local.surfaced:
                return

    def _from_local(self, now_ns: int) -> None:
        outputs, self.local.outputs = self.local.outputs, []
        for output in outputs:
            if output.__class__ in FOR_THE_NODE:
                self._carry(output, now_ns)
            elif self.shedding:
                self.outputs += self.shedding.passed(output)
            else:
                self.outputs.append(output)
        if self.local.surfaced:
            surfaced, self.local.surfaced = self.local.surfaced, []
            if any(isinstance(event, Left) for event in surfaced):
                self._close("left")

    def _carry(self, output: Output, now_ns: int) -> None:
        """Carry out an output of the local stack that is for the node itself."""
        match output:
            case OpenBridge():
                self._open_bridge(output, now_ns)
            case ToBridge(batch):
                self._to_bridge(batch, now_ns)
            case CloseBridge():
                if self.bridge is not None:
                    self.bridge.inject(Disconnect(), now_ns)
            case ReadyToLeave():
                self.local.inject(Disconnect(), now_ns)
            case NodeFailed(reason):
                self._close(reason)
            case SkipMulticasts():
                self.outputs += self.shedding.switch(output)

    def _open_bridge(self, request: OpenBridge, now_ns: int) -> None:
        assert self.load_bridge is not None, "a node with RELAY is given a way to load bridge_props"
        if self.bridge is not None:
            self._drop_bridge(BridgeEnd.REPLACED, "opened again", now_ns)
        try:
            spec = self.load_bridge(request.props)
        except ConfigError as error:
            return self._close(f"bridge_props: {error}")
        me = new_address(self.rng, self.name)
        number = self.bridge_number + 1
        try:
            self.bridge = NodeStack(spec.build(), me, net=BRIDGE, seed=self.seed,
                                    member=f"{self.name}/{number}", now_ns=now_ns,
                                    trace=self.trace, explains=self.explains, secrets=self.secrets)
        except ConfigError as error:                         # ENCRYPT's keyring
            return self._close(f"bridge_props: {error}")
        self.bridge_number = number
        self.bridge_request = request
        self.outputs.append(OpenTransport(BRIDGE, self.bridge.transport.config, me))
        return None

    def _to_bridge(self, batch: Batch, now_ns: int) -> None:
        if self.bridge is not None:
            self.bridge.inject(batch.replaced(src=self.bridge.me), now_ns)

    def _from_bridge(self, bridge: NodeStack, now_ns: int) -> None:
        if not bridge.outputs and not bridge.surfaced:
            return
        outputs, bridge.outputs = bridge.outputs, []
        for output in outputs:
            if isinstance(output, Deliver):
                self._notify_relay(BridgeDelivered(output.batch), now_ns)
            elif isinstance(output, ViewInstalled):
                self._notify_relay(BridgeView(output.view, bridge.me, _certified_sites(bridge, output.view)), now_ns)
            elif isinstance(output, NodeFailed):
                return self._close(f"bridge_props: {output.reason}")
            else:
                if isinstance(output, ViewKeyRenewed):
                    self.bridge_orders.pop(output.number, None)
                self.outputs.append(output)
        surfaced, bridge.surfaced = bridge.surfaced, []
        if any(isinstance(event, Left) for event in surfaced):
            self._drop_bridge(BridgeEnd.LEFT, "left", now_ns)

    def _drop_bridge(self, end: BridgeEnd, reason: str, now_ns: int) -> None:
        if self.bridge is not None:
            self.bridge = None
            self.outputs.append(CloseTransport(BRIDGE))
            unanswered, self.bridge_orders = self.bridge_orders, {}
            self.outputs += [ViewKeyRenewed(number, NO_BRIDGE) for number in unanswered]
            self._notify_relay(BridgeClosed(end, reason), now_ns)

    def _notify_relay(self, event: Event, now_ns: int) -> None:
        assert self.relay is not None, "only RELAY opens a bridge"
        self.local.notify_layer(self.relay, event, now_ns)

    def _close(self, reason: str) -> None:
        if not self.closed:
            self.closed = True
            if self.bridge is not None:
                self.bridge = None
                self.outputs.append(CloseTransport(BRIDGE))
            self.outputs.append(CloseTransport(LOCAL))
            self.outputs += self.shedding.passed(Closed(reason))


def _certified_sites(bridge: NodeStack, view: View) -> dict[Address, str]:
    """Member of the bridge -> its site, of those of which AUTH has verified one."""
    auth = bridge.find(Identities)
    found = {} if auth is None else {member: auth.identity_of(member) for member in view.members}
    return {member: identity.site for member, identity in found.items() if identity is not None and identity.site}
