"""What is read out of mosquitto's log."""
from __future__ import annotations

from random import Random

import pytest

from jgroups_py.blocks.mqtt.mosquitto.learned import LOG, LearnedInterest
from jgroups_py.blocks.mqtt.mosquitto.options import MosquittoOptions, mosquitto_counters

SECOND = 1_000_000_000


class Log:
    """Lines of mosquitto, one by one. wants: what the last one left."""

    def __init__(self, **options: object) -> None:
        self.counters = mosquitto_counters()
        self.learned = LearnedInterest(MosquittoOptions(name="a", **options), self.counters)    # type: ignore[arg-type]
        self.now_ns = 1_000 * SECOND

    def line(self, kind: str, text: str) -> list[str]:
        self.learned.line(LOG + kind, f"1795485842: {text}".encode("utf-8", "surrogateescape"), self.now_ns)
        return list(self.learned)

    def connect(self, client_id: str, version: int = 2, clean: int = 1) -> list[str]:
        return self.line("N", f"New client connected from 127.0.0.1:33052 as {client_id} (p{version}, c{clean}, k60).")

    def wait(self, seconds: float) -> list[str]:
        self.now_ns += round(seconds * SECOND)
        self.learned.tick(self.now_ns)
        return list(self.learned)


def test_a_filter_is_wanted_from_its_first_subscriber_to_its_last():
    log = Log()
    assert log.line("M/subscribe", "one 0 a/+") == ["a/+"]
    assert log.line("M/subscribe", "two 2 a/+") == ["a/+"]
    assert log.line("M/unsubscribe", "one a/+") == ["a/+"]
    assert log.line("M/unsubscribe", "one a/+") == ["a/+"], "a second time counts nothing"
    assert log.line("M/unsubscribe", "two a/+") == []
    assert log.learned.changed == {"a/+": None}
    assert log.counters["learned"] == 1


def test_a_shared_subscription_is_one_of_its_filter_and_dollar_topics_are_none():
    log = Log()
    assert log.line("M/subscribe", "one 1 $share/g/a/b") == ["a/b"]
    assert log.line("M/subscribe", "one 1 a/b") == ["a/b"]
    assert log.line("M/subscribe", "one 1 $SYS/#") == ["a/b"]
    assert log.line("M/unsubscribe", "one $share/g/a/b") == ["a/b"]
    assert log.line("M/unsubscribe", "one a/b") == []


@pytest.mark.parametrize(("version", "clean", "end", "kept"), [
    (2, 1, "Client c disconnected.", False),
    (2, 1, "Client c closed its connection.", False),
    (2, 1, "Client c has exceeded timeout, disconnecting.", False),
    (2, 1, "Client c disconnected due to protocol error.", False),
    (2, 1, "Client c disconnected, not authorised.", False),
    (2, 1, "Bad socket read/write on client c: Connection reset by peer", False),
    (2, 0, "Client c disconnected.", True),
    (5, 1, "Client c disconnected.", True),
    (5, 0, "Client c disconnected.", True),
])
def test_what_a_client_wanted_is_kept_as_long_as_its_session_may_live(version: int, clean: int, end: str, kept: bool):
    log = Log()
    log.connect("c", version, clean)
    log.line("M/subscribe", "c 1 t")
    assert log.line("N", end) == (["t"] if kept else [])
    assert log.wait(1_000) == (["t"] if kept and not clean else [])
    assert log.line("N", "Expiring client c due to timeout.") == []


def test_a_client_that_comes_back_keeps_what_it_wanted_unless_it_begins_anew():
    log = Log()
    log.connect("c", 5, 0)
    log.line("M/subscribe", "c 1 t")
    log.line("N", "Client c disconnected.")
    assert log.connect("c", 5, 0) == ["t"]
    assert log.wait(10_000) == ["t"]
    assert log.connect("c", 5, 1) == []


def test_client_ids_with_spaces_and_user_names():
    log = Log()
    log.line("N", "New client connected from ::1:33052 as my 1 client (p2, c1, k60, u'x (p5, c0, k1)').")
    assert log.line("M/subscribe", "my 1 client 2 a b/#") == ["a b/#"]
    assert log.line("M/unsubscribe", "my 1 client a b/#") == []
    log.line("M/subscribe", "my 1 client 2 a b/#")
    assert log.line("N", "Client my 1 client disconnected.") == []


def test_after_a_gap_those_that_do_not_come_back_are_forgotten():
    log = Log()
    for client_id in ("one", "two"):
        log.connect(client_id, 2, 0)
        log.line("M/subscribe", f"{client_id} 1 {client_id}")
    log.learned.unsure(log.now_ns)
    log.connect("one", 2, 0)
    assert log.wait(301) == ["one"]


def test_given_filters_are_wanted_for_ever():
    log = Log(filters=("x/#",))
    assert list(log.learned.changed) == ["x/#"]
    log.line("M/subscribe", "c 1 x/#")
    assert log.line("M/unsubscribe", "c x/#") == ["x/#"]
    assert log.learned.matches("x/1")
    assert not log.learned.matches("y")


def test_lines_that_are_cut_or_odd_are_counted():
    log = Log()
    assert log.line("M/subscribe", "c 0 " + "x" * 1_100) == []
    assert log.line("M/subscribe", "c 7 t") == []
    assert log.line("M/subscribe", "c 0 a/#/b") == []
    assert log.line("M/unsubscribe", "c") == []
    assert (log.counters["cut_lines"], log.counters["odd_lines"]) == (1, 3)


def test_what_is_remembered_is_bounded():
    log = Log(max_clients=3, max_filters=2)
    for number in range(5):
        log.connect(f"c{number}", 2, 0)
        log.line("M/subscribe", f"c{number} 0 {number}")
    assert list(log.learned) == ["0", "1", "2"]
    assert log.counters["dropped_clients"] == 4
    log.line("N", "Client c1 disconnected.")
    assert log.connect("c9") == ["0", "2"], "the one that is away makes room"
    for number in range(5):
        log.line("M/subscribe", f"c0 0 more/{number}")
    assert log.counters["dropped_filters"] == 4
    assert log.line("M/subscribe", "c2 0 " + "/" * 200)
    assert log.counters["dropped_filters"] == 5


@pytest.mark.parametrize("seed", range(20))
def test_any_line_leaves_numbers_that_add_up(seed: int):
    rng = Random(f"lines/{seed}")
    log = Log(max_clients=5, max_filters=3)
    parts = ("c1", "c2", " ", " 0 ", " 1 ", "a/+", "#", "$share/g/a", "Client ", " disconnected.",
             "New client connected from x as ", " (p5, c1, k0).", " (p2, c0, k0).", "Expiring client ",
             " due to timeout.", "\udcff", "\n", "")
    for _ in range(500):
        log.line(rng.choice(("M/subscribe", "M/unsubscribe", "N", "E", "")),
                 "".join(rng.choice(parts) for _ in range(rng.randrange(6))))
        if rng.random() < 0.1:
            log.wait(rng.choice((1, 400)))
        clients = log.learned.report()
        assert len(clients) <= 5
        assert all(len(filters) <= 3 for filters in clients.values())
    wanted = {filter.split("/", 2)[2] if filter.startswith("$share/") else filter
              for filters in log.learned.report().values() for filter in filters}
    assert set(log.learned) == {filter for filter in wanted if not filter.startswith("$")}
