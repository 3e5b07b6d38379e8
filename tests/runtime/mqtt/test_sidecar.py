"""Sidecars beside unmodified mosquittos: real processes, real clients (case 24, and cases 1, 3, 4 and 15 by it)."""
from __future__ import annotations

import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.integration.members import free_ports
from tests.runtime.mqtt.processes import END_SECONDS, Subscriber, publish, tool
from tests.runtime.mqtt.sidecars import REPORTS, Mosquitto, Sidecar, eventually, mosquitto, sidecars

pytestmark = pytest.mark.real
END = "end/1/2/3"
FILTERS = {                                              # filter -> topics that it matches, as 4.7 of the standard says
    "a/b": "a/b", "a/+": "a/b a/c a/", "a/#": "a a/b a/c a/b/c a/", "+": "a b", "#": "a b a/b a/c a/b/c a/ /a",
    "+/b": "a/b", "+/+": "a/b a/c a/ /a", "/+": "/a", "+/b/#": "a/b a/b/c", "a/+/c": "a/b/c"}


def ordered(topics: str, order: list[str]) -> list[str]:
    """These topics as they are in a list."""
    return sorted(topics.split(), key=order.index)


def arrives(source: Mosquitto, target: Mosquitto, topic: str) -> None:
    """Until a subscriber of a filter at `target` is known at `source`: what is published there comes. The topic is one
    of its own, which no test counts."""
    def came() -> bool:
        publish(source.port, topic, "probe")
        done = subprocess.run([tool("mosquitto_sub"), "-p", str(target.port), "-t", topic, "-C", "1", "-W", "2"],
                              capture_output=True, check=False)
        return done.returncode == 0
    with Subscriber(target.port, topic):
        eventually(lambda: (publish(source.port, topic, "probe", "-r"), came())[1], f"{topic} from {source.port}")


def test_three_mosquittos_are_one_broker_without_loops(tmp_path: Path):
    with mosquitto(tmp_path) as one, mosquitto(tmp_path) as two, mosquitto(tmp_path) as three, \
            sidecars(one, two, three):
        nodes = (one, two, three)
        with Subscriber(one.port, "t/#", "-C", "9", "-q", "1", "-W", "60") as a, \
                Subscriber(two.port, "t/+", "-C", "9", "-q", "2", "-W", "60") as b, \
                Subscriber(three.port, "t/1", "-C", "9", "-q", "0", "-W", "60") as c:
            for source in nodes:
                for target in nodes:
                    if source is not target:
                        arrives(source, target, f"ready/{source.port}/{target.port}")
            time.sleep(1)                                # what the subscribers want was learned before that
            for number, node in enumerate(nodes):
                for qos in range(3):
                    publish(node.port, "t/1", f"{number}{qos}", "-q", str(qos))
            expected = sorted(f"{number}{qos}" for number in range(3) for qos in range(3))
            for subscriber in (a, b, c):
                assert sorted(subscriber.lines()) == expected


def test_the_table_of_filters_across_mosquittos(tmp_path: Path):
    topics = ["a", "b", "a/b", "a/c", "a/b/c", "a/", "/a"]
    with mosquitto(tmp_path) as one, mosquitto(tmp_path) as two, sidecars(one, two):
        subscribers = {
            filter: Subscriber(two.port, filter, "-v", "-W", "60", "-C", str(len(topics.split()) + 1),
                               *(("-R", "-T", "ready/#") if filter == "#" else ("-t", END)))
            for filter, topics in FILTERS.items()}
        try:
            for each in subscribers.values():
                each.__enter__()
            arrives(one, two, "ready/1/2/3")
            time.sleep(1)
            for topic in topics:
                publish(one.port, topic, "x", "-q", "1")
            publish(one.port, END, "x", "-q", "1")
            for filter, subscriber in subscribers.items():
                expected = [*ordered(FILTERS[filter], topics), END]
                assert subscriber.lines() == [f"{topic} x" for topic in expected], filter
        finally:
            for each in subscribers.values():
                each.__exit__()


def received_by_sidecar(port: int) -> int:
    """PUBLISH packets that mosquitto sent to anyone, from its own statistics."""
    done = subprocess.run([tool("mosquitto_sub"), "-p", str(port), "-t", "$SYS/broker/publish/messages/sent", "-C",
                           "1"], capture_output=True, text=True, timeout=END_SECONDS, check=True)
    return int(done.stdout)


def test_what_nobody_wants_crosses_no_link(tmp_path: Path):
    with mosquitto(tmp_path, REPORTS + "sys_interval 1\n") as one, mosquitto(tmp_path) as two, sidecars(one, two), \
            Subscriber(two.port, "wanted/+", "-C", "1", "-W", "60") as subscriber:
        arrives(one, two, "ready/1/2/3")
        time.sleep(2)
        before = received_by_sidecar(one.port)
        done = subprocess.run([tool("mosquitto_pub"), "-p", str(one.port), "-t", "unwanted", "-l", "-q", "1"],
                              input="x\n" * 1_000, text=True, timeout=END_SECONDS, check=True)
        assert done.returncode == 0
        time.sleep(2)
        # With what mosquitto reports of each connection, and some of before, as $SYS is late on a busy machine.
        sent = received_by_sidecar(one.port) - before
        assert sent < 500, f"{sent} messages left mosquitto, 1,000 were published that no node wants"
        publish(one.port, "wanted/1", "yes", "-q", "1")
        assert subscriber.lines() == ["yes"]


