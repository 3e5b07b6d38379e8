"""Deletion marks are dropped when no copy needs them; no deleted key comes back, however long a copy was cut off."""
from __future__ import annotations

from random import Random

import pytest

from jgroups_py.blocks.anti_entropy import Replica, Settings, Version
from jgroups_py.model.outputs import LOCAL
from jgroups_py.model.units import millis, seconds
from jgroups_py.simulator.network import Weather
from tests.unit.blocks.anti_entropy.copies import exchange, replica
from tests.unit.blocks.anti_entropy.test_anti_entropy import equal, group

KEYS = (b"k", b"l", b"m")
FOREVER = Settings(forget_after=0)


def meet(*copies: Replica, wall: int = 0, rounds: int = 8) -> None:
    """Exchanges of all with all, with nothing lost."""
    for _ in range(rounds):
        for one in copies:
            for other in copies:
                if one is not other:
                    exchange(one, other, wall)
    assert len(dict.fromkeys(copy.root for copy in copies)) == 1


def marks(*copies: Replica) -> list[int]:
    """How many deletions each remembers."""
    return [len(copy.deleted) for copy in copies]


# --- a mark goes, and what it kept away stays away --------------------------------------------------------------------

def test_a_deletion_is_forgotten_when_the_copies_have_agreed() -> None:
    a, b = replica("a"), replica("b")
    a.write(b"key", b"value", 1)
    exchange(a, b)
    b.write(b"key", None, 2)
    assert marks(a, b) == [0, 1]
    meet(a, b)
    assert marks(a, b) == [0, 0]
    assert a.items() == b.items() == {}


def test_a_copy_that_was_cut_off_while_all_marks_were_dropped_restores_no_deleted_key_and_loses_no_write() -> None:
    a, b, away = replica("a", FOREVER), replica("b", FOREVER), replica("away", FOREVER)
    a.write(b"deleted here", b"old", 1)
    a.write(b"deleted there", b"old", 1)
    meet(a, b, away)
    away.write(b"written there", b"new", 2)
    away.write(b"deleted there", None, 2)
    a.write(b"deleted here", None, 3)
    a.write(b"written here", b"new", 3)
    meet(a, b)
    assert marks(a, b) == [0, 0]
    meet(away, b)
    meet(a, b, away)
    assert a.items() == away.items() == {b"written there": b"new", b"written here": b"new"}
    assert marks(a, b, away) == [0, 0, 0]


def test_a_new_copy_filled_by_one_that_was_cut_off_does_not_restore_a_deleted_key() -> None:
    a, b, away, newcomer = (replica(name, FOREVER) for name in ("a", "b", "away", "newcomer"))
    a.write(b"key", b"old", 1)
    meet(a, b, away)
    b.write(b"key", None, 2)
    meet(a, b)
    meet(away, newcomer)
    assert newcomer.get(b"key") == b"old"
    meet(a, newcomer)
    assert newcomer.get(b"key") is None
    meet(a, b, away, newcomer)
    assert away.items() == {}
    assert marks(a, b, away, newcomer) == [0] * 4


def test_a_deletion_mark_stays_while_older_entries_may_still_arrive() -> None:
    a, b, away = replica("a", FOREVER), replica("b", FOREVER), replica("away", FOREVER)
    _, message = away.write(b"key", b"old", 1)
    a.receive(message, 1)                                  # received, but no copy was equal with its writer
    a.write(b"key", None, 2)
    meet(a, b)
    assert marks(a) == [1]
    meet(a, b, away)
    assert marks(a, b, away) == [0, 0, 0]
    assert away.items() == {}


def test_a_writer_that_crashed_before_any_exchange_keeps_marks_for_a_time_only() -> None:
    limited = Settings(forget_after=100)
    a, b, dead = replica("a", limited), replica("b", limited), replica("dead")
    _, message = dead.write(b"key", b"value", 1)
    a.receive(message, 1)
    b.receive(message, 1)
    a.write(b"key", None, 2)
    meet(a, b, wall=90)
    assert marks(a) == [1]
    meet(a, b, wall=250)
    assert marks(a, b) == [0, 0]
    a.receive(message, 260)                                # it comes once more
    assert a.items() == {}


def test_a_copy_that_sends_a_deleted_entry_gets_the_deletion_mark() -> None:
    a, b = replica("a"), replica("b")
    _, message = a.write(b"key", b"value", 1)
    a.write(b"key", None, 2)
    for _ in range(2):
        _, replies = a.receive(message, 3)
        changes, _ = b.receive(message, 3)
        assert [change.after for change in changes] == [b"value"]
        assert [change.after for reply in replies for change in b.receive(reply, 3)[0]] == [None]
        b = replica("b")
        a.begin(4)
        assert marks(a) == [0]                             # the second time without a mark


def test_a_wrong_claim_from_the_far_future_is_refused_where_that_is_asked_for() -> None:
    strict, wrong = replica("strict", Settings(max_ahead=60)), replica("wrong")
    wrong.write(b"key", None, 5000)
    exchange(strict, wrong, 10)
    assert strict.counters["refused"] == 1
    assert strict.context.seen == {}


