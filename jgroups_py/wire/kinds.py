"""Messages of a building block that are told apart by a byte: their classes by number, and their bytes.

A message is a byte for its kind and its fields, by the codecs that `field` gave them. A block makes one `Kinds` and a
class decorator with `dataclass_transform`, which type checkers want to see at a function.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Generic, TypeVar

import attrs

from jgroups_py.model.errors import WireError
from jgroups_py.wire.codec import Codec, Interner, Reader


class KindMessage:
    """Base of all such messages. codecs: (name, codec) of the fields, in order."""

    kind: ClassVar[int]
    codecs: ClassVar[tuple[tuple[str, Codec[Any]], ...]]


M = TypeVar("M", bound=KindMessage)
N = TypeVar("N", bound=KindMessage)


class Kinds(Generic[M]):
    """The messages of one block. what: one of them, for errors ("a frame")."""

    def __init__(self, what: str) -> None:
        self.what = what
        self._classes: dict[int, type[M]] = {}

    def add(self, kind: int) -> Callable[[type[N]], type[N]]:
        """A class decorator: make it an attrs class, known by this number."""
        def decorate(cls: type[N]) -> type[N]:
            assert kind not in self._classes, f"kind {kind} is taken"
            made: Any = attrs.frozen(cls)
            made.kind = kind
            made.codecs = tuple((field.name, field.metadata["codec"]) for field in attrs.fields(made))
            self._classes[kind] = made
            return made                                  # type: ignore[no-any-return]
        return decorate

    def known(self) -> list[type[M]]:
        """All classes, by kind."""
        return [self._classes[kind] for kind in sorted(self._classes)]

    def decode(self, data: bytes, addresses: Interner, at: int = 0) -> M:
        """The message from byte `at` to the end.

        Raises:
            WireError: there is none.
        """
        cls: Any = self._classes.get(data[at]) if len(data) > at else None
        if cls is None:
            raise WireError(f"{self.what} of no known kind")
        reader = Reader(data, addresses, at + 1)
        values = [codec.read(reader) for _, codec in cls.codecs]
        if reader.pos != reader.stop:
            raise WireError(f"{self.what} is followed by more")
        return cls(*values)                              # type: ignore[no-any-return]


def encode_message(item: KindMessage, head: bytes = b"") -> bytes:
    """A message as bytes, behind `head`."""
    out = bytearray(head)
    out.append(item.kind)
    for name, codec in item.codecs:
        codec.write(getattr(item, name), out)
    return bytes(out)
