"""Applications that consist of threads: the JChannel of production on virtual time, one thread at a time."""
from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import queue
import select
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from threading import Lock as LockByName
from threading import RLock as RLockByName
from time import monotonic as monotonic_by_name
from time import sleep as sleep_by_name
from typing import Any

import pytest

import jgroups_py as jg
from jgroups_py.blocks.dicts.replicated import ReplicatedDict
from jgroups_py.blocks.rpc.sync import Rpc
from jgroups_py.model.units import seconds
from jgroups_py.testing.simulation import Simulation, SimulationError, Trial, baton
from jgroups_py.testing.simulation.refusals import simulated
from jgroups_py.testing.simulation.thread_primitives import replacements
from tests.simulator.code_bench import App, Bench
from tests.simulator.thread_accounts import (
    Account,
    add,
    add_under_a_lock,
    add_without_a_wait,
    all_is_there,
    open_account,
)

pytest_plugins = ("pytester",)


@pytest.fixture
def bench() -> Iterator[Callable[..., Bench]]:
    made: list[Bench] = []

    def make(app: App, *arguments: Any, **options: Any) -> Bench:
        made.append(Bench(app, *arguments, threads=True, **options))
        return made[-1]
    before = threading.active_count()
    with simulated("test", replacements()):
        yield make
        for one in made:
            one.stage.dispose()
    assert threading.active_count() == before


# --- the channel is that of production --------------------------------------------------------------------------------

def test_everything_of_a_channel_works_in_one_program(bench: Callable[..., Bench]) -> None:
    done: dict[str, list[Any]] = {}

    def app(ch: jg.JChannel) -> None:
        assert type(ch) is jg.JChannel
        found = done[ch.name] = []
        rpc = Rpc(ch, lambda request: b"re: " + request.payload)
        prices = ReplicatedDict(ch, "prices", str, int)
        with ch:
            ch.connect("x")
            view = ch.wait_for(members=2, timeout=10)
            found.append(set(ch.send(b"from " + ch.name.encode(), until="handled").members) == set(view.members))
            found.append(rpc.request(ch.others[0], b"hello", timeout=2))
            found.append(prices.increment("apple") in (1, 2))
            found.extend(sorted(message.payload for message in ch.messages(timeout=1.0)))
            found.append(prices["apple"])
            found.append(ch.stats()["channel"]["messages_queued"] > 0)
        found.append(str(ch.state))
    made = bench(app, stack="udp-total")
    made.until(lambda: len(done) == 2 and all(found[-1:] == ["CLOSED"] for found in done.values()))
    for found in done.values():
        assert found[:3] == [True, b"re: hello", True]
        assert found[-3:] == [2, True, "CLOSED"]
    heard = [found[3:-3] for found in done.values()]
    assert heard[0] == heard[1] or b"from" in b"".join(heard[0] + heard[1])


def test_a_state_is_fetched_with_all_messages_around_it(bench: Callable[..., Bench]) -> None:
    class Log(jg.Receiver):
        def __init__(self) -> None:
            self.lines: list[bytes] = []

        def receive(self, message: jg.Message) -> None:
            self.lines.append(message.payload)

        def get_state(self, stream: Any) -> None:
            stream.write(b"\n".join(self.lines))

        def set_state(self, stream: Any) -> None:
            self.lines = stream.read().split(b"\n")

    def app(ch: jg.JChannel) -> Log:
        ch.receiver = kept = Log()
        ch.connect("x", state_from=jg.COORDINATOR if ch.name == "B" else None)

        def write() -> None:
            for number in range(200):
                ch.send(b"%s %d" % (ch.name.encode(), number) + b"." * 5000)
                time.sleep(0.01)
        if ch.name == "A":
            threading.Thread(target=write).start()
        return kept
    made = bench(app, "A")
    made.stage.run_for(seconds(2))
    made.start("B")
    made.until(lambda: made.member("B").ready)
    made.stage.run_for(seconds(4))
    first, second = (made.member(name).application.lines for name in "AB")
    assert len(first) == 200
    assert second == first


