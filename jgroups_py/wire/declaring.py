"""Declares headers: a class with `@header(proto=, kind=)` and fields made by `field(CODEC)`; field order is byte order.

There is no pickle and no reflection on received names: frame.py reads what was declared here, and nothing else.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, dataclass_transform

import attrs

from jgroups_py.model.header import Header
from jgroups_py.wire.codec import Codec
from jgroups_py.wire.frame import register

H = TypeVar("H", bound=type[Header])


def field(codec: Codec[Any], **options: Any) -> Any:
    """A field of a header class, written and read by `codec`."""
    return attrs.field(metadata={"codec": codec}, **options)


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def part(cls: H) -> H:
    """Class decorator: fields that several headers begin with; no header itself."""
    return attrs.define(cls, eq=True)


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def header(*, proto: int, kind: int) -> Callable[[H], H]:
    """Class decorator: makes a header class with a codec; its id on the wire is (proto, kind).

    Headers are frozen by law 3, and to the type checker; a frozen attrs class would cost three times as much to make.
    """
    def decorate(cls: H) -> H:
        made = attrs.define(cls, eq=True)
        made.proto, made.kind = proto, kind
        register(made, [(each.name, each.metadata["codec"]) for each in attrs.fields(made)])    # type: ignore[arg-type]
        return made
    return decorate
