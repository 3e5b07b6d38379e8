"""The copies of a ReplicatedDict on an ideal order: joiners, splits and merges by each policy, operations, expiry."""
from __future__ import annotations

from collections.abc import Iterable

import pytest

from jgroups_py.blocks.dicts import core as core_module
from jgroups_py.blocks.dicts.core import (
    KEEP,
    LOG_LIMIT,
    MERGE,
    PRIMARY,
    Answered,
    Changed,
    Conflict,
    DictCore,
    NotANumber,
    Refused,
    Reloaded,
    Send,
)
from jgroups_py.blocks.dicts.messages import (
    COMPARE,
    DELETE,
    INCREMENT,
    POP,
    PUT,
    SET_DEFAULT,
    DictExpiry,
    DictSnapshot,
    Operation,
    encode,
)
from jgroups_py.model.address import Address
from jgroups_py.model.units import seconds
from jgroups_py.model.view import View
from jgroups_py.testing.bench import address, view_of


def put(key: bytes, value: bytes, ttl_ms: int = 0) -> Operation:
    return PUT, key, value, None, ttl_ms


def bigger(key: bytes, mine: bytes, its: bytes) -> bytes:
    return max(mine, its)


class Part:
    """Members that are connected: an ideal order among them. unicasts_held: copies wait until `give_unicasts`."""

    def __init__(self, cores: dict[str, DictCore]) -> None:
        self.cores = cores
        self.place = 0
        self.now_ns = 0
        self.other: dict[str, list[object]] = {name: [] for name in cores}

    def install(self, view: View, failed: Iterable[str] = ()) -> None:
        self.place = 0
        for name, core in self.cores.items():
            core.view_installed(view, [address(one) for one in failed])
            assert core.me.name == name
        self.settle()

    def settle(self) -> None:
        """Deliver all that was sent, in one order."""
        while True:
            sent: list[tuple[Address, Send]] = []
            for name, core in self.cores.items():
                outputs, core.outputs = core.outputs, []
                sent += [(core.me, output) for output in outputs if isinstance(output, Send)]
                self.other[name] += [output for output in outputs if not isinstance(output, Send)]
            if not sent:
                return
            for src, output in sent:
                if output.dest is None:
                    self.place += 1
                    for core in self.cores.values():
                        core.receive(src, output.data, self.place, self.now_ns)
                else:
                    for core in self.cores.values():
                        if core.me == output.dest:
                            core.receive(src, output.data, 0, self.now_ns)

    def write(self, name: str, *operations: Operation) -> object:
        """An own write; its outcome."""
        number = self.cores[name].write(operations)
        self.settle()
        found = [output for output in self.other[name] if getattr(output, "number", 0) == number]
        return found[-1] if found else None

    def heard(self, name: str, kind: type) -> list[object]:
        return [output for output in self.other[name] if isinstance(output, kind)]


def made(names: str, policy: str = PRIMARY) -> dict[str, DictCore]:
    return {name: DictCore(address(name), policy, bigger if policy == MERGE else None) for name in names}


def group(names: str, policy: str = PRIMARY) -> tuple[Part, dict[str, DictCore]]:
    """Members that founded a group one after the other."""
    cores = made(names, policy)
    part = Part({names[0]: cores[names[0]]})
    part.install(view_of(names[0], counter=1))
    for number in range(2, len(names) + 1):
        part = Part({name: cores[name] for name in names[:number]})
        part.install(view_of(*names[:number], counter=number))
    return part, cores


def split(cores: dict[str, DictCore], *sides: str, counter: int = 10) -> list[Part]:
    parts = []
    for side in sides:
        part = Part({name: cores[name] for name in side})
        part.install(view_of(*side, counter=counter), [name for name in cores if name not in side])
        parts.append(part)
    return parts


def contents(cores: dict[str, DictCore]) -> dict[bytes, bytes]:
    """What all have."""
    found = [core.items() for core in cores.values()]
    assert all(one == found[0] for one in found), found
    return found[0]


