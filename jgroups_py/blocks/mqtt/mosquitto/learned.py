"""The filters of mosquitto's own clients, learned from the log that it publishes.

mosquitto (2.0) has no other way to report a subscription. With `log_dest topic` and `log_type` subscribe, unsubscribe
and notice it publishes these lines, each after the time in seconds:

    $SYS/broker/log/M/subscribe      CLIENT QOS FILTER
    $SYS/broker/log/M/unsubscribe    CLIENT FILTER
    $SYS/broker/log/N                New client connected from ADDRESS as CLIENT (p2, c1, k60).
                                     Client CLIENT disconnected.  (and other ends of connections)
                                     Expiring client CLIENT due to timeout.

A client id may have spaces, so a line can be read in several ways; the reading with a known client is taken. p is the
protocol (5: MQTT 5), c1 a clean start. No line has the session expiry interval of a client of MQTT 5, so its filters
are kept for `keep_offline_s` after its connection. A filter that is kept too long costs messages without a subscriber;
one that is forgotten too early costs the client its messages.
"""
from __future__ import annotations

import re
from collections.abc import Iterator

import attrs

from jgroups_py.blocks.mqtt.broker.publication import SECOND
from jgroups_py.blocks.mqtt.broker.subscription_tree import SubscriptionTree, split_shared
from jgroups_py.blocks.mqtt.codec.text import topic_filter_fault
from jgroups_py.blocks.mqtt.mosquitto.options import MosquittoOptions
from jgroups_py.model.counters import Counters

LOG = "$SYS/broker/log/"
LOG_TOPICS = (f"{LOG}M/subscribe", f"{LOG}M/unsubscribe", f"{LOG}N")
MAX_LINE_BYTES = 999
"""mosquitto 2.0 formats a line in 1,000 bytes, and cuts a longer one without a mark."""
VERSION_5 = 5
CONNECTED = re.compile(
    r"New (?:client|bridge) connected from \S+ as (.*) \(p(\d+), c([01]), k\d+(?:, u'.*')?\)\.\Z", re.S)
QOS = re.compile(" [012] ")
ENDS = (re.compile(r"Client (.*?)(?: disconnected[., ]| closed its connection\.| has exceeded timeout)", re.S),
        re.compile(r"Bad socket read/write on client (.*?): ", re.S))
EXPIRED = re.compile(r"Expiring client (.*) due to timeout\.\Z", re.S)


@attrs.define(eq=False)
class LearnedClient:
    """A client of mosquitto. filters: as subscribed; version 0: it connected before the link did."""

    version: int = 0
    is_clean: bool = True
    filters: dict[str, None] = attrs.field(factory=dict)
    forget_ns: int | None = None                         # it is offline: when its filters are forgotten