# --- at random, against what should come of it ------------------------------------------------------------------------

class Trial:
    """Copies that write, meet and are apart at random; for each version, which ones its writer had known of."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.copies = [replica(name, FOREVER) for name in "abcd"]
        self.halves = [self.copies]
        self.wall = 0
        self.known: dict[tuple[int, bytes], dict[Version, None]] = {}    # copy, key -> versions known there
        self.past: dict[Version, dict[Version, None]] = {}               # version -> of its key, known when written
        self.deleted: dict[bytes, dict[Version, None]] = {key: {} for key in KEYS}
        self.latest: dict[bytes, tuple[Version, bytes | None]] = {}

    def run(self, steps: int) -> None:
        for _ in range(steps):
            self.wall += self.rng.choice((0, 1, 5))
            draw = self.rng.random()
            if draw < 0.04:
                self.copies = self.rng.sample(self.copies, 4)
                cut = self.rng.randint(0, 3)
                self.halves = [self.copies[:cut], self.copies[cut:]]
            elif draw < 0.5:
                self.write()
            else:
                self.exchange()

    def write(self) -> None:
        half = self.rng.choice([half for half in self.halves if half])
        copy, key = self.rng.choice(half), self.rng.choice(KEYS)
        value = None if self.rng.random() < 0.4 else b"%d" % self.wall
        known = dict(self.known.get((id(copy), key), {}))
        # A clock that is behind by as much as the copy likes, as long as it has not seen later stamps.
        _, message = copy.write(key, value, max(0, self.wall - self.rng.choice((0, 0, 30))))
        version = (copy.deleted if value is None else copy.entries)[key].version
        self.past[version] = known
        if value is None:
            self.deleted[key].update(known)
        self.latest[key] = max(self.latest.get(key, (version, value)), (version, value), key=lambda write: write[0])
        self.note(copy)
        for other in half:
            if other is not copy and self.rng.random() < 0.8:
                other.receive(message, self.wall)
                self.note(other)

    def exchange(self) -> None:
        half = self.rng.choice([half for half in self.halves if half])
        one, other = self.rng.choice(half), self.rng.choice(half)
        waiting = [(other, one, one.begin(self.wall))] if one is not other else []
        loss = self.rng.choice((0, 0, 0.3))
        while waiting:
            to, sender, message = waiting.pop(self.rng.randrange(len(waiting)))
            if self.rng.random() >= loss:
                waiting += [(sender, to, reply) for reply in to.receive(message, self.wall)[1]]
                self.note(to)

    def note(self, copy: Replica) -> None:
        """What a copy holds it knows of, and of all that was known where it was written."""
        for key in KEYS:
            entry = copy.entries.get(key) or copy.deleted.get(key)
            if entry is not None:
                self.known.setdefault((id(copy), key), {}).update({entry.version: None, **self.past[entry.version]})


@pytest.mark.parametrize("first", range(0, 100, 50))
def test_deleted_keys_stay_deleted_latest_writes_are_kept_and_no_mark_stays(first: int) -> None:
    survived = 0
    for seed in range(first, first + 50):
        trial = Trial(seed)
        trial.run(200)
        meet(*trial.copies, wall=trial.wall)
        assert marks(*trial.copies) == [0] * 4, seed
        entries = trial.copies[0].entries
        survived += len(entries)
        for key, entry in entries.items():
            assert entry.version not in trial.deleted[key], f"seed {seed}: {key!r} is back"
        for key, (_, value) in trial.latest.items():
            if value is not None:
                assert trial.copies[0].get(key) == value, f"seed {seed}: the latest write of {key!r} is lost"
    assert survived > 40


# --- on the simulator -------------------------------------------------------------------------------------------------

def test_a_thousand_deletions_over_loss_and_a_partition_leave_no_marks() -> None:
    world, copies = group()
    rng = Random(2)
    for number in range(200):
        copies["A"].write(b"key %d" % number, b"value")
    assert world.run_while(lambda: not equal(copies), seconds(20))
    world.partition(["AB", "CDE"], [LOCAL])
    world.set_weather(Weather(loss_ratio=0.1), LOCAL)
    for number in range(200):
        copies[rng.choice("AB")].write(b"key %d" % number, None)
        copies[rng.choice("CDE")].write(b"key %d" % (200 + number), b"other")
        world.run_for(millis(5))
    assert world.run_while(lambda: bool(copies["A"].replica.deleted or copies["B"].replica.deleted), seconds(60))
    assert len(copies["C"].replica.items()) == 400         # no copy there has received it
    world.heal()
    assert world.run_while(lambda: not equal(copies), seconds(60))
    assert sorted(copies["E"].replica.items().values()) == [b"other"] * 200
    assert world.run_while(lambda: any(copy.replica.deleted for copy in copies.values()), seconds(20))