# --- one group --------------------------------------------------------------------------------------------------------

def test_writes_are_carried_out_at_all_members_and_answered_with_their_place() -> None:
    part, cores = group("ABC")
    answer = part.write("B", put(b"k", b"1"), put(b"l", b"2"))
    assert isinstance(answer, Answered)
    assert answer.results == (None, None)
    assert contents(cores) == {b"k": b"1", b"l": b"2"}
    changes = [(change.key, change.old, change.new, change.by) for change in part.heard("C", Changed)]  # type: ignore[attr-defined]
    assert changes == [(b"k", None, b"1", address("B")), (b"l", None, b"2", address("B"))]


def test_a_joiner_gets_the_copy_and_what_is_written_meanwhile_once() -> None:
    part, _ = group("AB")
    part.write("A", put(b"k", b"1"))
    joined = Part({**part.cores, "C": DictCore(address("C"))})
    joined.cores["A"].write((put(b"early", b"x"),))
    joined.install(view_of("A", "B", "C", counter=5))
    assert contents(joined.cores) == {b"k": b"1", b"early": b"x"}
    assert joined.heard("C", Reloaded)
    assert joined.cores["C"].applied == joined.cores["A"].applied


def test_a_write_that_is_delivered_before_the_choice_is_sent_again_and_carried_out_once() -> None:
    part, cores = group("AB")
    cores["A"].write([(INCREMENT, b"n", b"1", None, 0)])
    part.install(view_of("A", "B", counter=7))                    # its message names the earlier view
    assert contents(cores) == {b"n": b"1"}
    assert len(part.heard("A", Answered)) == 1


def test_operations_answer_what_they_found() -> None:
    part, cores = group("AB")

    def result(*operation: object) -> object:
        answer = part.write("A", operation)                                  # type: ignore[arg-type]
        assert isinstance(answer, Answered)
        return answer.results[0]
    assert result(SET_DEFAULT, b"k", b"1", None, 0) == b"1"
    assert result(SET_DEFAULT, b"k", b"2", None, 0) == b"1"
    assert result(COMPARE, b"k", b"3", b"1", 0) is True
    assert result(COMPARE, b"k", b"4", b"1", 0) is False
    assert result(COMPARE, b"new", b"1", None, 0) is True
    assert result(INCREMENT, b"k", b"4", None, 0) == 7
    assert result(POP, b"k", b"", None, 0) == b"7"
    assert result(DELETE, b"k", b"", None, 0) is None
    assert isinstance(result(INCREMENT, b"text", b"x", None, 0), NotANumber)
    assert isinstance(result(INCREMENT, b"text", b"9" * 4300, None, 0), int)
    assert isinstance(result(INCREMENT, b"text", b"9" * 4300, None, 0), NotANumber)     # one digit too many
    assert contents(cores).keys() == {b"new", b"text"}


def test_an_entry_expires_at_one_place_unless_it_was_written_again() -> None:
    part, cores = group("AB")
    part.write("B", put(b"gone", b"1", 1000))
    part.write("B", put(b"kept", b"1", 1000))
    part.write("B", put(b"kept", b"2"))
    assert cores["B"].next_deadline_ns is None                    # the coordinator alone says so
    part.now_ns = seconds(2)
    for core in cores.values():
        core.advance(part.now_ns)
    part.settle()
    assert contents(cores) == {b"kept": b"2"}


def test_a_joiner_that_becomes_coordinator_lets_entries_expire() -> None:
    part, cores = group("AB")
    part.write("A", put(b"k", b"1", 1000))
    rest = Part({"B": cores["B"]})
    rest.install(view_of("B", counter=9))
    rest.now_ns = seconds(2)
    cores["B"].advance(rest.now_ns)
    rest.settle()
    assert cores["B"].items() == {}


# --- splits and merges ------------------------------------------------------------------------------------------------

