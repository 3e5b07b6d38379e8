"""How arguments, results, items and faults become bytes, and bytes values; and what of a type its fingerprint contains.

With msgspec (`pip install jgroups_py[typed]`) they are MessagePack, decoded only into the types that the receiver
itself declares: dataclasses, attrs classes, msgspec structs, collections, unions, None, numbers, str, bytes, times,
UUIDs, enums. Nothing in the bytes names a class. A method of one parameter `bytes`, or with the result `bytes` or None,
takes or gives these bytes as they are, and needs no msgspec.

Arguments are an array of those without defaults, then, if the caller gave any others, a map of these by name. So
parameters with defaults may be added, at both ends: unknown ones are ignored, missing ones have the server's default.
"""
from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import attrs

from jgroups_py.model.errors import ConfigError, RemoteFault

try:
    import msgspec
    import msgspec.inspect
    import msgspec.json
    import msgspec.msgpack
except ImportError:                                          # without the extra: methods of bytes alone
    msgspec = None                                           # type: ignore[assignment]

NEEDS = "needs msgspec: pip install 'jgroups_py[typed]'; without it methods take and give bytes"


@attrs.frozen
class ValueCodec:
    """Both ways of one type. text: what the fingerprint contains of it."""

    encode: Callable[[Any], bytes]
    decode: Callable[[bytes], Any]
    text: str


def _same(value: Any) -> bytes:
    if value.__class__ is bytes:
        return value
    if not isinstance(value, bytes | bytearray | memoryview):
        raise TypeError(f"the method declares bytes, not {type(value).__name__}")
    return bytes(value)


def _nothing(value: Any) -> bytes:
    if value is not None:
        raise TypeError(f"the method declares no result, and returned {type(value).__name__}")
    return b""


def _decoded_nothing(data: bytes) -> None:
    if data:
        raise ValueError(f"{len(data)} bytes where there is nothing")


BYTES = ValueCodec(_same, bytes, "bytes")
NOTHING = ValueCodec(_nothing, _decoded_nothing, "")


def result_codec(hint: Any, what: str) -> ValueCodec:
    """The codec of a result, or of the items of a stream.

    Raises:
        ConfigError: msgspec is needed and missing, or has no such type; `what` says where.
    """
    if hint is bytes:
        return BYTES
    if hint in (None, type(None)):
        return NOTHING
    text = type_text(hint, what)
    return ValueCodec(_encoder().encode, msgspec.msgpack.Decoder(hint).decode, text)


def _raw_one(args: tuple[Any, ...]) -> bytes:
    value = args[0]
    return value if value.__class__ is bytes else _same(value)


def _raw_none(args: tuple[Any, ...]) -> bytes:
    return b""