class LearnedInterest:
    """See the module. changed: filters (without $share/GROUP/) that got their first subscriber, or lost the last one.

    has_reported: kinds of lines that came for the link's own subscriptions: the proof that mosquitto logs them.
    """

    def __init__(self, options: MosquittoOptions, counters: Counters) -> None:
        self.changed: dict[str, None] = {}
        self.has_reported: dict[str, None] = {}
        self._options = options
        self._counters = counters
        self._clients: dict[str, LearnedClient] = {}
        self._away: dict[str, None] = {}                 # offline clients, with or without forget_ns
        self._numbers: dict[str, int] = {}               # filter -> subscriptions
        self._tree: SubscriptionTree[str, None] = SubscriptionTree(10_000)
        for filter in options.filters:
            self._count(filter, 1)

    def __contains__(self, filter: str) -> bool:
        return filter in self._numbers

    def __iter__(self) -> Iterator[str]:
        return iter(self._numbers)

    def matches(self, topic: str) -> bool:
        """Whether a client of mosquitto subscribes to a topic."""
        return bool(self._tree.match(topic).plain)

    def report(self) -> dict[str, list[str]]:
        """Client -> its filters, for operators."""
        return {client_id: list(client.filters) for client_id, client in self._clients.items()}

    # --- lines --------------------------------------------------------------------------------------------------------

    def line(self, topic: str, payload: bytes, now_ns: int) -> None:
        """A line of mosquitto's log."""
        kind = topic.removeprefix(LOG)
        if kind not in ("M/subscribe", "M/unsubscribe", "N"):
            return
        if len(payload) >= MAX_LINE_BYTES:
            self._counters.add("cut_lines")
            return
        text = payload.decode("utf-8", "replace").partition(": ")[2]
        if kind == "N":
            self._notice(text, now_ns)
            return
        found = self._subscribed(text) if kind == "M/subscribe" else self._unsubscribed(text)
        if found is None:
            self._counters.add("odd_lines")
        elif found[0] == self._options.client_id:
            self.has_reported[kind] = None
        elif kind == "M/subscribe":
            self._add(*found)
        else:
            self._remove(*found)

    def _subscribed(self, text: str) -> tuple[str, str] | None:
        """(client, filter) of a line, None if it is none."""
        found = [(text[:each.start()], text[each.end():]) for each in QOS.finditer(text)]
        return self._choose([each for each in found if each[0] and not topic_filter_fault(each[1])])

    def _unsubscribed(self, text: str) -> tuple[str, str] | None:
        at = [index for index, character in enumerate(text) if character == " "]
        found = [(text[:index], text[index + 1:]) for index in at]
        return self._choose([each for each in found if each[0] and not topic_filter_fault(each[1])])

    def _choose(self, readings: list[tuple[str, str]]) -> tuple[str, str] | None:
        for client_id, filter in readings:
            if client_id in self._clients or client_id == self._options.client_id:
                return client_id, filter
        return readings[0] if readings else None

    def _notice(self, text: str, now_ns: int) -> None:
        connected = CONNECTED.match(text)
        if connected is not None:
            client_id, version, clean = connected.groups()
            self._connected(client_id, int(version), clean == "1")
            return
        expired = EXPIRED.match(text)
        if expired is not None:
            self._forget(expired[1])
            return
        for each in ENDS:
            ended = each.match(text)
            if ended is not None:
                self._ended(ended[1], now_ns)
                return

    # --- clients ------------------------------------------------------------------------------------------------------

    def _connected(self, client_id: str, version: int, is_clean: bool) -> None:
        if is_clean:
            self._forget(client_id)
        client = self._known(client_id)
        if client is not None:
            client.version, client.is_clean, client.forget_ns = version, is_clean, None
            self._away.pop(client_id, None)

    def _ended(self, client_id: str, now_ns: int) -> None:
        client = self._clients.get(client_id)
        if client is None:
            return
        if not client.filters or (client.is_clean and 0 < client.version < VERSION_5):
            self._forget(client_id)
            return
        self._away[client_id] = None
        if client.is_clean:                              # else mosquitto logs when the session has expired
            client.forget_ns = now_ns + round(self._options.keep_offline_s * SECOND)

    def unsure(self, now_ns: int) -> None:
        """Lines may be missing: a client that does not connect again is forgotten after a time."""
        for client_id, client in self._clients.items():
            client.forget_ns = now_ns + round(self._options.keep_offline_s * SECOND)
            self._away[client_id] = None

    def tick(self, now_ns: int) -> None:
        """Forget clients that have been offline for too long."""
        for client_id in [name for name in self._away if self._is_due(name, now_ns)]:
            self._forget(client_id)

    def _is_due(self, client_id: str, now_ns: int) -> bool:
        forget_ns = self._clients[client_id].forget_ns
        return forget_ns is not None and now_ns >= forget_ns

    def _known(self, client_id: str) -> LearnedClient | None:
        """The entry of a client, made if there is none; None if too many clients are connected."""
        client = self._clients.get(client_id)
        if client is None and client_id != self._options.client_id:
            if len(self._clients) >= self._options.max_clients:
                self._counters.add("dropped_clients")
                if not self._away:
                    return None
                self._forget(next(iter(self._away)))
            client = self._clients[client_id] = LearnedClient()
        return client

    def _forget(self, client_id: str) -> None:
        client = self._clients.pop(client_id, None)
        self._away.pop(client_id, None)
        for filter in () if client is None else client.filters:
            self._count(filter, -1)

    # --- filters ------------------------------------------------------------------------------------------------------

    def _add(self, client_id: str, filter: str) -> None:
        client = self._known(client_id)
        if client is None or filter in client.filters:
            return
        if len(client.filters) >= self._options.max_filters or filter.count("/") >= self._options.max_levels:
            self._counters.add("dropped_filters")
            return
        client.filters[filter] = None
        self._count(filter, 1)

    def _remove(self, client_id: str, filter: str) -> None:
        client = self._clients.get(client_id)
        if client is not None and filter in client.filters:
            del client.filters[filter]
            self._count(filter, -1)

    def _count(self, filter: str, by: int) -> None:
        """Add `by` to a filter's subscriptions. One that begins with $ is ignored: such topics belong to one broker."""
        text = split_shared(filter)[1]
        if text.startswith("$"):
            return
        number = self._numbers.get(text, 0) + by
        if number:
            self._numbers[text] = number
        else:
            del self._numbers[text]
        if by == number == 1:
            self._counters.add("learned")
            self._tree.subscribe(text, "", None)
            self.changed[text] = None
        elif not number:
            self._tree.unsubscribe(text, "")
            self.changed[text] = None