def test_retained_messages_and_a_will(tmp_path: Path):
    with mosquitto(tmp_path) as one, mosquitto(tmp_path) as two, sidecars(one, two):
        with Subscriber(two.port, "kept/#", "-F", "%p %r", "-C", "1", "-W", "60") as early:
            arrives(one, two, "ready/1/2/3")
            time.sleep(1)
            publish(one.port, "kept/1", "value", "-r", "-q", "1")
            assert early.lines() == ["value 0"]
        with Subscriber(two.port, "kept/#", "-F", "%p %r", "-C", "1", "-W", "60", waits=False) as late:
            assert late.lines() == ["value 1"]
        with Subscriber(two.port, "will", "-C", "1", "-W", "60", "-q", "1") as watcher:
            arrives(one, two, "ready/2/2/3")
            time.sleep(1)
            last = ("--will-topic", "will", "--will-payload", "gone", "--will-qos", "1")
            with Subscriber(one.port, "x", *last) as dying:
                dying.process.send_signal(signal.SIGKILL)            # stdbuf has become mosquitto_sub
                assert watcher.lines() == ["gone"]


def test_messages_wait_while_mosquitto_is_stopped_and_while_the_sidecar_is_paused(tmp_path: Path):
    with mosquitto(tmp_path, REPORTS + "max_queued_messages 0\n") as one, mosquitto(tmp_path) as two, \
            sidecars(one, two) as both, \
            Subscriber(two.port, "t", "-q", "1", "-C", "1000", "-W", "120") as subscriber:
        arrives(one, two, "ready/1/2/3")
        time.sleep(1)
        both[1].process.send_signal(signal.SIGSTOP)
        sent = subprocess.run([tool("mosquitto_pub"), "-p", str(one.port), "-t", "t", "-l", "-q", "1"], text=True,
                              input="".join(f"{number}\n" for number in range(1_000)), timeout=END_SECONDS, check=True)
        assert sent.returncode == 0
        time.sleep(1)
        both[1].process.send_signal(signal.SIGCONT)
        got = [int(line) for line in subscriber.lines()]
        assert sorted(set(got)) == list(range(1_000))


def test_a_mosquitto_that_restarts_is_linked_again(tmp_path: Path):
    with mosquitto(tmp_path) as one, mosquitto(tmp_path) as two, sidecars(one, two) as both:
        two.end()
        time.sleep(0.5)
        two.start()
        with Subscriber(two.port, "t", "-C", "1", "-W", "60", "-q", "1") as subscriber:
            both[1].wait_for_link()
            arrives(one, two, "ready/1/2/3")
            with Subscriber(two.port, "u", "-C", "1", "-W", "60", "-q", "1") as second:
                arrives(one, two, "ready/2/2/3")
                publish(one.port, "u", "again", "-q", "1")
                assert second.lines() == ["again"]
            assert subscriber.process.poll() is None


def test_it_ends_with_a_reason_if_mosquitto_reports_nothing(tmp_path: Path):
    with mosquitto(tmp_path, "") as one:
        sidecar = Sidecar("a", one.port, free_ports("tcp"))
        errors = sidecar.errors()
        assert sidecar.process.returncode == 2
        assert f"127.0.0.1:{one.port}: mosquitto does not report subscriptions" in errors
        assert "log_type unsubscribe" in errors


def test_a_wrong_password_and_a_second_sidecar(tmp_path: Path):
    passwords = tmp_path / "passwords"
    subprocess.run([tool("mosquitto_passwd"), "-b", "-c", str(passwords), "ann", "secret"], check=True)
    (tmp_path / "right").write_text("secret\n")
    (tmp_path / "wrong").write_text("other\n")
    configuration = f"{REPORTS}password_file {passwords}\n"
    with mosquitto(tmp_path, configuration) as one:
        group = free_ports("tcp")
        wrong = Sidecar("a", one.port, group, "--user", "ann", "--password-file", str(tmp_path / "wrong"))
        assert "NOT_AUTHORIZED" in wrong.errors()
        assert wrong.process.returncode == 2
        options = ("--user", "ann", "--password-file", str(tmp_path / "right"))
        first = Sidecar("b", one.port, group, *options)
        first.wait_for_link()
        second = Sidecar("c", one.port, group, *options)
        second.wait_for_link()
        assert "one mosquitto has one sidecar" in first.errors()
        assert first.process.returncode == 2
        assert second.end() == 0
