"""Bodies of memberlist's messages: msgpack maps from the field names of Go structs to values.

Written in the older form of msgpack, which has one type for texts and bytes (no str8, no bin): every version of
memberlist reads it. Read as Go reads them: a missing or nil field has its type's zero, an unknown one is skipped.
Values are bounded by the bytes received; anything but a map of the right types is a WireError.
"""
from __future__ import annotations

from collections.abc import Mapping
from ipaddress import AddressValueError, IPv4Address, IPv6Address, ip_address
from typing import Any

from jgroups_py.model.address import PhysicalAddress
from jgroups_py.model.errors import ConfigError, WireError
from jgroups_py.model.text import is_name
from jgroups_py.wire.codec import NUMBER_LIMIT

try:
    import msgpack
except ImportError:                                          # `need_msgpack` reports it where msgpack is used
    msgpack = None

U16_MOST = 0xFFFF
U32_MOST = 0xFFFF_FFFF
TIME_MOST = NUMBER_LIMIT - 1                                 # of Lamport times: those counted from it must fit 64 bits
MOST_ITEMS = 1 << 10                                         # of a list or map: msgpack reserves memory before reading


def need_msgpack() -> None:
    """Raises ConfigError if msgpack is not installed."""
    if msgpack is None:
        raise ConfigError("memberlist's messages need msgpack: pip install 'jgroups_py[memberlist]'")


def packed(fields: Mapping[str, Any]) -> bytes:
    """The body with these fields, in their order."""
    data: bytes = msgpack.packb(fields, use_bin_type=False)
    return data


def unpacked(data: bytes, most_items: int = MOST_ITEMS) -> Body:
    """The body encoded in `data`. Raises WireError."""
    try:
        return body_of(msgpack.unpackb(data, raw=True, max_array_len=most_items, max_map_len=most_items))
    except (ValueError, msgpack.UnpackException) as error:
        raise WireError(f"not msgpack: {error}") from None


def body_of(value: object) -> Body:
    """A decoded msgpack value, which must be a map. Raises WireError."""
    if not isinstance(value, dict):
        raise WireError(f"a message's body is a {type(value).__name__}, not a map")
    return Body(value)


class Body:
    """The fields of one message; each method takes one out as a type, or raises WireError."""

    __slots__ = ("fields",)

    def __init__(self, fields: dict[bytes, Any]) -> None:
        self.fields = fields

    def _value(self, name: str, kind: type, zero: Any) -> Any:
        value = self.fields.get(name.encode())
        if value is None:
            return zero
        if value.__class__ is not kind:                      # exactly: True is an int, too
            raise WireError(f"{name} is a {type(value).__name__}, not a {kind.__name__}")
        return value

    def number(self, name: str, most: int = U32_MOST) -> int:
        """A whole number from 0 to `most`."""
        value: int = self._value(name, int, 0)
        if not 0 <= value <= most:
            raise WireError(f"{name} is {value}; allowed are 0 to {most}")
        return value

    def flag(self, name: str) -> bool:
        """True or false."""
        value: bool = self._value(name, bool, False)
        return value

    def data(self, name: str) -> bytes:
        """Bytes."""
        value: bytes = self._value(name, bytes, b"")
        return value

    def text(self, name: str) -> str:
        """UTF-8."""
        return text_of(self.data(name), name)

    def name(self, name: str) -> str:
        """A name that a member may have; empty if the field is missing."""
        return name_of(self.data(name), name)

    def place(self, host: str, port: str) -> PhysicalAddress | None:
        """An IP address of 4 or 16 bytes and a port; None if either is missing."""
        packed_host, number = self.data(host), self.number(port, U16_MOST)
        if not packed_host or not number:
            return None
        return host_of(packed_host), number

    def items(self, name: str) -> list[Any]:
        """A list of any values."""
        value: list[Any] = self._value(name, list, [])
        return value

    def mapping(self, name: str) -> dict[Any, Any]:
        """A map of any values."""
        value: dict[Any, Any] = self._value(name, dict, {})
        return value


def text_of(value: object, what: str) -> str:
    """`value` as text in UTF-8. Raises WireError."""
    if not isinstance(value, bytes):
        raise WireError(f"{what} is a {type(value).__name__}, not text")
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise WireError(f"{what} is not UTF-8") from None


def name_of(value: object, what: str) -> str:
    """`value` as the name of a node, which may be empty. Raises WireError."""
    found = text_of(value, what)
    if found and not is_name(found):
        raise WireError(f"{what} is a name that no member may have")
    return found


def host_of(packed_host: bytes) -> str:
    """An IP address as text; Go writes IPv4 in 4 bytes or, mapped into IPv6, in 16. Raises WireError."""
    try:
        host = IPv6Address(packed_host) if len(packed_host) == 16 else IPv4Address(packed_host)
    except AddressValueError:
        raise WireError(f"an IP address of {len(packed_host)} bytes, not 4 or 16") from None
    mapped = host.ipv4_mapped if isinstance(host, IPv6Address) else None
    return str(mapped or host)


def packed_host(host: str) -> bytes:
    """An IP address in 4 or 16 bytes; none for a host name, for which memberlist has no field."""
    try:
        return ip_address(host).packed
    except ValueError:
        return b""
