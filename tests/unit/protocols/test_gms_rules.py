"""The pure parts of GMS: what a member may promise, accept and install; what a cut is; how large messages get."""
from __future__ import annotations

from random import Random

import pytest

from jgroups_py import wire
from jgroups_py.model.address import Address
from jgroups_py.model.batch import Header
from jgroups_py.model.units import millis, seconds
from jgroups_py.model.view import MergeView, View, ViewId
from jgroups_py.protocols.gms.acceptor_state import AcceptorState
from jgroups_py.protocols.gms.flush import SILENT_TICKS, Flush, FlushPhase, cut_of, repeat_ns
from jgroups_py.protocols.gms.headers import Ballot, CutHeader, FlushId, InstallHeader, MergeReady, Prepare, StateHeader
from jgroups_py.protocols.gms.merge import merged
from jgroups_py.testing.bench import address, view_of

A, B, C, D = map(address, "ABCD")
V = view_of("A", "B", "C")


def flush(round_: int, owner: Address = A, view: View = V) -> FlushId:
    """A ballot in a view."""
    return FlushId(view.id, Ballot(round_, owner))


def accepted(*steps: tuple[FlushId, dict[Address, int]]) -> AcceptorState:
    """A member of V that promised, filled and accepted these flushes, one after the other."""
    member = AcceptorState(V.id)
    for one, cut in steps:
        member.promise(one)
        member.fill(one, cut)
        assert member.filled(cut) == one
    return member


def test_a_lower_ballot_is_not_promised_after_a_higher_one() -> None:
    member = AcceptorState(V.id)
    member.promise(flush(2, B))
    assert not member.may_promise(flush(1, C))
    assert not member.may_promise(flush(2, A))
    assert member.may_promise(flush(2, B))
    assert member.may_promise(flush(2, C))


def test_what_was_accepted_may_be_installed_even_after_a_higher_promise() -> None:
    member = accepted((flush(1), {A: 5}))
    member.promise(flush(2, B))
    assert member.may_install((flush(1),), A, C)


def test_what_was_only_promised_may_not_be_installed() -> None:
    member = AcceptorState(V.id)
    member.promise(flush(1))
    assert not member.may_install((flush(1),), A, C)


def test_nothing_is_installed_while_its_cut_is_being_filled() -> None:
    member = AcceptorState(V.id)
    member.promise(flush(1))
    member.fill(flush(1), {A: 5})
    assert not member.may_install((flush(1),), A, C)


def test_a_cut_that_differs_voids_what_was_accepted_before() -> None:
    member = accepted((flush(1), {A: 5}))
    member.promise(flush(2, B))
    member.fill(flush(2, B), {A: 6})
    assert not member.may_install((flush(1),), B, C)
    assert member.filled({A: 6}) == flush(2, B)
    assert not member.may_install((flush(1),), B, C)


def test_an_older_decision_with_the_same_cut_is_accepted_only_from_the_newer_owner() -> None:
    member = accepted((flush(1), {A: 5}), (flush(2, B), {A: 5}))
    assert not member.may_install((flush(1),), A, C)
    assert member.may_install((flush(1),), B, C)
    assert member.may_install((flush(2, B),), A, C)


def test_a_filling_that_a_higher_ballot_interrupted_does_not_accept() -> None:
    member = AcceptorState(V.id)
    member.promise(flush(1))
    member.fill(flush(1), {A: 5})
    member.promise(flush(2, B))
    assert member.filled({A: 5}) is None
    assert member.latest is None


def test_the_cut_is_the_furthest_digest_and_names_a_holder() -> None:
    digests = {B: {A: 7, B: 3, C: 9}, C: {A: 9, B: 2, C: 4}}
    cut, holders = cut_of((A, B, C), digests)
    assert cut == {A: 9, B: 3, C: 9}
    assert holders == {A: C, B: B, C: B}


@pytest.mark.parametrize("seed", range(30))
def test_a_cut_covers_every_digest_and_its_holder_has_all_of_it(seed: int) -> None:
    rng = Random(seed)
    senders = [address(f"M{i}") for i in range(rng.randint(1, 6))]
    present = rng.sample(senders, rng.randint(1, len(senders)))
    digests = {member: {sender: rng.randint(1, 9) for sender in senders} for member in present}
    cut, holders = cut_of(senders, digests)
    for sender in senders:
        assert all(digest[sender] <= cut[sender] for digest in digests.values())
        assert digests[holders[sender]][sender] == cut[sender]


def test_a_flush_needs_an_answer_of_each_member_and_counts_it_once() -> None:
    one = Flush(flush(1), V, (A, B), (D,), (B,))
    assert not one.state(A, {A: 1, B: 1, C: 1})
    assert not one.state(A, {A: 9, B: 9, C: 9})
    assert not one.state(C, {})                                # it was not asked
    assert one.waiting() == [B, D]
    assert not one.state(B, {A: 3, B: 1, C: 2})
    assert one.state(D, {})
    one.start_cut(8)
    assert (one.phase, one.cut) == (FlushPhase.CUTTING, {A: 3, B: 1, C: 2})
    assert [one.ack(member) for member in (A, A, B, D)] == [False, False, False, True]
    assert one.stayers == (A, D)


def test_repetitions_until_silence_last_as_long_as_configured() -> None:
    total = sum(repeat_ns(tick, seconds(2)) for tick in range(SILENT_TICKS))
    assert total == seconds(2)
    assert repeat_ns(0, seconds(2)) == millis(50)


def test_a_merged_view_lists_the_leaders_group_first_and_all_groups_as_subgroups() -> None:
    own = Flush(flush(1), V, (A, B, C), (), (B,))
    other = View(ViewId(9, D), (D,))
    ready = MergeReady(1, flush(4, D, other), 9, other, (D,), (), {D: ("h", 1)}, {B: 3, D: 7})
    install = merged(own, [ready], 10, {A: ("h", 2)}, {A: 5, B: 2, C: 0})
    assert isinstance(install.view, MergeView)
    assert install.view.id == ViewId(10, A)
    assert install.view.members == (A, C, D)
    assert install.view.subgroups == (V, other)
    assert install.flushes == (flush(1), flush(4, D, other))
    assert install.leavers == (B,)
    assert install.book == {A: ("h", 2), D: ("h", 1)}
    assert install.sent == {B: 3, A: 5, C: 0, D: 7}


def nbytes(header: Header) -> int:
    """The size on the wire."""
    out = bytearray()
    wire.encode_headers((header,), out)
    return len(out)


def test_every_message_about_a_hundred_members_fits_one_frame() -> None:
    members = tuple(Address(bytes([i]) * 16, f"{i:030}") for i in range(100))
    view = View(ViewId(2**40, members[0]), members)
    halves = tuple(View(view.id, part) for part in (members[:50], members[50:]))
    book = dict.fromkeys(members, ("255.255.255.255", 65535))
    digest = dict.fromkeys(members, 2**50)
    one = flush(1, members[0], view)
    for header in (
        Prepare(one, members, members), StateHeader(one, 1, digest), CutHeader(one, members, members, 1, digest,
                                                                   dict.fromkeys(members, members[0])),
        InstallHeader(MergeView(view.id, members, halves), (one, one), members, book, digest),
        MergeReady(1, one, 1, view, members, members, book, digest),
    ):
        assert nbytes(header) < 30_000
