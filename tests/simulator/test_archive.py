"""What ARCHIVE records is what happened: rows equal the history, whatever fails meanwhile; and by their numbers alone
it follows that nothing is missing, twice, or out of order."""
from __future__ import annotations

from collections.abc import Iterator

import attrs
import pytest

from jgroups_py.config.spec import LayerSpec, StackSpec
from jgroups_py.model.address import Address
from jgroups_py.model.batch import NO_RELAY, NO_RELIABILITY, OOB
from jgroups_py.model.outputs import Record
from jgroups_py.protocols.archive import ArchiveConfig
from jgroups_py.simulator import history as h
from jgroups_py.simulator.process import Process
from jgroups_py.simulator.profiles.base import stack
from jgroups_py.simulator.profiles.relay import RelayProfile
from jgroups_py.simulator.profiles.sites import Replier, site_stack
from jgroups_py.simulator.profiles.topics import TopicsProfile, member_with_topics
from jgroups_py.simulator.runner import carry_out
from jgroups_py.simulator.world import World
from jgroups_py.wire.topic_headers import topic_of

ARCHIVE = LayerSpec("ARCHIVE", ArchiveConfig(directory="archive", payload=True))


def recording(spec: StackSpec) -> StackSpec:
    return attrs.evolve(spec, layers=(*spec.layers, ARCHIVE))


class RecordedSites(RelayProfile):
    """The profile relay, every member recorded."""

    def start(self, world: World, name: str) -> Process:
        site = self.site_of[name]
        local = site_stack(site, 45601 + list(self.plan.sites).index(site), self.settings)
        hosts = ",".join(f"{world.ip(other)}[7900]" for other in self.members)
        bridge = stack("bridge", (("bridge_hosts", hosts), ("bridge_port_range", "0")))
        return world.start(name, recording(local), f"group of {site}", bridge=bridge, app=Replier())


@pytest.fixture(scope="module", params=[3, 8])
def world(request: pytest.FixtureRequest) -> World:
    """Two or three sites under faults: relays crash, members leave, sites split, bridges break."""
    world = World(request.param)
    carry_out(world, RecordedSites(request.param))
    return world


def of_kind(world: World, member: Address, kind: str) -> list[Record]:
    return [record for record in world.archives.records[member] if record.kind == kind]


def entries(world: World, member: Address, kind: type[h.HistoryEntry]) -> list:
    return [entry for entry in world.history.entries if isinstance(entry, kind) and entry.member == member]


def test_everything_that_was_delivered_was_recorded_in_its_order_and_view(world):
    for member in world.archives.records:
        recorded = [(record.origin, payload, record.view_id, record.flags)
                    for record in of_kind(world, member, "delivered") for payload in record.payloads]
        happened = [(entry.src, payload, entry.view and entry.view.id, entry.flags)
                    for entry in entries(world, member, h.MessageDelivered) for payload in entry.payloads]
        assert recorded == happened


def test_everything_that_was_sent_was_recorded(world):
    for member in world.archives.records:
        recorded = [(record.dest, record.rows) for record in of_kind(world, member, "sent")]
        assert recorded == [(entry.dest, len(entry.payloads)) for entry in entries(world, member, h.MessageSent)]


def test_views_losses_and_sites_were_recorded(world):
    for member in world.archives.records:
        assert [record.view_id for record in of_kind(world, member, "view")] == [
            entry.view.id for entry in entries(world, member, h.InstalledView)]
        assert [(record.origin, record.first, record.first + record.count, record.detail["dest_site"])
                for record in of_kind(world, member, "lost")] == [
            (entry.origin, entry.first, entry.stop, entry.dest_site) for entry in entries(world, member, h.Lost)]
        assert [(record.detail["site"], record.detail["status"]) for record in of_kind(world, member, "site")] == [
            (entry.site, entry.status) for entry in entries(world, member, h.SiteStatusSeen)]


def test_a_number_stands_for_one_message_at_every_recorder(world):
    payloads: dict[tuple, bytes] = {}
    for member in world.archives.records:
        for record in of_kind(world, member, "delivered"):
            for number, payload in enumerate(record.payloads, record.first):
                key = record.origin, record.stream, record.dest, number
                assert payloads.setdefault(key, payload) == payload
    assert len(payloads) == len(dict.fromkeys(payloads.values()))


def ranges_of(world: World, member: Address) -> Iterator[tuple[Record, int]]:
    """The reliable multicasts that `member` got, or were reported as lost to it, in order; and where numbers end."""
    for record in world.archives.records[member]:
        if record.stream in ("unreliable", "unicast") or record.flags & NO_RELIABILITY or record.first is None:
            continue
        if record.kind == "delivered" and not record.flags & OOB:
            yield record, record.first + record.rows
        if record.kind in ("lost", "covered", "passed") and (record.detail or {}).get("dest_site") is None:
            yield record, record.first + record.count


def check_numbers(world: World) -> None:
    """No member has a hole, a double or a disorder that is not declared.

    Of members of its own site a member gets what was sent in its views only, so after a view numbers may jump.
    """
    for member in world.archives.records:
        oob = {(record.origin, record.stream, number) for record in of_kind(world, member, "delivered")
               if record.flags & OOB for number in range(record.first, record.first + record.rows)}
        wanted: dict[tuple[Address, str], tuple[int, object]] = {}
        for record, stop in ranges_of(world, member):
            key = record.origin, record.stream
            number, view_id = wanted.get(key, (record.first, None))
            while (*key, number) in oob and number < record.first:
                number += 1
            away = record.origin_site == world.history.sites[member] and record.view_id != view_id
            assert record.first == number or (away and record.first > number), (
                world.history.names[member], world.history.names[record.origin], record.stream, record.first, number)
            wanted[key] = stop, record.view_id


def test_no_member_has_a_hole_a_double_or_a_disorder_that_is_not_declared(world):
    """RELAY numbers what it relays as ARCHIVE does; out of band messages are numbered with the others."""
    check_numbers(world)


class RecordedTopics(TopicsProfile):
    """The profile topics, every member recorded, below TOPICS."""

    def start(self, world: World, name: str) -> Process:
        return member_with_topics(self, world, name, self.wanted[name], lambda spec: attrs.evolve(
            spec, layers=(*spec.layers[:-1], ARCHIVE, spec.layers[-1])))


def test_with_topics_what_a_site_has_not_subscribed_to_is_recorded_as_passed_and_leaves_no_hole():
    world = World(11)
    carry_out(world, RecordedTopics(11))
    check_numbers(world)
    assert any(of_kind(world, member, "passed") for member in world.archives.records)
    topics = {topic_of(record.headers) for member in world.archives.records
              for record in of_kind(world, member, "delivered")}
    assert {"orders", "prices", "7"} <= topics


def test_messages_for_the_own_site_have_numbers_of_their_own(world):
    for member in world.archives.records:
        for stream, flag in (("local", NO_RELAY), ("unreliable", NO_RELIABILITY)):
            sent = [record for record in of_kind(world, member, "sent") if record.stream == stream]
            assert all(record.flags & flag for record in sent)
            assert [record.first for record in sent] == [1 + sum(each.rows for each in sent[:at])
                                                         for at in range(len(sent))]
