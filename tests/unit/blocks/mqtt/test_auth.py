"""Passwords and rules."""
from __future__ import annotations

from itertools import product

import pytest

from jgroups_py.blocks.mqtt.broker.auth import (
    AuthFileError,
    CallableAuthorizer,
    FileAuthorizer,
    HashedPassword,
    covers,
    hash_password,
    overlaps,
    read_passwords,
    read_rules,
)
from jgroups_py.blocks.mqtt.codec.packets import ConnAckPacket, ConnectPacket, PubAckPacket, ReasonCode
from tests.unit.blocks.mqtt.clients import V3, V5, Bench, Client
from tests.unit.blocks.mqtt.test_subscription_tree import naive

RULES = """
# who may do what
deny  *     subscribe private/#
allow alice publish   sensors/+
allow *     both      %u/%c/#
allow ?     subscribe open/#
"""


def bench(**options: bool) -> Bench:
    passwords = read_passwords("alice:" + hash_password(b"secret", b"salt" * 4))
    return Bench(authorizer=FileAuthorizer(passwords, read_rules(RULES), b"key", **options))


@pytest.mark.parametrize(("username", "password", "expected"), [
    ("alice", b"secret", ReasonCode.SUCCESS), ("alice", b"wrong", ReasonCode.BAD_USER_NAME_OR_PASSWORD),
    ("alice", None, ReasonCode.BAD_USER_NAME_OR_PASSWORD), ("bob", b"secret", ReasonCode.BAD_USER_NAME_OR_PASSWORD),
    (None, None, ReasonCode.BAD_USER_NAME_OR_PASSWORD)])
def test_passwords(username, password, expected):
    one = bench()
    for _ in range(2):
        client = Client(one, "a", V5)
        assert client.connect(username=username, password=password).reason is expected
        assert (client.closed is None) is (expected is ReasonCode.SUCCESS)


def test_a_right_password_is_remembered_and_a_wrong_one_is_not(monkeypatch):
    one = bench()
    hashed = []
    fits = HashedPassword.fits
    monkeypatch.setattr(HashedPassword, "fits", lambda self, password: hashed.append(password) or fits(self, password))
    for password in (b"secret", b"wrong", b"secret", b"wrong"):
        Client(one, "a", V5).connect(username="alice", password=password)
    assert hashed == [b"secret", b"wrong", b"wrong"]


@pytest.mark.parametrize("version", [V3, V5])
def test_rules_of_publish_and_subscribe(version):
    one = bench()
    client = one.client("c1", version, username="alice", password=b"secret")
    failed = ReasonCode.NOT_AUTHORIZED if version is V5 else ReasonCode.UNSPECIFIED_ERROR
    assert client.subscribe("private/x", 0) is failed
    assert client.subscribe("#", 0) is failed
    assert client.subscribe("alice/c1/#", 1) is ReasonCode.GRANTED_QOS_1
    assert client.subscribe("$share/g/alice/c1/+", 1) is ReasonCode.GRANTED_QOS_1
    assert client.subscribe("alice/c2/#", 1) is failed
    client.publish("alice/c1/x", b"1", 1)
    client.publish("sensors/1/2", b"2", 1)
    reasons = [client.answer(PubAckPacket).reason for _ in range(2)]
    assert reasons == [ReasonCode.SUCCESS, ReasonCode.NOT_AUTHORIZED if version is V5 else ReasonCode.SUCCESS]
    assert client.payloads() == [b"1", b"1"], "the plain one and the shared one"
    assert one.count("refused_publish") == 1


def test_clients_without_a_name():
    one = bench(allow_anonymous=True)
    client = one.client("c")
    assert client.subscribe("open/1", 0) is ReasonCode.GRANTED_QOS_0
    assert client.subscribe("alice/c/#", 0) is ReasonCode.NOT_AUTHORIZED


def test_a_name_with_a_wildcard_opens_nothing():
    rules = read_rules("allow * both %c/#")
    authorizer = FileAuthorizer(None, rules, b"key")
    for name in ("+", "#", "a/b", ""):
        client = Client(Bench(authorizer=authorizer), name, V5)
        assert client.connect().reason is ReasonCode.SUCCESS
        assert client.subscribe("+/x" if name != "a/b" else "a/b/x", 0) is ReasonCode.NOT_AUTHORIZED


def test_callables():
    authorizer = CallableAuthorizer(
        lambda connect, peer: ReasonCode.BANNED if connect.client_id == "bad" else ReasonCode.SUCCESS,
        lambda client_id, username, access, topic: topic != "no")
    one = Bench(authorizer=authorizer)
    assert Client(one, "bad", V5).connect().reason is ReasonCode.BANNED
    client = Client(one, "good", V5)
    assert isinstance(client.connect(), ConnAckPacket)
    assert client.subscribe("no") is ReasonCode.NOT_AUTHORIZED
    assert client.subscribe("yes", 0) is ReasonCode.GRANTED_QOS_0


FILTERS = ["/".join(each) for size in (1, 2) for each in product(("a", "b", "+", "#"), repeat=size)
           if "#" not in each[:-1]]
TOPICS = ["/".join(each) for size in (1, 2, 3) for each in product(("a", "b", "c"), repeat=size)]


@pytest.mark.parametrize("rule", FILTERS)
def test_covering_and_overlapping_agree_with_the_topics_that_match(rule):
    for filter in FILTERS:
        both = [naive(rule, topic) for topic in TOPICS if naive(filter, topic)]
        assert covers(rule.split("/"), tuple(filter.split("/"))) is all(both), (rule, filter)
        assert overlaps(rule.split("/"), tuple(filter.split("/"))) is any(both), (rule, filter)


@pytest.mark.parametrize("text", [
    "alice", "alice:plain:1:1:1:00:00", "alice:scrypt:1048576:8:1:00:00", ":scrypt:2:1:1:00:00",
    "a:scrypt:2:1:1:00:00\na:scrypt:2:1:1:00:00"])
def test_a_wrong_password_file_names_the_line(text):
    with pytest.raises(AuthFileError, match="line "):
        read_passwords(text)


@pytest.mark.parametrize("text", ["allow * both", "maybe * both a", "allow * read a", "allow * both a#"])
def test_a_wrong_rule_file_names_the_line(text):
    with pytest.raises(AuthFileError, match="line 1"):
        read_rules(text)


def test_a_thread_computes_what_then_is_answered_at_once():
    users = read_passwords(f"alice:{hash_password(b'right', b'0123456789abcdef')}\n")
    authorizer = FileAuthorizer(users, None, b"key")
    for user, password, answer in (
        ("alice", b"right", ReasonCode.SUCCESS), ("alice", b"wrong", ReasonCode.BAD_USER_NAME_OR_PASSWORD),
        ("alice", b"wrong", ReasonCode.BAD_USER_NAME_OR_PASSWORD),
        ("nobody", b"right", ReasonCode.BAD_USER_NAME_OR_PASSWORD),
    ):
        connect = ConnectPacket("c", V5, username=user, password=password)
        work = authorizer.work(connect)
        assert work is not None, "also for a user that does not exist: it must take as long"
        authorizer.worked(connect, work())
        assert authorizer.authenticate(connect, "") is answer
    assert authorizer.work(ConnectPacket("c", V5, username="alice", password=b"right")) is None
    assert authorizer.work(ConnectPacket("c", V5)) is None