def test_only_the_part_with_the_majority_writes() -> None:
    _, cores = group("ABC")
    major, minor = split(cores, "AB", "C")
    assert isinstance(minor.write("C", put(b"c", b"1")), Refused)
    assert isinstance(major.write("A", put(b"a", b"1")), Answered)
    whole = Part(cores)
    whole.install(view_of("C", "A", "B", counter=20))
    assert contents(cores) == {b"a": b"1"}
    assert not whole.heard("C", Conflict)
    assert isinstance(whole.write("C", put(b"c", b"2")), Answered)


def test_of_two_halves_the_one_with_the_lowest_address_writes() -> None:
    _, cores = group("AB")
    low, high = split(cores, "A", "B")
    assert isinstance(low.write("A", put(b"k", b"1")), Answered)
    assert isinstance(high.write("B", put(b"k", b"2")), Refused)


def test_who_leaves_as_it_wanted_to_takes_its_vote_along() -> None:
    _, cores = group("AB")
    rest = Part({"B": cores["B"]})
    rest.install(view_of("B", counter=9))                         # A has not failed
    assert isinstance(rest.write("B", put(b"k", b"1")), Answered)


def test_what_a_merge_takes_back_is_told_to_its_writer() -> None:
    _, cores = group("ABC", KEEP)
    first, second = split(cores, "AB", "C")
    first.write("A", put(b"k", b"1"), put(b"same", b"x"))
    second.write("C", put(b"k", b"2"), put(b"c", b"3"), put(b"same", b"x"))
    whole = Part(cores)
    whole.install(view_of("A", "B", "C", counter=20))
    assert contents(cores) == {b"k": b"1", b"same": b"x"}
    told = [(one.key, one.value, one.other) for one in whole.heard("C", Conflict)]           # type: ignore[attr-defined]
    assert told == [(b"k", b"2", b"1"), (b"c", b"3", None)]
    assert not whole.heard("A", Conflict)


@pytest.mark.parametrize("policy", [KEEP, MERGE])
def test_every_own_change_that_a_merge_takes_back_is_told_also_if_others_wrote_the_key_since(policy: str) -> None:
    part, cores = group("ABCDE", policy)
    part.write("D", put(b"k", b"0"), put(b"gone", b"0"), put(b"same", b"0"))
    most, least = split(cores, "ABC", "DE")
    least.write("D", put(b"k", b"1"), put(b"same", b"9"), (INCREMENT, b"sum", b"5", None, 0))
    least.write("E", put(b"k", b"2"), (INCREMENT, b"sum", b"3", None, 0), (DELETE, b"gone", b"", None, 0))
    most.write("A", put(b"k", b"7"), put(b"same", b"9"), (INCREMENT, b"sum", b"8", None, 0))
    whole = Part(cores)
    whole.install(view_of(*"ABCDE", counter=20))
    told = {name: [(one.verb, one.key, one.value) for one in whole.heard(name, Conflict)]    # type: ignore[attr-defined]
            for name in "ABCDE"}
    assert told["D"] == [(PUT, b"k", b"1"), (INCREMENT, b"sum", b"5")]
    assert told["E"] == [(PUT, b"k", b"2"), (INCREMENT, b"sum", b"3"), (DELETE, b"gone", b"")]
    assert told["A"] == told["B"] == told["C"] == []
    assert cores["D"].items() == {b"k": b"7", b"gone": b"0", b"same": b"9", b"sum": b"8"}
    assert len(cores["D"].log) == 3 + (policy == MERGE)      # "same" stands: the merger was given it
    assert cores["D"].written == cores["A"].written


