"""K8: what a site may say on the bridge, who it is, and what its trust file lets others do."""
from __future__ import annotations

import json
from typing import Any

import pytest

from jgroups_py.model.address import Address
from jgroups_py.model.batch import Batch, Header
from jgroups_py.model.errors import ConfigError
from jgroups_py.model.events import BridgeDelivered, TrustRead, ViewChange
from jgroups_py.model.outputs import LOCAL, ReadTrust
from jgroups_py.model.secrets import Secrets
from jgroups_py.model.topics import EVERYTHING, NOTHING, interest_in
from jgroups_py.model.units import millis, seconds
from jgroups_py.model.view import View, ViewId
from jgroups_py.node.node import new_address
from jgroups_py.protocols.relay import Relay
from jgroups_py.protocols.relay.config import RelayConfig
from jgroups_py.protocols.relay.headers import (
    BaseHeader,
    Forward,
    Goodbye,
    HelloHeader,
    ProbeHeader,
    RefusedHeader,
    SeenHeader,
    SiteUnicast,
    SiteUnicastSeen,
    StandingHeader,
    ViewHeader,
)
from jgroups_py.protocols.relay.headers.claims import CLAIMS
from jgroups_py.protocols.relay.headers.state import StateFailed, StateFetch
from jgroups_py.protocols.relay.inbound import site_guard
from jgroups_py.protocols.relay.sites.table import OFFLINE, UP
from jgroups_py.protocols.relay.sites.trust import FORMAT, SiteRights, parse_trust
from jgroups_py.stack.stack import Stack
from tests.unit.relay.sites import IdealGroup, Member, Sites, numbered

STRANGER = Address(b"stranger........", "evil")


def three_sites() -> Sites:
    world = Sites(NYC="ABC", SFO="DE", LON="Z").build()
    world["D"].multicast("d0")
    world["C"].multicast("c0")
    world.run(millis(200))
    return world


def say(world: Sites, header: Header, payloads: tuple[bytes, ...] = (), to: str = "A", by: str = "Z") -> Member:
    """The relay of LON sends a header to the relay of NYC."""
    receiver = world[to]
    receiver.notify(BridgeDelivered(Batch(world[by].bridge, receiver.bridge, payloads, (header,), 0)))
    world.run(millis(200))
    return receiver


def refused(member: Member) -> int:
    return int(member.relay.stats().get("foreign_claims_dropped", 0))


def epoch(world: Sites) -> ViewId:
    return world["Z"].relay.group.view.id


def test_every_header_of_the_bridge_has_its_claims() -> None:
    taken = {header for part in Relay.components for header in part.bridge_receivers}
    assert taken == set(CLAIMS)


@pytest.mark.parametrize("make", [
    lambda w: Forward("LON", epoch(w), w["D"].me, 2, 1, 0),                     # a message of SFO
    lambda w: Forward("LON", epoch(w), w["C"].me, 2, 1, 0),                     # one of this site
    lambda w: Forward("SFO", ViewId(9, w["Z"].me), w["D"].me, 2, 1, 0),         # in SFO's name
    lambda w: BaseHeader("LON", epoch(w), {w["D"].me: 9}, {}),
    lambda w: BaseHeader("LON", epoch(w), {}, {w["D"].me: 9}),
    lambda w: BaseHeader("SFO", ViewId(9, w["Z"].me), {w["D"].me: 9}, {}),
    lambda w: ViewHeader("LON", ViewId(9, w["Z"].me), (w["Z"].me, w["D"].me)),
    lambda w: ViewHeader("LON", ViewId(9, w["Z"].me), (w["C"].me,)),
    lambda w: ViewHeader("SFO", ViewId(9, w["Z"].me), (w["Z"].me,)),
    lambda w: HelloHeader("SFO", ViewId(9, w["Z"].me), {}, False),
    lambda w: HelloHeader("LON", epoch(w), {"NYC": {w["D"].me: 3}}, False),
    lambda w: SeenHeader({w["D"].me: 2}),
    lambda w: ProbeHeader({w["D"].me: 2}),
    lambda w: Goodbye("SFO", ViewId(9, w["Z"].me), True, True),
    lambda w: StandingHeader("SFO", ViewId(9, w["Z"].me), 2, True, False),
    lambda w: SiteUnicast(w["D"].me, "LON", w["A"].me, "NYC", 1, 1, 0, epoch(w)),
    lambda w: SiteUnicast(w["Z"].me, "LON", w["D"].me, "SFO", 1, 1, 0, epoch(w)),       # to be sent on
    lambda w: SiteUnicastSeen(w["A"].me, "NYC", w["D"].me, 9, True),
    lambda w: SiteUnicastSeen(w["D"].me, "SFO", w["Z"].me, 9, True),
    lambda w: StateFetch(w["D"].me, 1, w["A"].me, {}, 10**9),
], ids=lambda make: "")
def test_a_site_speaks_of_what_is_its_own(make: Any) -> None:
    world = three_sites()
    a = world["A"]
    before = repr((a.relay.table.rows(), a.relay.delivery.seen, a.relay.hold.trimmed, a.got, a.relay.unicast_router.out,
                   {peer.address: (peer.site.name, peer.acked) for peer in a.relay.peers}))
    say(world, make(world), (b"forged",))
    assert refused(a) == 1
    assert before == repr((a.relay.table.rows(), a.relay.delivery.seen, a.relay.hold.trimmed, a.got,
                           a.relay.unicast_router.out,
                           {peer.address: (peer.site.name, peer.acked) for peer in a.relay.peers}))


