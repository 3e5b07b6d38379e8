"""A keyring: the keys that a group shares, each with an id and a state, and their file.

One key is active: members seal with it. Further keys are accepted: members open with them. A retired one is neither;
its id stays in the file, its bytes do not. So a key is changed in three phases without a pause, each at all members
before the next one: add the new key (all can open with it), activate it (all seal with it), retire the old one.

The file is JSON: {"format": "jgroups keyring 1", "keys": [{"id": "16 hex digits", "state": "active", "key": "64 hex
digits"}, ...]}. Source of the phases: Corosync's change of keys at run time.
"""
from __future__ import annotations

import binascii
import json
from collections.abc import Iterable
from typing import Any, Final

import attrs

from jgroups_py.model.errors import ConfigError
from jgroups_py.sealing.primitives import KEY_BYTES, KEY_ID_BYTES, key_id

FORMAT: Final = "jgroups keyring 1"
ACTIVE, ACCEPTED, RETIRED = "active", "accepted", "retired"
STATES: Final = (ACTIVE, ACCEPTED, RETIRED)
MAX_KEYS: Final = 8                      # active and accepted ones
MAX_RETIRED: Final = 64                  # ids that are remembered; the oldest are forgotten
MAX_FILE_BYTES: Final = 64 << 10


@attrs.frozen
class GroupKey:
    """One key. secret: its bytes, empty if it is retired; not shown."""

    id: bytes
    state: str
    secret: bytes = attrs.field(default=b"", repr=False)

    @property
    def name(self) -> str:
        """Its id in hex."""
        return self.id.hex()


@attrs.frozen
class GroupKeyring:
    """All keys. Exactly one is active.

    Raises:
        ConfigError: none or several are active, an id stands twice, there are too many.
    """

    keys: tuple[GroupKey, ...] = ()

    def __attrs_post_init__(self) -> None:
        active = [key.name for key in self.keys if key.state == ACTIVE]
        if len(active) != 1:
            raise ConfigError(f"a keyring has exactly one active key, not {len(active)}")
        if len(dict.fromkeys(key.id for key in self.keys)) != len(self.keys):
            raise ConfigError("a key stands twice in a keyring")
        if sum(key.state != RETIRED for key in self.keys) > MAX_KEYS:
            raise ConfigError(f"a keyring has at most {MAX_KEYS} keys that are not retired; retire old ones")

    @property
    def active(self) -> GroupKey:
        """The key to seal with."""
        return next(key for key in self.keys if key.state == ACTIVE)

    def usable(self) -> dict[bytes, GroupKey]:
        """Id -> key, of those that open."""
        return {key.id: key for key in self.keys if key.state != RETIRED}

    def find(self, name: str) -> GroupKey:
        """The key whose id in hex begins with `name`.

        Raises:
            ConfigError: none has, or several.
        """
        found = [key for key in self.keys if key.name.startswith(name.lower())] if name else []
        if len(found) != 1:
            known = ", ".join(f"{key.name} ({key.state})" for key in self.keys)
            number = "more than one key" if found else "no key"
            raise ConfigError(f"{number} has an id that begins with {name!r}; there are {known}")
        return found[0]

    # --- the three phases -------------------------------------------------------------------------------------------

    def with_key(self, secret: bytes) -> GroupKeyring:
        """Phase 1: with one more accepted key.

        Raises:
            ConfigError: it is there, or was retired.
        """
        new = group_key(secret, ACCEPTED)
        for key in self.keys:
            if key.id == new.id:
                raise ConfigError(f"key {new.name} is {key.state} already")
        retired = [key for key in self.keys if key.state == RETIRED]
        forgotten = retired[:max(0, len(retired) - MAX_RETIRED)]
        return GroupKeyring((*(key for key in self.keys if key not in forgotten), new))

    def activated(self, name: str) -> GroupKeyring:
        """Phase 2: with another active key; the former one is accepted.

        Raises:
            ConfigError: there is no such key, or it is retired.
        """
        wanted = self.find(name)
        if wanted.state == RETIRED:
            raise ConfigError(f"key {wanted.name} is retired: make another one (jgroups keys rotate)")
        return GroupKeyring(tuple(
            attrs.evolve(key, state=ACTIVE) if key is wanted else
            attrs.evolve(key, state=ACCEPTED) if key.state == ACTIVE else key for key in self.keys))

    def without(self, name: str) -> GroupKeyring:
        """Phase 3: with that key retired, its bytes erased.

        Raises:
            ConfigError: there is no such key, or it is the active one.
        """
        wanted = self.find(name)
        if wanted.state == ACTIVE:
            raise ConfigError(f"key {wanted.name} is the active one: activate another key first (jgroups keys rotate)")
        return GroupKeyring(tuple(GroupKey(key.id, RETIRED) if key is wanted else key for key in self.keys))

    # --- the file ---------------------------------------------------------------------------------------------------

    def as_text(self) -> str:
        """The contents of its file. This is secret."""
        keys = [{"id": key.name, "state": key.state, **({"key": key.secret.hex()} if key.secret else {})}
                for key in self.keys]
        return json.dumps({"format": FORMAT, "keys": keys}, indent=1) + "\n"


def group_key(secret: bytes, state: str) -> GroupKey:
    """The key of these 32 bytes."""
    assert len(secret) == KEY_BYTES, "AES-256 takes 32 bytes"
    return GroupKey(key_id(secret), state, secret)


def new_keyring(secret: bytes) -> GroupKeyring:
    """A keyring of one key, which is active."""
    return GroupKeyring((group_key(secret, ACTIVE),))


def parse_keyring(text: str | bytes) -> GroupKeyring:
    """The keyring in a file's text. No error shows a part of the text, which may be a key.

    Raises:
        ConfigError: what is wrong, and what is allowed.
    """
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        raise ConfigError("not a keyring: not JSON (jgroups keys generate makes one)") from None
    if not isinstance(data, dict) or data.get("format") != FORMAT or not isinstance(data.get("keys"), list):
        raise ConfigError(f'not a keyring of this version: an object with "format": "{FORMAT}" and "keys" '
                          "(jgroups keys generate makes one)")
    return GroupKeyring(tuple(_parsed_keys(data["keys"])))


def _parsed_keys(items: Iterable[Any]) -> Iterable[GroupKey]:
    for number, item in enumerate(items, 1):
        if not isinstance(item, dict):
            raise ConfigError(f'key {number} of the keyring is no object with "id", "state" and "key"')
        state, name = item.get("state"), _from_hex(item.get("id"), KEY_ID_BYTES)
        if state not in STATES:
            raise ConfigError(f"key {number} of the keyring has no state, or another one than {', '.join(STATES)}")
        if name is None:
            raise ConfigError(f"key {number} of the keyring has no id of {2 * KEY_ID_BYTES} hex digits")
        if state == RETIRED:
            yield GroupKey(name, RETIRED)
            continue
        secret = _from_hex(item.get("key"), KEY_BYTES)
        if secret is None:
            raise ConfigError(f"key {number} of the keyring has no key of {2 * KEY_BYTES} hex digits")
        made = group_key(secret, state)
        if made.id != name:
            raise ConfigError(f"key {number} of the keyring is not the one that its id {name.hex()} names")
        yield made


def _from_hex(value: Any, nbytes: int) -> bytes | None:
    try:
        raw = binascii.unhexlify(value) if isinstance(value, str) else b""
    except (binascii.Error, ValueError):
        return None
    return raw if len(raw) == nbytes else None
