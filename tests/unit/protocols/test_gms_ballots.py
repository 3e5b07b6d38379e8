"""GMS: ballots of one view differ, a door that was closed opens in time, partners are ready for one merge only."""
from __future__ import annotations

from collections.abc import Sequence

import attrs

from jgroups_py.model.batch import Batch
from jgroups_py.protocols.gms.headers import MergeCancel, MergeReady
from jgroups_py.testing.bench import InFlight, address
from tests.unit.protocols.gms_group import heal, in_view, split


def test_a_ballot_that_begins_anew_at_once_has_a_higher_round() -> None:
    proposer = in_view("ABC").gms("A").proposer
    proposer.begin()
    assert proposer.flush is not None
    first = proposer.flush.id
    proposer.restart()
    assert proposer.flush is not None
    assert proposer.flush.id.ballot.round == first.ballot.round + 1


def test_joiners_are_admitted_again_after_a_pause() -> None:
    members = in_view("AB")
    gms = members.gms("A")
    gms.admission.joiners[address("X")] = None
    gms.admission.exclude_silent([address("Y")])
    assert gms.admission.next_joiners() == ()
    members["A"].stack.advance(gms.admission.paused_until_ns)
    assert gms.now_ns == gms.admission.paused_until_ns
    assert gms.admission.next_joiners() == (address("X"),), "the timer that ends the pause fires just then"


def test_a_partner_that_is_ready_for_an_earlier_merge_gets_its_cancellation() -> None:
    members = in_view("ABCD")
    split(members, "AB", "C", "D")
    late: list[MergeReady] = []

    def delays_of(in_flight: InFlight) -> Sequence[float]:
        if in_flight.has(MergeReady) and in_flight.src == "D":
            late.extend(header for header in in_flight.batch.headers if isinstance(header, MergeReady))
            return ()
        return members.usual(in_flight)
    members.delays_of = delays_of
    heal(members, "A", "C", "D")
    members.run(20)
    a, merge = members["A"], members.gms("A").merging.attempt
    assert merge is not None
    a.sent()
    earlier = merge.number - 1
    a.up(Batch(address("D"), address("A"), (), (attrs.evolve(late[0], number=earlier),)))
    assert address("D") not in merge.ready
    assert [(off.number, batch.dest) for off, batch in a.sent_with(MergeCancel)] == [(earlier, address("D"))]