def test_what_is_its_own_takes_effect() -> None:
    world = three_sites()
    a = say(world, Forward("LON", epoch(world), world["Z"].me, 1, 1, 0), (b"z0",))
    assert a.texts("z") == ["z0"]
    assert refused(a) == 0


def test_members_that_are_gone_stay_of_their_site_for_the_next_relay() -> None:
    world = three_sites()
    gone = world["A"].me                                     # it never multicast, so no number names it
    world.sites["NYC"].crash("A")
    world.run(seconds(2))
    b = say(world, BaseHeader("LON", epoch(world), {gone: 9}, {}), to="B")
    assert refused(b) == 1


@pytest.mark.parametrize("site", ["NYC", "SFO"])
def test_a_member_that_starts_is_of_its_site_though_another_site_names_it_first(site: str) -> None:
    world = three_sites()
    a = world["A"]
    joiner = new_address(world.rng, "J", site)
    say(world, Forward("LON", epoch(world), joiner, 1, 1, 0), (b"forged",))
    say(world, ViewHeader("LON", ViewId(9, world["Z"].me), (world["Z"].me, joiner)))
    assert refused(a) == 2
    assert a.relay.site_guard.owner(joiner) == site
    assert a.relay.table.get("LON").members == (world["Z"].me,)


def test_an_address_is_of_its_own_site_as_soon_as_that_site_is_known() -> None:
    world = Sites(NYC="ABC", SFO="DE", LON="Z", TYO="T")
    world.without_bridge = "T"
    world.build()
    world.run(millis(200))
    a, late = world["A"], world["T"]
    say(world, BaseHeader("LON", epoch(world), {late.me: 9}, {}))
    assert a.relay.site_guard.owner(late.me) == "LON", "TYO is not known here, so its digest is as good as other bytes"
    world.without_bridge = ""
    world.join_bridge(late)
    world.run(millis(200))
    assert a.relay.site_guard.owner(late.me) == "TYO"
    assert a.relay.table.get("TYO").members == (late.me,)
    assert refused(a) == 0


def test_members_of_this_site_are_its_own_whatever_another_site_has_said_of_them_before() -> None:
    world = three_sites()
    guard = world["A"].relay.site_guard
    joiner = Address(b"of an earlier version"[:16], "J")     # without the digest of its site
    say(world, BaseHeader("LON", epoch(world), {joiner: 9}, {}))
    assert guard.owner(joiner) == "LON"
    view = world["A"].relay.group.view
    larger = View(ViewId(view.id.counter + 1, view.coordinator), (*view.members, joiner))
    guard.view_changed(ViewChange(larger, view, (joiner,), ()))
    assert guard.owner(joiner) == "NYC"


def test_an_attempt_to_get_a_state_is_for_its_two_relays() -> None:
    world = three_sites()
    a, d = world["A"], world["D"]
    a.relay.state_forwarder.routes[d.me, 1] = d.bridge, world["B"].me
    say(world, StateFailed(d.me, 1, "forged", True))
    assert (refused(a), (d.me, 1) in a.relay.state_forwarder.routes) == (1, True)
    say(world, StateFailed(d.me, 1, "its own", True), by="D")
    assert (refused(a), a.relay.state_forwarder.routes) == (1, {})


def test_nobody_speaks_before_it_has_introduced_itself() -> None:
    world = three_sites()
    a = world["A"]
    a.relay.site_guard.speaks_for.clear()
    say(world, SiteUnicastSeen(a.me, "NYC", world["Z"].me, 9, True))
    say(world, Goodbye("LON", epoch(world), True, True))
    assert a.relay.stats()["non_peer_dropped"] == 2
    assert a.relay.table.get("LON").status == UP, "the goodbye of a process that has not introduced itself was believed"