class ArgumentsCodec:
    """The arguments of one method. required: names of those without a default; optional: of the others.

    encode_required, decode_required: between the values, by place, and bytes, where there are no optional ones.
    """

    def __init__(self, parameters: Mapping[str, inspect.Parameter], hints: Mapping[str, Any], what: str) -> None:
        for name, parameter in parameters.items():
            if parameter.kind is not inspect.Parameter.POSITIONAL_OR_KEYWORD:
                raise ConfigError(f"{what}: parameter {name}: a method has plain parameters, no * or /")
            if name not in hints:
                raise ConfigError(f"{what}: parameter {name} has no annotation")
        self.names = tuple(parameters)
        self.required = tuple(name for name, one in parameters.items() if one.default is inspect.Parameter.empty)
        self.optional = self.names[len(self.required):]
        self.count = len(self.required)
        self.raw = not self.optional and [hints[name] for name in self.names] in ([], [bytes])
        self._what = what
        if self.raw:
            self.text = "bytes" if self.names else ""
            self.encode_required: Callable[[Any], bytes] = _raw_one if self.names else _raw_none
            self.decode_required: Callable[[bytes], tuple[Any, ...]] = self._decode_raw
            return
        self.text = ",".join(type_text(hints[name], f"{what}: parameter {name}") for name in self.required)
        self.encode_required = _encoder().encode
        fields: list[Any] = [(name, hints[name]) for name in self.required]
        if self.optional:
            rest = msgspec.defstruct("Optional", [(name, hints[name] | msgspec.UnsetType, msgspec.UNSET)
                                                  for name in self.optional])
            fields.append(("_optional", rest | None, None))
        decode = msgspec.msgpack.Decoder(msgspec.defstruct("Arguments", fields, array_like=True)).decode
        values = msgspec.structs.astuple
        self.decode_required = lambda data: values(decode(data))

    def encode(self, args: tuple[Any, ...], named: Mapping[str, Any]) -> bytes:
        """The bytes of a call's arguments.

        Raises:
            TypeError: as of a function call with such arguments, or one has no encoding.
            ValueError: an integer does not fit 64 bits.
        """
        if named or len(args) != self.count:
            args = self._bound(args, named)
        try:
            return self.encode_required(args)
        except OverflowError as error:
            raise ValueError(f"{self._what}: {error}") from error

    def decode(self, data: bytes) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments by place, and those by name.

        Raises:
            Exception: of msgspec, or of the classes that are made.
        """
        args = self.decode_required(data)
        if not self.optional:
            return args, {}
        *required, rest = args
        given = {} if rest is None else {name: value for name in self.optional
                                         if (value := getattr(rest, name)) is not msgspec.UNSET}
        return tuple(required), given

    def _bound(self, args: tuple[Any, ...], named: Mapping[str, Any]) -> tuple[Any, ...]:
        given = dict(zip(self.names, args, strict=False))
        twice = [name for name in named if name in given]
        unknown = [name for name in named if name not in self.names]
        missing = [name for name in self.required if name not in given and name not in named]
        if len(args) > len(self.names) or twice or unknown or missing:
            raise TypeError(f"{self._what} takes {', '.join(self.names) or 'no arguments'}; got {len(args)} by place, "
                            f"and {', '.join(named) or 'none'} by name")
        given |= named
        rest = {name: given[name] for name in self.optional if name in given}
        required = tuple(given[name] for name in self.required)
        return (*required, rest) if rest else required

    def _decode_raw(self, data: bytes) -> tuple[Any, ...]:
        return (data,) if self.names else ()


class FaultCodec:
    """A declared error as text: its fields as JSON."""

    def __init__(self, kind: type[RemoteFault], hints: Mapping[str, Any], what: str) -> None:
        self.kind = kind
        if not kind.fields:
            self.text = "{}"
            self._decode: Callable[[bytes], Any] | None = None
            return
        self.text = ",".join(f"{name}:{type_text(hints[name], what)}" for name in kind.fields)
        struct = msgspec.defstruct(kind.__name__, [
            (name, hints[name], getattr(kind, name)) if hasattr(kind, name) else (name, hints[name])
            for name in kind.fields])
        self._decode = msgspec.json.Decoder(struct).decode

    def encode(self, fault: RemoteFault) -> str:
        """The fields of a fault."""
        if self._decode is None:
            return ""
        return msgspec.json.encode({name: getattr(fault, name) for name in self.kind.fields}).decode()

    def decode(self, text: str) -> RemoteFault:
        """The fault that a member raised.

        Raises:
            Exception: of msgspec: the text is none of it.
        """
        if self._decode is None:
            return self.kind()
        made = self._decode(text.encode())
        return self.kind(*(getattr(made, name) for name in self.kind.fields))


def _encoder() -> Any:
    return msgspec.msgpack.Encoder()


# --- fingerprints -----------------------------------------------------------------------------------------------------


def type_text(hint: Any, what: str) -> str:
    """A type as it counts for a fingerprint: shapes, not names of classes; of fields only those without a default.

    Raises:
        ConfigError: see result_codec.
    """
    if msgspec is None:
        raise ConfigError(f"{what} {NEEDS}")
    types = msgspec.inspect
    try:
        return _text(types.type_info(hint), types, ())
    except TypeError as error:
        raise ConfigError(f"{what}: {hint!r} cannot be encoded: {error}") from error


def _text(info: Any, types: Any, inside: tuple[Any, ...]) -> str:
    name = type(info).__name__.removesuffix("Type").lower()
    if isinstance(info, types.CustomType):
        raise TypeError(f"{info.cls.__name__} is no dataclass, attrs class or msgspec.Struct")
    if hasattr(info, "fields"):                              # a struct, dataclass, attrs class, named tuple, typed dict
        if info.cls in inside:
            return f"^{len(inside) - inside.index(info.cls)}"
        inside = (*inside, info.cls)
        fields = [f"{field.encode_name}:{_text(field.type, types, inside)}" for field in info.fields if field.required]
        in_order = getattr(info, "array_like", False) or isinstance(info, types.NamedTupleType)
        tag = getattr(info, "tag", None)
        return f"{'[' if in_order else '{'}{tag or ''}{','.join(fields if in_order else sorted(fields))}"
    if isinstance(info, types.UnionType):
        return "|".join(sorted(_text(one, types, inside) for one in info.types))
    if isinstance(info, types.DictType):
        return f"dict({_text(info.key_type, types, inside)},{_text(info.value_type, types, inside)})"
    if isinstance(info, types.TupleType):
        return f"tuple({','.join(_text(one, types, inside) for one in info.item_types)})"
    if hasattr(info, "item_type"):                           # lists, sets, tuples of any length are the same
        return f"list({_text(info.item_type, types, inside)})"
    return {"enum": "enum", "literal": "literal", "bytearray": "bytes", "memoryview": "bytes"}.get(name, name)