def test_a_merger_that_takes_the_other_value_has_all_writers_of_the_chosen_part_told() -> None:
    _, cores = group("ABCDE", MERGE)
    most, least = split(cores, "ABC", "DE")
    most.write("A", put(b"k", b"1"))
    most.write("B", put(b"k", b"2"))
    least.write("D", put(b"k", b"9"))
    whole = Part(cores)
    whole.install(view_of(*"ABCDE", counter=20))
    told = {name: [one.value for one in whole.heard(name, Conflict)] for name in "ABCDE"}    # type: ignore[attr-defined]
    assert told == {"A": [b"1"], "B": [b"2"], "C": [], "D": [], "E": []}
    assert cores["E"].items() == {b"k": b"9"}


def dropped_while_away(home: str) -> tuple[dict[str, DictCore], Part]:
    """A wrote, parted from D, and went on as `home`. D met B and C, whose merger dropped what A had written."""
    _, cores = group("ABCDEF", MERGE)
    with_d, others = split(cores, home + "D", "".join(name for name in "BCEF" if name not in home))
    others.write("B", (INCREMENT, b"sum", b"9", None, 0), put(b"back", b"0"), put(b"own", b"8"))
    with_d.write("A", (INCREMENT, b"sum", b"5", None, 0), put(b"back", b"1"), (DELETE, b"back", b"", None, 0),
                 put(b"own", b"7"), put(b"mine", b"1"))
    at_home, alone = split({name: cores[name] for name in home + "D"}, home, "D", counter=20)
    met = Part({**alone.cores, **others.cores})
    met.install(view_of(*others.cores, "D", counter=30))
    assert cores["D"].items() == {b"sum": b"9", b"back": b"0", b"own": b"8", b"mine": b"1"}
    assert not met.heard("D", Conflict)
    return cores, at_home


def told_when_all_meet(cores: dict[str, DictCore], counter: int = 40) -> dict[str, list[tuple[int, bytes, bytes]]]:
    whole = Part(cores)
    whole.install(view_of(*cores, counter=counter))
    contents(cores)
    assert all(core.untold == cores["A"].untold and core.written == cores["A"].written for core in cores.values())
    return {name: [(one.verb, one.key, one.value) for one in whole.heard(name, Conflict)]    # type: ignore[attr-defined]
            for name in cores}


@pytest.mark.parametrize("home", ["A", "AEF"])
def test_a_writer_that_was_away_when_a_merger_dropped_its_changes_is_told_when_it_comes_back(home: str) -> None:
    cores, at_home = dropped_while_away(home)
    for _ in range(len(home)):                                    # "AEF": its past goes on, with the most members
        at_home.write("A", put(b"later", b"1"))
    told = told_when_all_meet(cores)
    # In its own past "back" is gone, as it is not with the others; nobody is told of a value that was deleted since.
    assert [one for one in told["A"] if one[1] != b"back"] == [(INCREMENT, b"sum", b"5"), (PUT, b"own", b"7")]
    assert [one for one in told["A"] if one[1] == b"back"][-1] == (DELETE, b"back", b"")
    assert not any(told[name] for name in "BCDEF")
    assert not any(told_when_all_meet(cores, counter=50).values()), "they were told twice"
    assert cores["A"].untold == []


@pytest.mark.parametrize("home", ["A", "AEF"])
def test_what_a_merger_dropped_is_not_told_if_the_other_past_that_has_it_goes_on(home: str) -> None:
    cores, at_home = dropped_while_away(home)
    at_home.write("A", (INCREMENT, b"sum", b"90", None, 0), put(b"own", b"9"))
    told = told_when_all_meet(cores)
    assert [one for one in told["A"] if one[1] != b"back"] == []
    assert told["B"] == [(INCREMENT, b"sum", b"9"), (PUT, b"own", b"8")]
    assert cores["D"].items() == {b"sum": b"95", b"back": b"0", b"own": b"9", b"mine": b"1"}


