"""AUTH with tokens: the application decides, within a budget, while the exchange waits."""
from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any

import attrs
import pytest

from jgroups_py.model.address import Address
from jgroups_py.model.errors import ConfigError
from jgroups_py.model.events import ChallengeMember, IdentityRevoked, TokenChecked
from jgroups_py.model.outputs import CheckToken
from jgroups_py.model.ports import WAITING
from jgroups_py.model.token_check import MAX_TOKEN_BYTES, TokenCheck
from jgroups_py.model.units import NS_PER_S, millis, seconds
from jgroups_py.protocols.auth.config import AuthConfig
from jgroups_py.protocols.auth.tokens import BUSY, CHECKS_A_SECOND, MAX_WAITING, VERDICT_NS, TokenAuthority
from jgroups_py.sealing.identities import RevokedKeys, key_text
from jgroups_py.sealing.primitives import SigningKey
from jgroups_py.testing.bench import change, view_of
from tests.unit.protocols.test_auth import Authenticated, Files, identity, meet
from tests.unit.protocols.test_encrypt import PLACES, exchange

NOW_NS = 1_790_000_000 * NS_PER_S
CONFIG = AuthConfig(authority="token", identity="own.pem", token="own.token", revoked="revoked.json",
                    check=f"{__name__}:Check")


class Check(TokenCheck):
    """A token is NAME:KEY, as an issuer would sign it."""

    def check(self, token: bytes, key: str) -> Mapping[str, Any] | None:
        name, _, bound = token.decode().partition(":")
        return {"name": name} if bound == key else None


def token(name: str) -> bytes:
    return f"{name}:{identity(name).identity.key}\n".encode()


def member(name: str, shown: bytes = b"") -> Authenticated:
    made = Authenticated(name, config=CONFIG, files={"own.token": shown or token(name)})
    made.read("", None, wall_ns=NOW_NS)
    made.stack.outputs.clear()
    return made


def questions(one: Authenticated) -> list[CheckToken]:
    found = [each for each in one.stack.outputs if isinstance(each, CheckToken)]
    one.stack.outputs = [each for each in one.stack.outputs if not isinstance(each, CheckToken)]
    return found


def decide(one: Authenticated, **changes: Any) -> int:
    """The application's answers, later; `changes` to what it says. Returns how many."""
    asked = questions(one)
    for each in asked:
        answer = Check().check(each.token, each.key)
        one.stack.notify(TokenChecked(each.number, answer and {**answer, **changes}), one.now_ns)
    return len(asked)


def decided(one: Authenticated, other: Authenticated, **changes: Any) -> None:
    """Both applications decide, and the exchange goes on; a frame of `one` was held meanwhile."""
    other.take(one.send(b"first"), one.name)
    for _ in range(4):
        exchange(one, other)
        decide(one)
        decide(other, **changes)


def test_the_exchange_waits_until_both_applications_have_decided():
    one, other = member("A"), member("B")
    other.take(one.send(b"first"), "A")
    exchange(one, other)
    (asked,) = questions(other)
    assert (asked.check, asked.token, asked.key) == (CONFIG.check, token("A").strip(), identity("A").identity.key)
    assert asked.timeout_ns == seconds(2)
    assert not other.knows(one)
    assert other.delivered() == []
    assert other.drops() == {}
    other.stack.notify(TokenChecked(asked.number, {"name": "A", "roles": ["member", "operator"]}), other.now_ns)
    exchange(one, other)
    decide(one)
    exchange(one, other)
    assert other.delivered() == [b"first"]
    assert other.knows(one)
    assert one.knows(other)
    assert other.auth.identity_of(one.me).roles == ("member", "operator")
    # The verdict is remembered: the same token is not asked about again.
    del other.auth.identities[one.me]
    other.encrypt.senders.proven.clear()
    other.take(one.send(b"again"), "A")
    exchange(one, other)
    assert questions(other) == []
    assert other.knows(one)


