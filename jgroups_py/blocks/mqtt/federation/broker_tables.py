"""BrokerTables: a node's copies of the tables that all brokers share, and what keeps them equal. Pure.

A write goes to all peers at once. What that does not reach, exchanges repair: with a peer that comes, and once in a
while with one that is drawn. Between sites the coordinator does the same with the retained messages: whole tables where
both sites have no rules, else the parts that site_tables.py makes. tables.py has the entries.
"""
from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any, Protocol

import attrs

from jgroups_py.blocks.anti_entropy.replica import Change, Replica
from jgroups_py.blocks.mqtt.broker.broker import Broker
from jgroups_py.blocks.mqtt.broker.publication import Publication
from jgroups_py.blocks.mqtt.federation.site_tables import SiteTables
from jgroups_py.blocks.mqtt.federation.sites import Sites
from jgroups_py.blocks.mqtt.federation.tables import (
    SessionOwner,
    key_of,
    retained_message,
    retained_value,
    site_number,
    table_replica,
)
from jgroups_py.blocks.mqtt.federation.wire import (
    GIVEN,
    OWNERS,
    RETAINED,
    TAKEN,
    PeerFrame,
    TableExchange,
    encode_frame,
)
from jgroups_py.model.counters import Counters
from jgroups_py.model.errors import WireError


@attrs.frozen(eq=False)
class SendToMember:
    """A frame for one member of another site, as an answer."""

    handle: Any
    data: bytes


class BrokerTablesHost(Protocol):
    """What is asked of the core."""

    counters: Counters
    sites: Sites
    wall_offset_ns: int

    @property
    def broker(self) -> Broker:
        """Its retained messages follow the table."""

    def names_up(self) -> list[str]:
        """The peers that can be reached."""

    def say(self, name: str | None, frame: PeerFrame) -> None:
        """A frame for a peer, or for all that are up (None)."""

    def owner_changed(self, before: SessionOwner | None, after: SessionOwner | None, now_ns: int) -> None:
        """The entry of a client id in the table of owners."""


