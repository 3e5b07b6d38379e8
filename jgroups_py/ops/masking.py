"""Reports without secrets: values whose names are those of secrets are masked, payloads left out."""
from __future__ import annotations

import re
from typing import Any

MASK = "***"
SECRET_WORDS = frozenset({
    "auth", "credential", "credentials", "key", "keys", "passphrase", "passwd", "password", "pin", "secret", "secrets",
    "token", "tokens"})
"""A value is masked if one of these is a word of its name, as in auth_token. Files are named by other words."""
PAYLOADS = frozenset({"payload", "payloads"})
_WORD = re.compile("[^a-z]+")
_USER_OF_URL = re.compile(r"(?<=://)[^/\s@]*@")


def masked(value: Any) -> Any:
    """A value for JSON without secrets and payloads.

    >>> masked({"secret": "s", "port": "7800", "record": "https://me:pw@example/", "payload": "x", "keyring": "a.json"})
    {'secret': '***', 'port': '7800', 'record': 'https://***@example/', 'keyring': 'a.json'}
    """
    if isinstance(value, dict):
        return {name: MASK if _is_secret(name, item) else masked(item) for name, item in value.items()
                if name not in PAYLOADS}
    if isinstance(value, list | tuple):
        return [masked(item) for item in value]
    return _USER_OF_URL.sub(f"{MASK}@", value) if isinstance(value, str) else value


def _is_secret(name: object, value: object) -> bool:
    """Whether the value of that name is masked. Empty values, and the counters of a protocol, are none."""
    is_text = isinstance(value, str) and value != ""
    return is_text and not SECRET_WORDS.isdisjoint(_WORD.split(str(name).lower()))
