"""Retained messages between sites of which one has `topics_in` or `topics_out`. Pure.

Sites without rules compare their whole tables (core.py). Here nothing that a site keeps may be shown to the other one,
a hash of it excepted: no value, and no key, which is a topic. So each pair of sites has two comparisons, one for each
direction, and each is of what was published at one of them:

    giver's part    entries that were published at its site, whose topic it lets out and the other one lets in
    taker's part    entries here that were published at the giver's site: all of them came from there

The giver's coordinator begins (GIVEN), a member of the taker's site answers (TAKEN). What the taker lists, the giver
knows: it published it. A taker shows nothing else, so what it has written itself since, or has from a third site, is
neither shown nor overwritten. A write is multicast at once to the sites that it may go to; comparisons bring what was
missed: sites that meet late, losses. Whatever comes, from any site and in whatever message, is asked for its topic.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from jgroups_py.blocks.anti_entropy.entries import Entry, Version
from jgroups_py.blocks.anti_entropy.part import PartOfReplica
from jgroups_py.blocks.anti_entropy.replica import Change, Replica, pushed_entries
from jgroups_py.blocks.mqtt.federation.sites import Sites
from jgroups_py.blocks.mqtt.federation.tables import key_topic, retained_message, retained_site, site_number
from jgroups_py.blocks.mqtt.federation.wire import GIVEN, RETAINED, TAKEN, TableExchange
from jgroups_py.model.counters import Counters
from jgroups_py.model.errors import WireError


class SiteTablesHost(Protocol):
    """What is asked of the core."""

    counters: Counters
    sites: Sites


class SiteTables:
    """See the module. table: the retained messages of this site."""

    def __init__(self, host: SiteTablesHost, table: Replica) -> None:
        self._host = host
        self._table = table
        self._given: dict[str, PartOfReplica] = {}       # other site -> what is given to it
        self._taken: dict[str, PartOfReplica] = {}       # other site -> what is here of it

    def rules_changed(self, site: str) -> None:
        """Of another site, or they are known now."""
        for part in (self._given.pop(site, None), self._taken.pop(site, None)):
            if part is not None:
                self._table.watchers.remove(part.look_at)

    def begin(self, site: str) -> bytes:
        """The message that begins to give to a site."""
        return self._part_given(site).begin(0)

    def received(self, site: str, frame: TableExchange, wall_ns: int) -> tuple[list[Change], list[TableExchange]]:
        """A message of a member of a site: the changes here, and the answers. Raises WireError."""
        entries = pushed_entries(frame.message)
        if entries is not None:
            return self._pushed(entries, wall_ns)
        if frame.table == GIVEN:
            part, answer = self._part_taken(site), TAKEN
        elif frame.table == TAKEN:
            part, answer = self._part_given(site), GIVEN
        else:
            self._host.counters.add("dropped_topics_out")
            return [], []
        return [], [TableExchange(answer, reply) for reply in part.receive(frame.message, wall_ns)[1]]

    def _pushed(self, entries: tuple[Entry, ...], wall_ns: int) -> tuple[list[Change], list[TableExchange]]:
        """Entries of another site: take those whose topics come in. Marks of deletions that answer them go where the
        topics may go out."""
        sites = self._host.sites
        taken, given = list[Entry](), dict[bytes, None]()
        for entry in entries:
            topic = self._topic_of(entry)
            if topic is not None and not sites.may_enter(topic):
                self._host.counters.add("dropped_topics_in")
                continue
            taken.append(entry)
            if topic is not None and sites.may_leave(topic):
                given[entry.key] = None
        changes, marks = self._table.take_pushed(taken, wall_ns)
        # A mark of the same version is a conclusion from what was taken here, and not everything is.
        known = {entry.key: entry.version for entry in taken}
        said = [mark for mark in marks if mark.key in given and mark.version > known[mark.key]]
        return changes, [TableExchange(RETAINED, reply) for reply in self._table.pushes(said)]

    def _topic_of(self, entry: Entry) -> str | None:
        """The topic of an entry. None: the mark of a deletion whose key is a hash, of a topic that is not here."""
        here = self._table.entries.get(entry.key)
        value = entry.value if entry.value is not None else None if here is None else here.value
        topic = key_topic(entry.key)
        if topic is not None:
            return topic
        return None if value is None else retained_message(value, 0).topic

    # --- the parts of a pair of sites ---------------------------------------------------------------------------------

    def _part_given(self, site: str) -> PartOfReplica:
        part = self._given.get(site)
        if part is None:
            sites = self._host.sites
            own, other = site_number(sites.name), sites.others[site]

            def is_given(entry: Entry) -> bool:
                if entry.value is None or retained_site(entry.value) != own:
                    return False
                topic = self._topic_of(entry)
                return topic is not None and sites.may_leave(topic) and other.takes(topic)
            part = self._given[site] = self._made(is_given, is_giver=True)
        return part

    def _part_taken(self, site: str) -> PartOfReplica:
        part = self._taken.get(site)
        if part is None:
            number = site_number(site)
            part = self._taken[site] = self._made(
                lambda entry: entry.value is not None and retained_site(entry.value) == number, is_giver=False)
        return part

    def _made(self, has: Callable[[Entry], bool], is_giver: bool) -> PartOfReplica:
        def safely(entry: Entry) -> bool:
            try:
                return has(entry)
            except WireError:
                return False                             # an entry that makes no sense stays here
        part = PartOfReplica(self._table, safely, self._may_say, is_giver)
        self._table.watchers.append(part.look_at)
        return part

    def _may_say(self, key: bytes, version: Version) -> bool:
        """Whether another site may be told that what it has given was deleted here."""
        topic = key_topic(key)
        return topic is not None and self._host.sites.may_leave(topic)