def test_of_equal_sums_the_increments_of_the_offer_are_told_to_a_writer_that_was_away() -> None:
    _, cores = group("ABCDE", MERGE)
    with_d, others = split(cores, "AD", "BCE")
    others.write("B", (INCREMENT, b"sum", b"5", None, 0), put(b"same", b"x"))
    with_d.write("A", (INCREMENT, b"sum", b"5", None, 0), put(b"same", b"x"))
    _, alone = split({name: cores[name] for name in "AD"}, "A", "D", counter=20)
    met = Part({**alone.cores, **others.cores})
    met.install(view_of(*"BCED", counter=30))
    assert told_when_all_meet(cores) == {"A": [(INCREMENT, b"sum", b"5")], "B": [], "C": [], "D": [], "E": []}


def test_what_mergers_dropped_is_bounded_and_conflicts_are_kept_longest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(core_module, "UNTOLD_LIMIT", 3)
    _, cores = group("ABCD", MERGE)
    with_d, others = split(cores, "AD", "BC")
    others.write("B", put(b"k", b"2"), *[put(b"new %d" % number, b"1") for number in range(9)])
    with_d.write("A", put(b"k", b"1"))
    _, alone = split({name: cores[name] for name in "AD"}, "A", "D", counter=20)
    met = Part({**alone.cores, **others.cores})
    met.install(view_of(*"BCD", counter=30))
    assert len(cores["B"].untold) == 3
    assert told_when_all_meet(cores)["A"] == [(PUT, b"k", b"1")]