def test_sites_are_bounded_without_a_trust_file() -> None:
    world = Sites(NYC="A", SFO="D", LON="Z").build(max_sites=2)
    world.run(millis(200))
    a = world["A"]
    a.relay.site_guard.speaks_for.pop(world["Z"].bridge)
    say(world, HelloHeader("X1", ViewId(1, world["Z"].me), {}, False))
    assert a.relay.stats()["unknown_site_dropped"] == 1
    assert sorted(a.relay.table.sites) == ["LON", "SFO"]


def test_addresses_of_a_site_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(site_guard, "MAX_ADDRESSES", 10)
    monkeypatch.setattr(site_guard, "MAX_STRAYS", 10)
    world = three_sites()
    a = world["A"]
    for number in range(12):
        say(world, Forward("LON", epoch(world), Address(bytes([number + 1]) * 16, "x"), 1, 1, 0), (b"x",))
        say(world, SeenHeader({Address(bytes([number + 100]) * 16, "x"): 2}))
    assert refused(a) == 12 - 9 + 2                          # Z itself is one of the ten
    assert len(a.relay.site_guard.strays["LON"]) == 10


def test_a_site_that_has_epochs_raised_again_and_again_is_obeyed_ever_later() -> None:
    world = three_sites()
    a = world["A"]
    for _ in range(50):
        say(world, RefusedHeader(ViewId(a.relay.group.view.id.counter + 5, STRANGER), None))
    assert world.sites["NYC"].raises <= 7                    # of 50 within ten seconds: each waits twice as long
    assert a.relay.stats()["refusals_delayed"] >= 40
    before = world.sites["NYC"].raises
    world.run(seconds(60))
    assert world.sites["NYC"].raises == before + 1, "the last one counts, later"


def test_a_refusal_before_hello_waits_for_it() -> None:
    world = three_sites()
    a = world["A"]
    a.relay.site_guard.speaks_for.pop(world["Z"].bridge)
    say(world, RefusedHeader(ViewId(50, STRANGER), None))
    assert world.sites["NYC"].raises == 0
    say(world, HelloHeader("LON", epoch(world), {}, False))
    assert world.sites["NYC"].raises == 1


# --- the trust file ---------------------------------------------------------------------------------------------------

class Files(Secrets):
    def __init__(self, text: bytes) -> None:
        self.text = text

    def draw(self, nbytes: int) -> bytes:
        raise AssertionError("RELAY draws no secrets")

    def keyring(self, path: str) -> Any:
        raise AssertionError("RELAY has no keyring")

    def file(self, path: str, what: str, *, private: bool) -> bytes:
        assert not private, "others may read a trust file"
        return self.text


def trust(sites: dict[str, Any], *revoked: str) -> bytes:
    return json.dumps({"format": FORMAT, "sites": sites, "revoked": list(revoked)}).encode()


def test_the_file_says_what_each_site_may_do() -> None:
    sites = {"SFO": {}, "LON": {"receives": ["orders"], "sends": "none"}, "TYO": {"receives": "none"}}
    found = parse_trust(trust(sites, "TYO"))
    assert found.sites == {"SFO": SiteRights(EVERYTHING, True), "LON": SiteRights(interest_in("orders"), False),
                           "TYO": SiteRights(NOTHING, True)}
    assert (found.refusal("SFO"), found.refusal("X"), found.refusal("TYO")) == (
        "", "the trust file does not list it", "the trust file has revoked it")


@pytest.mark.parametrize(("text", "why"), [
    (b"{", "not JSON"), (b"[]", "no trust file of this version"), (b'{"format": "x", "sites": {}}', "this version"),
    (trust({"": {}}), "no name of a site"), (trust({"SFO": 3}), "must be an object"),
    (trust({"SFO": {"recieves": "all"}}), "has 'recieves'; it may have receives, sends"),
    (trust({"SFO": {"receives": []}}), "a list of topics"), (trust({"SFO": {"receives": ["*"]}}), "a list of topics"),
    (trust({"SFO": {"sends": "some"}}), '"all" or "none"'), (b"[" * 100_000, "not JSON"),
    (json.dumps({"format": FORMAT, "sites": {}, "revoked": "LON"}).encode(), "list of names"),
    (json.dumps({"format": FORMAT, "sites": {}, "more": 1}).encode(), "the file has 'more'"),
])
def test_a_file_that_cannot_be_used_is_refused_with_the_reason(text: bytes, why: str) -> None:
    with pytest.raises(ConfigError, match=why.replace("'", ".").replace('"', ".")):
        parse_trust(text)