def test_a_sender_that_is_faster_than_the_group_waits_for_room(bench: Callable[..., Bench]) -> None:
    took: list[float] = []

    def app(ch: jg.JChannel) -> None:
        ch.connect("x")
        ch.wait_for(members=2)

        @ch.on_message
        def heard(message: jg.Message) -> None:
            time.sleep(0.01)
        if ch.name == "A":
            began = time.monotonic()
            for _ in range(200):
                ch.send(bytes(100_000))
            took.append(time.monotonic() - began)
    bench(app).until(lambda: took, 60)
    assert took[0] > 0.5


def test_a_channel_connects_again_under_another_address(bench: Callable[..., Bench]) -> None:
    found: list[object] = []

    def app(ch: jg.JChannel) -> None:
        ch.connect("x")
        found.append(ch.me)
        ch.disconnect()
        ch.connect("x")
        ch.send(b"again", until="stable")
        found.append(ch.me)
    bench(app, "A").until(lambda: len(found) == 2)
    assert found[0] != found[1]


def test_a_callback_that_closes_its_channel_ends_it(bench: Callable[..., Bench]) -> None:
    def app(ch: jg.JChannel) -> None:
        @ch.on_message
        def heard(message: jg.Message) -> None:
            ch.close()
        ch.connect("x")
        ch.send(b"the last one")
    made = bench(app, "A")
    made.until(lambda: made.member("A").channel.state.name == "CLOSED" and not made.stage.processes["A"].running)


# --- threads ----------------------------------------------------------------------------------------------------------

def check_primitives(found: list[str]) -> None:
    """Everything that waits, used by two threads."""
    began = time.monotonic()
    condition, items = threading.Condition(), [0]

    def fill() -> None:
        time.sleep(0.5)
        with condition:
            items.append(1)
            condition.notify()
    filler = threading.Thread(target=fill)
    filler.start()
    with condition:
        assert condition.wait_for(lambda: len(items) == 2, timeout=1)
        assert not condition.wait(0.1)
    assert filler.name == "Thread-1 (fill)"
    filler.join()
    assert not filler.is_alive()
    with pytest.raises(RuntimeError, match="only be started once"):
        filler.start()
    with pytest.raises(RuntimeError, match="current thread"):
        threading.current_thread().join()
    assert 0.59 < time.monotonic() - began < 0.7
    many: queue.Queue[int] = queue.Queue(2)
    got: list[int] = []
    reader = threading.Thread(target=lambda: got.extend(iter(many.get, -1)), daemon=True)
    reader.start()
    for number in (*range(50), -1):
        many.put(number)
    reader.join(1)
    assert got == [*range(50)]
    with pytest.raises(queue.Empty):
        many.get(timeout=0.5)
    simple: queue.SimpleQueue[int] = queue.SimpleQueue()
    threading.Timer(0.2, simple.put, [7]).start()
    assert simple.get(timeout=1) == 7
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        asked = [pool.submit(lambda number=number: (time.sleep(1), number)[1]) for number in range(6)]
        assert [future.result(5) for future in asked] == [*range(6)]
    barrier, permits, again = threading.Barrier(2), threading.Semaphore(0), threading.RLock()
    threading.Thread(target=lambda: (permits.acquire(), barrier.wait(1))).start()
    permits.release()
    barrier.wait(1)
    with again, again:
        assert not threading.Lock().locked()
        assert not threading.Event().wait(0.25)
        held = threading.Lock()
        assert held.acquire(timeout=1)
        assert not held.acquire(False)
        assert not held.acquire(timeout=0.25)
    with pytest.raises(RuntimeError):
        threading.Lock().release()
    sleep_by_name(1)
    with LockByName(), RLockByName():
        found.append("done")
    assert 4.8 < monotonic_by_name() - began < 5.2


def test_what_waits_in_a_thread_waits_on_virtual_time(bench: Callable[..., Bench]) -> None:
    found: list[str] = []

    def app(ch: jg.JChannel) -> None:
        check_primitives(found)
    bench(app).until(lambda: len(found) == 2)