def test_the_log_of_own_changes_is_bounded() -> None:
    _, cores = group("A")
    for _ in range(3):
        Part(cores).write("A", *[put(b"k", b"%d" % number) for number in range(LOG_LIMIT // 2)])
    assert len(cores["A"].log) == LOG_LIMIT


def test_a_merger_keeps_what_both_parts_wrote() -> None:
    _, cores = group("ABC", MERGE)
    first, second = split(cores, "AB", "C")
    first.write("A", put(b"k", b"1"))
    second.write("C", put(b"k", b"2"), put(b"c", b"3"))
    whole = Part(cores)
    whole.install(view_of("A", "B", "C", counter=20))
    assert contents(cores) == {b"k": b"2", b"c": b"3"}
    assert [one.key for one in whole.heard("A", Conflict)] == [b"k"]                 # type: ignore[attr-defined]
    assert not whole.heard("C", Conflict)


def test_a_member_that_founded_a_group_of_its_own_gives_way_to_a_part_with_writes() -> None:
    part, cores = group("ABC")
    part.write("A", put(b"k", b"1"))
    split(cores, "C", "AB")
    founder = DictCore(address("D"))
    alone = Part({"D": founder})
    alone.install(view_of("D", counter=1))
    both = Part({"C": cores["C"], "D": founder})
    both.install(view_of("D", "C", counter=30))
    assert contents(both.cores) == {b"k": b"1"}


def test_a_copy_that_comes_before_the_last_claim_is_taken_at_the_choice() -> None:
    part, cores = group("AB")
    part.write("A", put(b"k", b"1"))
    joiner, view = DictCore(address("C")), view_of("A", "B", "C", counter=5)
    members = {**cores, "C": joiner}
    for core in members.values():
        core.view_installed(view)
    claims = [(core.me, core.outputs.pop(0)) for core in members.values()]
    for name in "ABC":
        for place, (src, claim) in enumerate(claims[:3 if name != "C" else 2], 1):
            assert isinstance(claim, Send)
            members[name].receive(src, claim.data, place, 0)
    [copy] = [output for output in cores["A"].outputs if isinstance(output, Send)]
    joiner.receive(address("A"), copy.data, 0, 0)
    assert not joiner.settled
    assert isinstance(claims[2][1], Send)
    joiner.receive(claims[2][0], claims[2][1].data, 3, 0)
    assert joiner.settled
    assert joiner.items() == {b"k": b"1"}


def test_a_provider_that_dies_before_it_gave_its_copy_is_replaced() -> None:
    part, cores = group("AB")
    part.write("A", put(b"k", b"1"))
    joiner = DictCore(address("C"))
    both = Part({**cores, "C": joiner})
    for core in both.cores.values():
        core.view_installed(view_of("A", "B", "C", counter=5))
    claims = [(core.me, output) for core in both.cores.values() for output in core.outputs if isinstance(output, Send)]
    for place, (src, claim) in enumerate(claims, 1):
        for core in both.cores.values():
            core.receive(src, claim.data, place, 0)
    for core in both.cores.values():
        core.outputs.clear()                                      # the copy of A never arrives
    assert not joiner.settled
    rest = Part({"B": cores["B"], "C": joiner})
    rest.install(view_of("B", "C", counter=6), ["A"])
    assert contents(rest.cores) == {b"k": b"1"}


# --- input that does not fit ------------------------------------------------------------------------------------------

@pytest.mark.parametrize("policy", [PRIMARY, KEEP, MERGE])
def test_a_member_that_begins_anew_since_the_copy_it_waited_for_never_came_is_told_what_it_had_written(
    policy: str,
) -> None:
    part, cores = group("ABD", policy)
    part.write("A", put(b"k", b"1"))
    founder = DictCore(address("C"), policy, bigger if policy == MERGE else None)
    alone = Part({"C": founder})
    alone.install(view_of("C", counter=1))
    alone.write("C", put(b"own", b"2"), put(b"gone", b"3"), (INCREMENT, b"sum", b"5", None, 0))
    alone.write("C", (DELETE, b"gone", b"", None, 0))
    both = Part({**cores, "C": founder})
    for core in both.cores.values():
        core.view_installed(view_of("A", "B", "D", "C", counter=20))
    claims = [(core.me, core.outputs.pop(0)) for core in both.cores.values()]
    for place, (src, claim) in enumerate(claims, 1):
        assert isinstance(claim, Send)
        founder.receive(src, claim.data, place, 0)
    assert not founder.settled
    founder.outputs.clear()                                       # it is cut off: the copy of A never arrives
    alone.other["C"].clear()
    alone.install(view_of("C", counter=21), ["A", "B", "D"])
    assert founder.settled
    assert founder.items() == {}
    told = [(one.verb, one.key, one.value) for one in alone.heard("C", Conflict)]            # type: ignore[attr-defined]
    assert told == [(PUT, b"own", b"2"), (INCREMENT, b"sum", b"5")]
    assert len(alone.heard("C", Reloaded)) == 1                   # a listener is told that the keys are gone


def test_messages_that_do_not_fit_are_counted_and_change_nothing() -> None:
    _, cores = group("AB")
    view = view_of("A", "B", counter=2)
    core = cores["A"]
    copy = encode(DictSnapshot(view.id.raw, 9, True, (), ((b"k", b"evil", address("B"), 1, 1 << 61),), (), ()))
    core.receive(address("B"), b"\xff", 1, 0)
    core.receive(address("B"), copy, 0, 0)                        # not asked for
    core.receive(address("B"), copy, 7, 0)                        # a copy is no multicast
    core.receive(address("X"), copy, 0, 0)
    core.receive(address("B"), encode(DictExpiry(view.id.raw, ((b"k", 1),))), 0, 0)
    assert core.items() == {}
    assert (core.counters["malformed"], core.counters["stale_dropped"]) == (1, 4)


def test_only_the_coordinator_lets_entries_expire() -> None:
    part, cores = group("AB")
    part.write("A", put(b"k", b"1", 5000))
    cores["B"].receive(address("B"), encode(DictExpiry(view_of("A", "B", counter=2).id.raw, ((b"k", 1),))), 99, 0)
    assert cores["B"].items() == {b"k": b"1"}


def test_policies_and_mergers_belong_together() -> None:
    with pytest.raises(ValueError, match="on_split is one of primary, keep, merge"):
        DictCore(address("A"), "wrong")
    with pytest.raises(ValueError, match="belong together"):
        DictCore(address("A"), MERGE)
    with pytest.raises(ValueError, match="belong together"):
        DictCore(address("A"), KEEP, bigger)
