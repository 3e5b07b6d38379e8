"""Texts from other processes: which names and hosts are accepted from the wire, and how any text is displayed.

The name of a member or site is chosen on another machine. Control characters would let it forge a
line of a log or control a terminal, and signs of direction make a line read as another one than it is (Unicode TR 36),
so neither the names of this member nor those on the wire may have any. What is displayed is escaped all the same, since
topics, tags and the reasons of errors come from other processes too.
"""
from __future__ import annotations

import re
from ipaddress import AddressValueError, IPv4Address, IPv6Address

MAX_NAME_BYTES = 255                        # of a member, a site or a cluster, in UTF-8
MAX_HOST_CHARS = 253                        # RFC 1035, in the notation with dots

_HOST_NAME = re.compile(rf"[A-Za-z0-9._-]{{1,{MAX_HOST_CHARS}}}")
_UNFIT = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Control characters (C0, DEL, C1), line and paragraph separators, signs of direction, halves of surrogate pairs."""


def is_plain(text: str) -> bool:
    """Whether a text may stand in a line as it is.

    >>> is_plain("Zoë 1"), is_plain("a" + chr(10) + "b"), is_plain("abc" + chr(0x202E))
    (True, False, False)
    """
    # The first test is three times as fast and decides for nearly all names.
    return (text.isprintable() and text.isascii()) or _UNFIT.search(text) is None


def is_name(text: str) -> bool:
    """Whether a text may be the name of a member or site: 1 to 255 bytes, nothing that controls a terminal."""
    return 0 < len(text) <= MAX_NAME_BYTES and is_plain(text) and (
        text.isascii() or len(text.encode()) <= MAX_NAME_BYTES)


def is_host(text: str) -> bool:
    """Whether a text may be the host of a physical address: an IP address, or the name of a host in ASCII.

    The underscore is no part of host names by RFC 952, but of names that container engines assign.

    >>> [is_host(text) for text in ("10.0.0.1", "::1", "node-1.example", "", "a b", chr(0), "fe80::1%eth0")]
    [True, True, True, False, False, False, False]
    """
    return _HOST_NAME.fullmatch(text) is not None or (":" in text and _is_ipv6(text))


def _is_ipv6(text: str) -> bool:
    try:
        return IPv6Address(text).scope_id is None
    except AddressValueError:
        return False


def is_ipv4(text: str) -> bool:
    """Whether `text` is an IPv4 address in its usual form, which the system accepts without a resolver."""
    try:
        IPv4Address(text)
    except AddressValueError:
        return False
    return True


def escaped(text: object) -> str:
    r"""A text as it may be shown on a terminal or written to a log: control characters are written as numbers.

    >>> escaped("red" + chr(27) + "[31m"), escaped("two" + chr(10) + "lines"), escaped(chr(0x202E))
    ('red\\x1b[31m', 'two\\x0alines', '\\u202e')
    """
    shown = str(text)
    return shown if is_plain(shown) else _UNFIT.sub(_number, shown)


def _number(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def place(host: str, port: int) -> str:
    """Host and port as one writes them.

    >>> place("::1", 1883), place("", 1883), place("10.0.0.1", 1)
    ('[::1]:1883', '*:1883', '10.0.0.1:1')
    """
    return f"[{host}]:{port}" if ":" in host else f"{host or '*'}:{port}"