def test_the_standard_library_is_as_before_after_a_run() -> None:
    found: list[str] = []
    check_real = time.monotonic()
    assert type(threading.Lock()).__module__ == "_thread"
    thread = threading.Thread(target=found.append, args=["done"])
    thread.start()
    thread.join()
    sleep_by_name(0.001)
    assert monotonic_by_name() - check_real < 5
    assert found == ["done"]


def test_clocks_are_virtual_and_a_loop_without_a_pause_lets_time_pass(bench: Callable[..., Bench]) -> None:
    found: list[float] = []

    def app(ch: jg.JChannel) -> None:
        began, wall = time.monotonic(), time.time()
        time.sleep(1000)
        found.extend([time.monotonic() - began, time.time() - wall])
        while time.monotonic() < began + 1000.02:
            pass
        found.append(time.monotonic() - began)
    real = time.monotonic()
    bench(app, "A").until(lambda: len(found) == 3, 1100)
    assert all(abs(passed - 1000) < 0.01 for passed in found[:2])
    assert 1000.02 <= found[2] < 1000.1
    assert time.monotonic() - real < 60


def test_threads_lose_the_processor_in_the_middle_of_their_code(bench: Callable[..., Bench]) -> None:
    orders: set[str] = set()

    def app(ch: jg.JChannel) -> None:
        for _ in range(30):
            order: list[str] = []

            def write(name: str, order: list[str] = order) -> None:
                for _ in range(10):
                    order.append(name)
            threads = [threading.Thread(target=write, args=name) for name in "ab"]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            orders.add("".join(order))
    made = bench(app, "ABC")
    made.until(lambda: all(made.member(name).ready for name in "ABC"))
    assert len(orders) > 15


def test_clocks_drift_apart_if_that_is_asked_for(bench: Callable[..., Bench]) -> None:
    ends: dict[str, int] = {}
    made = bench(lambda ch: time.sleep(100), clock_drift=0.1)

    def over() -> bool:
        for name in "AB":
            if made.member(name).ready:
                ends.setdefault(name, made.stage.now_ns)
        return len(ends) == 2
    made.until(over, 200)
    assert abs(ends["A"] - ends["B"]) > seconds(0.5)


# --- the life of a process --------------------------------------------------------------------------------------------

def test_a_crash_runs_no_finally_and_a_leave_interrupts_and_closes(bench: Callable[..., Bench]) -> None:
    ended: list[str] = []

    def app(ch: jg.JChannel) -> None:
        with ch:
            ch.connect("x")
            try:
                threading.Event().wait()
            finally:
                ch.send(b"goodbye")
                ended.append(ch.name)
    made = bench(app, "ABC")
    made.until(lambda: made.stage.agreed("ABC"))
    made.stage.crash("A")
    made.stage.leave("B")
    made.until(lambda: made.stage.agreed("C"))
    assert ended == ["B"]
    assert [payload.partition(b"|")[2] for payload in made.stage.delivered("C")] == [b"goodbye"]


def test_a_paused_process_runs_nothing_until_it_goes_on(bench: Callable[..., Bench]) -> None:
    def app(ch: jg.JChannel) -> list[float]:
        ch.connect("x")
        ticks: list[float] = []

        def tick() -> None:
            while True:
                ticks.append(time.monotonic())
                time.sleep(0.01)
        threading.Thread(target=tick, daemon=True).start()
        return ticks
    made = bench(app)
    made.until(lambda: made.stage.agreed("AB") and made.member("B").ready)
    made.stage.pause("B")
    made.stage.run_for(seconds(1))
    ticks = len(made.member("B").application)
    made.stage.run_for(seconds(1))
    assert len(made.member("B").application) == ticks
    made.stage.resume("B")
    made.stage.run_for(seconds(1))
    assert ticks + 50 < len(made.member("B").application) < ticks + 200