def test_a_file_that_revokes_its_own_site_is_refused() -> None:
    config = RelayConfig(site="NYC", bridge_props="bridge", trust="sites.trust")
    with pytest.raises(ConfigError, match=r"sites\.trust: it revokes this member's own site NYC"):
        Stack([IdealGroup(), Relay(config)], STRANGER, secrets=Files(trust({"NYC": {}}, "NYC")))


def trusting(world: Sites, text: bytes, name: str = "A") -> Member:
    """A member whose trust file has changed to this."""
    member = world[name]
    object.__setattr__(member.relay.config, "trust", "sites.trust")
    member.notify(TrustRead((("sites.trust", text, ""),), 0))
    world.run(millis(500))
    return member


def test_a_revoked_site_has_no_effect_and_nothing_is_held_for_it() -> None:
    world = three_sites()
    a = trusting(world, trust({"SFO": {}, "LON": {}}, "LON"))
    assert (a.relay.table.get("SFO").status, a.relay.table.get("LON").status) == (UP, OFFLINE)
    assert "RELAY trusts the sites LON, SFO; revoked: LON" in [note.text for note in a.notes]
    world["Z"].multicast("z0")
    world["C"].multicast("c1")
    world.run(seconds(3))
    assert (a.texts("z"), world["Z"].texts("c1"), world["D"].texts("c1")) == ([], [], ["c1"])
    assert a.relay.stats()["unknown_site_dropped"] > 0
    assert not a.relay.hold.messages
    trusting(world, trust({"SFO": {}, "LON": {}}))
    assert "RELAY trusts the sites LON, SFO; revoked: none" in [note.text for note in a.notes]
    world.run(seconds(12))
    world["C"].multicast("c2")
    world.run(seconds(1))
    assert world["Z"].texts("c2") == ["c2"], "it counts again, from the current numbers on"


def test_a_site_that_is_not_listed_is_unknown() -> None:
    world = three_sites()
    a = trusting(world, trust({"SFO": {}}))
    world["Z"].multicast("z0")
    world.run(seconds(2))
    assert a.texts("z") == []
    assert a.relay.table.get("LON").status == OFFLINE


def test_a_changed_file_that_cannot_be_used_changes_nothing() -> None:
    world = three_sites()
    a = trusting(world, trust({"SFO": {}, "LON": {}}))
    trusting(world, b"{")
    a.notify(TrustRead((("sites.trust", None, "trust file sites.trust: No such file"),), 0))
    a.notify(TrustRead((("other", trust({}), ""),), 0))
    assert a.relay.stats()["trust_files_refused"] == 2
    assert [note.level for note in a.notes[-2:]] == ["error", "error"]
    assert sorted(a.relay.site_guard.trust.sites) == ["LON", "SFO"]


def test_what_a_site_may_not_receive_crosses_as_numbers() -> None:
    world = three_sites()
    a = trusting(world, trust({"SFO": {}, "LON": {"receives": "none"}}))
    world["C"].multicast(*numbered(1, 4))
    world["B"].unicast(world["Z"].me, "secret")
    world.run(seconds(1))
    z = world["Z"]
    assert {text for _, text in z.got} <= {b"d0", b"c0"}
    assert z.unicasts == []
    assert z.relay.delivery.seen["NYC"][world["C"].me] == a.relay.numbering.numbers[world["C"].me]
    assert (a.relay.stats()["withheld"] >= 3, z.relay.stats()["withheld_dropped"]) == (True, 3)
    assert not a.relay.hold.messages, "its numbers were acknowledged"


def test_what_a_site_may_not_send_counts_as_numbers() -> None:
    world = three_sites()
    a = trusting(world, trust({"SFO": {}, "LON": {"sends": "none"}}))
    world["Z"].multicast("z0", "z1")
    world["Z"].unicast(world["C"].me, "secret")
    world.run(seconds(1))
    assert (a.texts("z"), world["C"].texts("z"), world["C"].unicasts) == ([], [], [])
    assert world["D"].texts("z") == ["z0", "z1"], "SFO decides for itself"
    assert not world["Z"].relay.hold.messages


def test_a_member_looks_at_its_file_twice_a_second() -> None:
    config = RelayConfig(site="NYC", bridge_props="bridge", trust="sites.trust")
    stack = Stack([IdealGroup(), Relay(config)], STRANGER, secrets=Files(trust({"SFO": {}})))
    for now_ns in range(0, seconds(2) + 1, millis(100)):
        stack.advance(now_ns)
    asked = [output for output in stack.outputs if isinstance(output, ReadTrust)]
    assert [(output.net, output.files) for output in asked] == [(LOCAL, (("sites.trust", "trust file", False),))] * 4