@pytest.mark.parametrize(("answer", "problem", "reason"), [
    (None, "", "its token is refused"),
    (None, "its check took too long", "its check took too long"),
    ({}, "", "name must be a text"),
    ({"name": 7}, "", "name must be a text"),
    ({"name": "A", "roles": ["king"]}, "", "roles must be some of"),
    ({"name": "A", "site": []}, "", "site must be empty"),
    ({"name": "A", "until": "tomorrow"}, "", "until is in seconds since 1970"),
    ({"name": "A", "until": float("nan")}, "", "until is in seconds since 1970"),
    ({"name": "A", "until": 1}, "", "its token has expired"),
    ({"name": "A", "roles": ["operator"]}, "", "A has not the role 'member'"),
])
def test_a_refusal_or_a_malformed_answer_keeps_the_sender_out_with_the_reason(answer, problem, reason):
    one, other = member("A"), member("B")
    other.take(one.send(b"first"), "A")
    exchange(one, other)
    (asked,) = questions(other)
    other.stack.notify(TokenChecked(asked.number, answer, problem), other.now_ns)
    exchange(one, other)
    assert reason in other.log()
    assert not other.knows(one)
    assert other.delivered() == []


def test_a_stolen_token_is_of_no_use_without_its_key():
    one, other = member("A", token("C")), member("B")
    decided(one, other)
    assert not other.knows(one)
    assert "its token is refused" in other.log()


def test_nobody_is_asked_about_a_token_whose_holder_has_not_signed():
    authority = member("B").auth.authority
    assert isinstance(authority, TokenAuthority)
    thief = SigningKey(b"t" * 32)
    credential = identity("A").signer.public + token("A").strip()
    assert authority.verify(credential, thief.sign(b"transcript"), b"transcript") == \
        "its proof is not of the key that it shows"
    for bad in (b"", thief.public, thief.public + b"x" * (MAX_TOKEN_BYTES + 1)):
        assert "no token, or one that is too long" in str(authority.verify(bad, b"", b"transcript"))
    assert authority.to_ask == []


def test_questions_have_a_budget_at_a_time_and_a_second():
    authority = member("B").auth.authority
    assert isinstance(authority, TokenAuthority)

    def shown(number: int) -> str:
        key = SigningKey(number.to_bytes(32, "big"))
        return str(authority.verify(key.public + b"junk", key.sign(b"transcript"), b"transcript"))

    assert [shown(number) for number in range(1, 60)].count(WAITING) == MAX_WAITING
    assert shown(99) == BUSY
    assert len(authority.to_ask) == MAX_WAITING
    for which, _, key in authority.to_ask:
        authority.decided(which, key, None, "")
    assert [shown(number) for number in range(100, 160)].count(WAITING) == CHECKS_A_SECOND - MAX_WAITING
    authority.clock(NOW_NS + seconds(1))
    assert shown(200) == WAITING


def test_a_sender_whose_question_had_no_room_is_asked_about_later():
    one, other = member("A"), member("B")
    authority = other.auth.authority
    authority.asked = {bytes([number]): 0 for number in range(MAX_WAITING)}
    other.take(one.send(b"first"), "A")
    exchange(one, other)
    assert BUSY in other.log()
    authority.asked = {}
    for _ in range(30):
        one.advance(millis(200))
        other.advance(millis(200))
    decided(one, other)
    assert other.knows(one)


def test_a_token_counts_for_its_time_and_an_hour_at_most():
    one, other = member("A"), member("B")
    decided(one, other, until=NOW_NS / NS_PER_S + 60)
    other.stack.inject(change(view_of("B", "A")), 0)
    other.read("", None, wall_ns=NOW_NS + seconds(59))
    assert other.knows(one)
    other.read("", None, wall_ns=NOW_NS + seconds(60))
    assert other.above.seen == (one.me,)
    one, other = member("A"), member("B")
    decided(one, other, until=NOW_NS / NS_PER_S + 10**6)
    other.read("", None, wall_ns=NOW_NS + VERDICT_NS)
    assert not other.knows(one)


def test_a_revoked_key_is_refused_whatever_its_token_says():
    one, other = member("A"), member("B")
    decided(one, other)
    other.stack.inject(change(view_of("B", "A")), 0)
    other.read("revoked.json", RevokedKeys().with_key(identity("A").identity.key).as_text().encode(), wall_ns=NOW_NS)
    assert other.above.seen == (one.me,)