def test_an_application_that_ends_with_a_channel_error_is_started_again(bench: Callable[..., Bench]) -> None:
    starts: list[int] = []

    def app(ch: jg.JChannel) -> None:
        starts.append(1)
        ch.connect("x", timeout=0.001 if len(starts) == 1 else 10)
    made = bench(app, "A")
    made.until(lambda: len(starts) == 2 and made.stage.agreed("A"))


def test_a_thread_that_catches_everything_does_not_keep_the_run_from_ending(
    bench: Callable[..., Bench], monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(baton, "END_SECONDS", 0.2)

    def app(ch: jg.JChannel) -> None:
        def stubborn() -> None:
            while True:
                with contextlib.suppress(BaseException):     # as an application may do it
                    time.sleep(1)
        threading.Thread(target=stubborn, daemon=True).start()
        ch.connect("x")
    made = bench(app, "A")
    made.until(lambda: made.stage.agreed("A"))
    began = time.monotonic()
    made.stage.dispose()
    assert time.monotonic() - began < 10


# --- what is found ----------------------------------------------------------------------------------------------------

def a_thread_fails(ch: jg.JChannel) -> Account:
    account = open_account(ch)

    def fails() -> None:
        time.sleep(1)
        raise KeyError("of a thread")
    threading.Thread(target=fails, name="worker").start()
    return account


def raises_in_a_callback(ch: jg.JChannel) -> None:
    @ch.on_view
    def changed(view: jg.View) -> None:
        raise KeyError("of a callback")
    ch.connect("x")


def does_not_start(ch: jg.JChannel) -> None:
    ch.connect("x")
    raise KeyError("of the application")


def never_connects(ch: jg.JChannel) -> None:
    raise jg.ChannelError("each time")


def raises(account: Account, rng: Random) -> None:
    time.sleep(0.01)
    raise KeyError("of an operation")


class TwoLocks:
    """Takes two locks in two orders."""

    def __init__(self, ch: jg.JChannel) -> None:
        self.one, self.other = threading.Lock(), threading.Lock()
        ch.connect("x")

    def move(self, rng: Random) -> None:
        """Waits for ever if another operation took them in the other order."""
        first, second = rng.sample([self.one, self.other], 2)
        with first:
            time.sleep(0.3)
            with second:
                pass


@pytest.mark.parametrize(("app", "act", "guarantee", "text"), [
    (a_thread_fails, None, "thread worker", "of a thread"),
    (raises_in_a_callback, None, "view_accepted", "of a callback"),
    (does_not_start, None, "start", "of the application"),
    (never_connects, None, "start", "each time"),
    (open_account, raises, "act", "of an operation"),
])
def test_it_is_found(app: App, act: Any, guarantee: str, text: str) -> None:
    outcome = Trial("group", app, act, threads=True).run(2)
    assert outcome.guarantees[0] == guarantee
    assert text in outcome.violations[0]


def test_a_deadlock_is_found_with_the_lines_that_wait() -> None:
    trial = Trial("group", TwoLocks, TwoLocks.move, threads=True)
    outcome = next(outcome for outcome in map(trial.run, range(50)) if outcome.violations)
    assert outcome.guarantees == ("L",)
    assert "operations do not end, although all faults healed long ago: move of " in outcome.violations[0]
    assert "test_threads.py:" in outcome.violations[0]


def test_a_check_that_needs_a_lock_waits_until_it_is_free_and_says_who_has_it() -> None:
    def keeps_the_lock(ch: jg.JChannel) -> Account:
        account = open_account(ch)
        account.lock.acquire()
        return account
    outcome = Trial("group", keeps_the_lock, at_end=all_is_there, always=all_is_there, threads=True).run(2)
    assert outcome.guarantees == ("all_is_there",)
    assert "would wait for a lock that thread 'application' has" in outcome.violations[0]


def test_a_read_modify_write_is_found_within_200_seeds_and_shrunk_to_four_actions() -> None:
    trial = Trial("group", open_account, add, at_end=all_is_there, threads=True)
    outcome = next(outcome for outcome in map(trial.run, range(200)) if outcome.violations)
    assert outcome.guarantees == ("all_is_there",)
    least = trial.shrunk(outcome, 60)
    assert len(least.faults) + len(least.traffic) <= 4
    again = trial.run(outcome.seed, least.part)
    assert (again.digest, again.violations) == (least.digest, least.violations)


def test_a_read_modify_write_without_a_wait_is_found_too() -> None:
    trial = Trial("group", open_account, add_without_a_wait, at_end=all_is_there, threads=True)
    assert any(trial.run(seed).guarantees == ("all_is_there",) for seed in range(200))


@pytest.mark.slow
def test_with_a_lock_nothing_is_found() -> None:
    trial = Trial("group", open_account, add_under_a_lock, at_end=all_is_there, threads=True)
    assert all(trial.run(seed).violations == () for seed in range(20))


# --- what is refused --------------------------------------------------------------------------------------------------

MADE_BEFORE = threading.Lock()


def keeps_a_real_lock() -> None:
    threading.Thread(target=lambda: (MADE_BEFORE.acquire(), time.sleep(100)), daemon=True).start()
    time.sleep(1)
    MADE_BEFORE.acquire(timeout=30)


OUTSIDE: list[tuple[str, Callable[[], Any]]] = [
    ("a socket", lambda: socket.create_connection(("127.0.0.1", 1))),
    ("select.select", lambda: select.select([], [], [], 1)),
    ("a file", lambda: Path(__file__).read_text()),
    ("an event loop in a thread", lambda: asyncio.new_event_loop()),
    ("connecting another channel", lambda: jg.join("x", name="mine")),
]


def refusal(call: Callable[[], Any]) -> SimulationError:
    """What a run raises in which an application does this, and catches the error."""
    def app(ch: jg.JChannel) -> None:
        ch.connect("x")
        with contextlib.suppress(Exception):                 # as an application may do it
            call()
    with pytest.raises(SimulationError) as error:
        Trial("group", app, threads=True).run(2)
    path, _, line = error.value.where.rpartition(":")
    assert path == __file__
    assert int(line) > 40
    return error.value


@pytest.mark.parametrize(("name", "call"), OUTSIDE, ids=[name for name, _ in OUTSIDE])
def test_it_is_refused_with_file_and_line_even_if_it_is_caught(name: str, call: Callable[[], Any]) -> None:
    assert f"{name}" in str(refusal(call))
    assert " is refused in a simulation: " in str(refusal(call))


def test_waiting_for_a_lock_that_was_made_outside_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(baton, "STUCK_SECONDS", 0.5)
    monkeypatch.setattr(baton, "CHECK_SECONDS", 0.1)
    error = refusal(keeps_a_real_lock)
    assert "waits for something outside of the simulation" in str(error)
    assert not MADE_BEFORE.acquire(False)
    MADE_BEFORE.release()


def test_the_plugin_runs_threads_and_reports_a_refusal_once(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_threads="""
        import socket
        import threading
        import pytest

        class App:
            def __init__(self, ch):
                ch.connect("x")
                self.beats = 0
                threading.Thread(target=self.beat, daemon=True).start()

            def beat(self):
                self.beats += 1
                threading.Event().wait(0.5)

        @pytest.mark.jgroups_sim(seeds=3)
        def test_works(simulation):
            simulation.run(App, threads=True)

        @pytest.mark.jgroups_sim(seeds=3)
        def test_refused(simulation):
            simulation.run(lambda ch: socket.socket(), threads=True)
    """)
    result = pytester.runpytest_inprocess("-p", "no:jgroups", "-p", "jgroups_py.testing.pytest_plugin", "-p",
                                          "no:cacheprovider", "-p", "no:timeout")
    result.assert_outcomes(passed=3, failed=1, skipped=2)
    assert "test_threads.py:21: a socket is refused in a simulation" in result.stdout.str()


def test_coroutines_have_no_threads() -> None:
    async def app(ch: object) -> None: ...
    with pytest.raises(TypeError, match="leave out `threads`"):
        Simulation("group", 1, "pytest ...").run(app, threads=True)
