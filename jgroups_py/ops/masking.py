"""Reports without secrets: values whose names are those of secrets are masked, payloads left out; and, if that is
wanted, without IP addresses."""
from __future__ import annotations

import ipaddress
import re
from typing import Any

MASK = "***"
SECRET_WORDS = frozenset({
    "auth", "credential", "credentials", "key", "keys", "passphrase", "passwd", "password", "pin", "secret", "secrets",
    "token", "tokens"})
"""A value is masked if one of these is a word of its name, as in auth_token. Files are named by other words."""
PAYLOADS = frozenset({"payload", "payloads"})
_WORD = re.compile("[^a-z]+")
_LIKE_IPV6 = re.compile(r"(?<![\w:.])(?=[0-9A-Fa-f.]*:[0-9A-Fa-f.]*:)[0-9A-Fa-f:.]*[0-9A-Fa-f:](?:%[\w-]+)?(?!\w)")
_LIKE_IPV4 = re.compile(r"(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?![\w.]*\w)")
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


class Redaction:
    """IP addresses of several documents, each replaced by one and the same word, which says what kind it is of.

    >>> redaction = Redaction()
    >>> redaction.of({"bind_addr": "127.0.0.1", "hosts": ["10.1.2.3:7800", "[fe80::1%eth0]:7800"], "at": "10.1.2.3"})
    {'bind_addr': 'loopback-1', 'hosts': ['private-1:7800', '[link-local-1]:7800'], 'at': 'private-1'}
    """

    def __init__(self) -> None:
        self._words: dict[str, str] = {}                     # address -> the word for it
        self._counts: dict[str, int] = {}                    # kind -> how many of it

    def of(self, value: Any) -> Any:
        """A value for JSON without the addresses in its texts and names."""
        if isinstance(value, dict):
            return {self.of(name): self.of(item) for name, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.of(item) for item in value]
        if not isinstance(value, str):
            return value
        return _LIKE_IPV4.sub(self._replaced, _LIKE_IPV6.sub(self._replaced, value))

    def _replaced(self, match: re.Match[str]) -> str:
        text = match[0]
        try:
            address = ipaddress.ip_address(text)
        except ValueError:
            return text                                      # a time, a version
        if text not in self._words:
            kind = _kind_of(address)
            self._counts[kind] = self._counts.get(kind, 0) + 1
            self._words[text] = f"{kind}-{self._counts[kind]}"
        return self._words[text]


def _kind_of(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> str:
    for kind, is_one in (("any", address.is_unspecified), ("loopback", address.is_loopback),
                         ("multicast", address.is_multicast), ("link-local", address.is_link_local),
                         ("private", address.is_private)):
        if is_one:
            return kind
    return "public"