def test_a_token_is_renewed_without_a_restart_and_one_of_no_use_is_an_error():
    one = member("A", b"old")
    one.read("own.token", token("A"), wall_ns=NOW_NS)
    other = member("B")
    decided(one, other)
    assert other.knows(one)
    one.read("own.token", b"", wall_ns=NOW_NS)
    assert "own.token: a token has 1 to 8192 bytes, not 0" in one.log()
    assert token("A").decode().strip() not in repr(one.auth.authority.verdicts) + one.log() + repr(one.stack.outputs)


@pytest.mark.parametrize(("changes", "error"), [
    ({"check": "no.such.module:Check"}, "cannot be imported"),
    ({"check": f"{__name__}:CONFIG"}, "is no subclass of jgroups_py.model.token_check.TokenCheck"),
])
def test_a_class_that_is_none_is_an_error_at_the_start(changes, error):
    with pytest.raises(ConfigError, match=error):
        TokenAuthority(attrs.evolve(CONFIG, **changes), Files("A", {}), "A")
    with pytest.raises(ConfigError, match=r"check is empty, and authority='token' needs it: package\.module:Class"):
        AuthConfig(authority="token", identity="i", token="t")


def test_meeting_twice_does_not_ask_twice():
    one, other = member("A"), member("B")
    meet(one, other)
    meet(one, other)
    assert len(questions(other)) == 1
    assert key_text(identity("A").signer.public) == identity("A").identity.key
    assert Random("A").randbytes(32).hex() not in repr(other.auth.__dict__)


def test_what_was_accepted_of_a_sender_that_was_forgotten_is_a_replay_when_it_proves_itself_again():
    """`jgroups sim --profile tokens --seed 11`: its identity ended, and it showed a new one within seconds."""
    one, other = Authenticated("A"), Authenticated("B")
    assert meet(one, other) == [b"first"]
    old = [one.send(b"accepted") for _ in range(3)]
    for frame in old:
        other.take(frame, "A")
    assert other.delivered() == [b"accepted"] * 3
    other.stack.inject(IdentityRevoked((one.me,)), other.now_ns)
    for frame in old:
        other.take(frame, "A")
    assert meet_again(one, other) == [b"new"]
    assert other.drops() == {"replayed_dropped": 3}


def meet_again(one: Authenticated, other: Authenticated) -> list[bytes]:
    other.take(one.send(b"new"), "A")
    exchange(one, other)
    return other.delivered()


def test_an_answer_to_an_address_challenge_proves_nothing_once_it_was_given():
    """It has the counters of its time: a recording of it, sent again when the sender is forgotten, must not count."""
    one, other = Authenticated("A"), Authenticated("B")
    assert meet(one, other) == [b"first"]
    other.stack.inject(ChallengeMember(one.me, one.place), other.now_ns)
    (question,) = other.frames()
    one.take(question, "B")
    (answer,) = one.frames()
    other.take(answer, "A")
    assert other.encrypt.address_challenges == {}
    other.take(one.send(b"later"), "A")
    assert other.delivered() == [b"later"]
    other.stack.inject(IdentityRevoked((one.me,)), other.now_ns)
    other.take(answer, "A")
    assert not other.encrypt.senders.proven


def test_a_sender_that_was_refused_is_asked_again_although_others_are_challenged_meanwhile():
    """`jgroups sim --profile tokens --seed 16`: each challenge put off the timer by which refusals are forgotten."""
    one, other = member("A"), member("B")
    other.take(one.send(b"first"), "A")
    exchange(one, other)
    (asked,) = questions(other)
    other.stack.notify(TokenChecked(asked.number, None), other.now_ns)
    exchange(one, other)
    assert [waiting.refused for waiting in other.encrypt.senders.unproven.values()] == [True]
    for number in range(30):
        other.advance(millis(300))
        other.stack.inject(ChallengeMember(Address(bytes(15) + bytes((number,))), PLACES["C"]), other.now_ns)
    assert not other.encrypt.senders.unproven
