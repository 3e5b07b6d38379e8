"""The address of an endpoint, and the checks of requests.

Without a token it listens on loopback or at a UNIX domain socket only, unless it was opened on purpose. A request's
Host has to be an address, "localhost" or a configured name. So a web page under another name that resolves to this host
(DNS rebinding) cannot read it.
"""
from __future__ import annotations

import hmac
import ipaddress
import os
import stat
from collections.abc import Mapping
from pathlib import Path

import attrs

from jgroups_py.model.errors import ConfigError

DEFAULT_HOST, DEFAULT_PORT = "127.0.0.1", 7580
LEAST_TOKEN_BYTES = 16
LOCALHOST = "localhost"


@attrs.frozen(kw_only=True)
class HttpAccess:
    """token_file: its content, without surrounding white space, is required as "Authorization: Bearer ..." for all but
    /livez and /readyz; mode 0600. is_open: other hosts may connect without a token. hosts: names allowed as Host."""

    token_file: str | os.PathLike[str] | None = None
    is_open: bool = False
    hosts: tuple[str, ...] = ()

    def token(self) -> bytes | None:
        """The token; None: none is required.

        Raises:
            ConfigError: the file cannot be read, others can read it, or its content is too short.
        """
        if self.token_file is None:
            return None
        path = Path(self.token_file)
        try:
            others = stat.S_IMODE(path.stat().st_mode) & (stat.S_IRWXG | stat.S_IRWXO)
            token = path.read_bytes().strip()
        except OSError as error:
            raise ConfigError(f"HTTP: the token file {path}: {error.strerror or error}") from None
        if others:
            raise ConfigError(f"HTTP: the token file {path} can be used by others; chmod 600 {path}")
        if len(token) < LEAST_TOKEN_BYTES:
            raise ConfigError(f"HTTP: the token in {path} has {len(token)} bytes; {LEAST_TOKEN_BYTES} are the least")
        return token


def parse_place(text: str) -> tuple[str, int] | Path:
    """Where to listen: "ADDRESS:PORT", "ADDRESS", "PORT", "unix:PATH", or "" for the default.

    >>> parse_place(""), parse_place("8000"), parse_place("[::1]:80"), parse_place("10.0.0.1")
    (('127.0.0.1', 7580), ('127.0.0.1', 8000), ('::1', 80), ('10.0.0.1', 7580))

    Raises:
        ConfigError: it is neither of these.
    """
    if text.startswith("unix:"):
        if path := text.removeprefix("unix:"):
            return Path(path)
        raise ConfigError("HTTP: unix: needs a path, as in unix:/run/user/1000/a.sock")
    host, port = DEFAULT_HOST, str(DEFAULT_PORT)
    if text.isdecimal():
        port = text
    elif text.startswith("["):
        host, bracket, rest = text[1:].partition("]")
        port = rest.removeprefix(":") if bracket and rest.startswith(":") else port if bracket and not rest else ""
    elif text:
        host, colon, rest = text.partition(":")
        port = rest if colon else port
    try:
        ipaddress.ip_address(host)
        if not port.isdecimal() or int(port) > 0xFFFF:
            raise ValueError
    except ValueError:
        raise ConfigError(f"HTTP: {text!r} is no place to listen: ADDRESS:PORT, ADDRESS, PORT (0: any free one) or "
                          "unix:PATH; an address is a number, as 127.0.0.1 or [::1]") from None
    return host, int(port)


def check_place(where: tuple[str, int] | Path, access: HttpAccess) -> None:
    """Refuse to listen beyond loopback without a token.

    Raises:
        ConfigError: `where` can be reached from other hosts, and no token is required.
    """
    if isinstance(where, Path) or ipaddress.ip_address(where[0]).is_loopback:
        return
    if access.token_file is None and not access.is_open:
        raise ConfigError(f"HTTP: {where[0]} can be reached from other hosts: give a token file, or open it on purpose "
                          "(--http-token-file FILE, --http-open)")


def is_authorized(headers: Mapping[str, str], token: bytes | None) -> bool:
    """Whether a request carries the token, if one is required."""
    if token is None:
        return True
    scheme, _, given = headers.get("authorization", "").partition(" ")
    return scheme.lower() == "bearer" and hmac.compare_digest(given.strip().encode("latin-1"), token)


def is_for_this_host(headers: Mapping[str, str], names: tuple[str, ...]) -> bool:
    """Whether the Host of a request is an address, "localhost", or one of `names`; any port.

    >>> [is_for_this_host({"host": host}, ("a.example",)) for host in ("[::1]:80", "A.example:1", "evil.example", "")]
    [True, True, False, False]
    """
    host = headers.get("host", "").lower()
    name = host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]
    if name == LOCALHOST or name in map(str.lower, names):
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