class BrokerTables:
    """See the module. rng: the names of the copies, and which peer they are compared with."""

    def __init__(self, host: BrokerTablesHost, rng: Random) -> None:
        self.tables: dict[int, Replica] = {RETAINED: table_replica(rng), OWNERS: table_replica(rng)}
        self._host = host
        self._rng = rng
        self._with_rules = SiteTables(host, self.tables[RETAINED])
        self._to_members: list[SendToMember] = []

    # --- retained messages, owners ------------------------------------------------------------------------------------

    def retain(self, publication: Publication, now_ns: int) -> TableExchange:
        """Write a retained message, or that there is none any more; what peers are told, for other sites."""
        value = None
        if publication.payload:
            value = retained_value(publication, self._host.wall_offset_ns, site_number(self._host.sites.name))
        return self._write(RETAINED, key_of(publication.topic), value, now_ns)

    def retained(self, topic: str) -> Publication | None:
        """What the table of all nodes has for a topic."""
        value = self.tables[RETAINED].get(key_of(topic))
        try:
            return None if value is None else retained_message(value, self._host.wall_offset_ns)
        except WireError:
            return None

    def owner(self, key: bytes) -> bytes | None:
        """The entry of a client id."""
        return self.tables[OWNERS].get(key)

    def owner_keys(self) -> list[bytes]:
        """The keys of all client ids that have an entry."""
        return list(self.tables[OWNERS].entries)

    def set_owner(self, key: bytes, value: bytes | None, now_ns: int) -> None:
        """Write it."""
        self._write(OWNERS, key, value, now_ns)

    def _write(self, number: int, key: bytes, value: bytes | None, now_ns: int) -> TableExchange:
        frame = TableExchange(number, self.tables[number].write(key, value, self._wall_ns(now_ns))[1])
        if self._host.names_up():
            self._host.say(None, frame)
        return frame

    # --- exchanges ----------------------------------------------------------------------------------------------------

    def peer_came(self, name: str, now_ns: int) -> None:
        """Compare all tables with a peer."""
        for number in self.tables:
            self._host.say(name, self._begin(number, now_ns))

    def compare(self, now_ns: int) -> None:
        """Once in a while: each table with a peer that is drawn for it."""
        up = self._host.names_up()
        if up:
            for number in self.tables:
                self._host.say(self._rng.choice(up), self._begin(number, now_ns))

    def compare_with_sites(self, now_ns: int) -> None:
        """The coordinator compares retained messages with a member of another site; peers get them from both."""
        sites = self._host.sites
        up = [site for site in sites.others.values() if site.status == "UP" and site.members]
        for site in up:
            if sites.is_ruled(site.name) and site.incarnation:
                self._to_member(self._rng.choice(site.members),
                                TableExchange(GIVEN, self._with_rules.begin(site.name)))
        members = [member for site in up if not sites.is_ruled(site.name) for member in site.members]
        if members:
            self._to_member(self._rng.choice(members), self._begin(RETAINED, now_ns))

    def from_peer(self, name: str, frame: TableExchange, now_ns: int) -> None:
        """What a peer says of a table. Raises WireError."""
        if frame.table not in self.tables:
            self._host.counters.add("unknown_events")
            return
        changes, answers = self._exchange(frame, now_ns)
        for answer in answers:
            self._host.say(name, answer)
        self._changed(frame.table, changes, now_ns)

    def from_site(self, site: str, handle: Any, frame: TableExchange, now_ns: int) -> None:
        """What a member of another site says, which may be told of a part only. Raises WireError."""
        sites = self._host.sites
        if not sites.is_ruled(site):
            if frame.table != RETAINED:
                return
            changes, answers = self._exchange(frame, now_ns)
        elif site in sites.others and frame.table in (RETAINED, GIVEN, TAKEN):
            changes, answers = self._with_rules.received(site, frame, self._wall_ns(now_ns))
        else:
            return
        for answer in answers:
            self._to_member(handle, answer)
        self._changed(RETAINED, changes, now_ns)

    def rules_changed(self, site: str) -> None:
        """Another site has announced other rules."""
        self._with_rules.rules_changed(site)

    def drain(self) -> list[SendToMember]:
        """What goes to members of other sites; empty afterwards."""
        to_members, self._to_members = self._to_members, []
        return to_members

    def _begin(self, number: int, now_ns: int) -> TableExchange:
        return TableExchange(number, self.tables[number].begin(self._wall_ns(now_ns)))

    def _exchange(self, frame: TableExchange, now_ns: int) -> tuple[Sequence[Change], list[TableExchange]]:
        changes, replies = self.tables[frame.table].receive(frame.message, self._wall_ns(now_ns))
        return changes, [TableExchange(frame.table, reply) for reply in replies]

    def _changed(self, number: int, changes: Sequence[Change], now_ns: int) -> None:
        for change in changes:
            try:
                if number == OWNERS:
                    self._owner_changed(change, now_ns)
                else:
                    self._retained_changed(change)
            except WireError:
                self._host.counters.add("malformed")

    def _owner_changed(self, change: Change, now_ns: int) -> None:
        before, after = (None if value is None else SessionOwner.decode(value)
                         for value in (change.before, change.after))
        self._host.owner_changed(before, after, now_ns)

    def _retained_changed(self, change: Change) -> None:
        retained = self._host.broker.router.retained
        if change.after is not None:
            retained.put(retained_message(change.after, self._host.wall_offset_ns))
        elif change.before is not None:
            retained.put(Publication(retained_message(change.before, 0).topic, b"", wants_retain=True))

    def _to_member(self, handle: Any, frame: TableExchange) -> None:
        self._to_members.append(SendToMember(handle, encode_frame(frame)))

    def _wall_ns(self, now_ns: int) -> int:
        return now_ns + self._host.wall_offset_ns
