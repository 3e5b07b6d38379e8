"""Keyrings: three phases of a rotation, their file, and each refusal."""
from __future__ import annotations

import json

import pytest

from jgroups_py.model.errors import ConfigError
from jgroups_py.sealing.keyring import (
    ACCEPTED,
    ACTIVE,
    FORMAT,
    MAX_KEYS,
    RETIRED,
    GroupKeyring,
    group_key,
    new_keyring,
    parse_keyring,
)

ONE, TWO = bytes(range(32)), bytes(range(32, 64))
FIRST, SECOND = group_key(ONE, ACTIVE).name, group_key(TWO, ACTIVE).name


def states(keyring: GroupKeyring) -> dict[str, str]:
    return {key.name: key.state for key in keyring.keys}


def test_a_key_is_changed_in_three_phases():
    keyring = new_keyring(ONE)
    added = keyring.with_key(TWO)
    assert states(added) == {FIRST: ACTIVE, SECOND: ACCEPTED}
    changed = added.activated(SECOND[:4])
    assert states(changed) == {FIRST: ACCEPTED, SECOND: ACTIVE}
    assert list(changed.usable()) == [bytes.fromhex(FIRST), bytes.fromhex(SECOND)]
    ended = changed.without(FIRST)
    assert states(ended) == {FIRST: RETIRED, SECOND: ACTIVE}
    assert ended.keys[0].secret == b""
    assert ONE.hex() not in ended.as_text()
    assert list(ended.usable()) == [bytes.fromhex(SECOND)]


@pytest.mark.parametrize(("change", "text"), [
    (lambda ring: ring.without(FIRST), "is the active one: activate another key first"),
    (lambda ring: ring.with_key(ONE), f"key {FIRST} is active already"),
    (lambda ring: ring.activated("zz"), "no key has an id that begins with 'zz'"),
    (lambda ring: ring.activated(""), "no key has an id"),
    (lambda ring: ring.with_key(TWO).without(SECOND).activated(SECOND), f"key {SECOND} is retired"),
    (lambda ring: ring.with_key(TWO).without(SECOND).with_key(TWO), f"key {SECOND} is retired already"),
])
def test_what_would_leave_the_group_without_a_key_is_refused(change, text):
    with pytest.raises(ConfigError, match=text):
        change(new_keyring(ONE))


def test_a_keyring_has_few_keys():
    keyring = new_keyring(ONE)
    for number in range(MAX_KEYS - 1):
        keyring = keyring.with_key(bytes([number + 100]) * 32)
    with pytest.raises(ConfigError, match=f"at most {MAX_KEYS} keys"):
        keyring.with_key(TWO)


def test_the_file_gives_the_keyring_back():
    keyring = new_keyring(ONE).with_key(TWO)
    assert parse_keyring(keyring.as_text()) == keyring
    assert parse_keyring(keyring.without(SECOND).as_text().encode()) == keyring.without(SECOND)


def file_of(*keys: object, form: object = FORMAT) -> str:
    return json.dumps({"format": form, "keys": list(keys)})


GOOD = {"id": FIRST, "state": ACTIVE, "key": ONE.hex()}


@pytest.mark.parametrize(("text", "error"), [
    ("", "not JSON"), ("[" * 100_000, "not JSON"), (b"\xff\xfe\x00", "not JSON"),
    ("[]", "not a keyring of this version"),
    (file_of(GOOD, form="jgroups keyring 2"), "not a keyring of this version"),
    (file_of(), "exactly one active key, not 0"), (file_of(GOOD, GOOD), "exactly one active key, not 2"),
    (file_of(GOOD, {**GOOD, "state": ACCEPTED}), "a key stands twice"),
    (file_of({**GOOD, "state": "old"}), "another one than active, accepted, retired"),
    (file_of({**GOOD, "state": ["active"]}), "another one than active"),
    (file_of({**GOOD, "id": "12"}), "no id of 16 hex digits"), (file_of({**GOOD, "id": 5}), "no id of 16 hex digits"),
    (file_of({**GOOD, "key": ONE.hex()[2:]}), "no key of 64 hex digits"),
    (file_of({**GOOD, "key": TWO.hex()}), "is not the one that its id"), (file_of("x"), "is no object"),
])
def test_what_is_not_a_keyring_is_refused_without_showing_a_key(text, error):
    with pytest.raises(ConfigError, match=error) as caught:
        parse_keyring(text)
    assert ONE.hex() not in str(caught.value)
    assert TWO.hex() not in str(caught.value)


def test_nothing_that_is_shown_has_a_key():
    keyring = new_keyring(ONE).with_key(TWO)
    shown = f"{keyring!r} {keyring.active!r} {keyring.active}"
    assert ONE.hex() not in shown
    assert repr(ONE) not in shown
    assert "secret" not in shown
