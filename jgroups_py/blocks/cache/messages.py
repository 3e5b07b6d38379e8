"""What the caches of one name tell each other: which keys to forget."""
from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, dataclass_transform

from jgroups_py.wire import field
from jgroups_py.wire.codec import BYTES, sequence
from jgroups_py.wire.kinds import KindMessage, Kinds, encode_message


class CacheMessage(KindMessage):
    """Base of all messages."""


M = TypeVar("M", bound=CacheMessage)
MESSAGES: Kinds[CacheMessage] = Kinds("a message about a cache")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def message(kind: int) -> Callable[[type[M]], type[M]]:
    """Class decorator: a message, encoded with this number."""
    return MESSAGES.add(kind)


@message(1)
class ForgetKeys(CacheMessage):
    """Forget these keys; what is being loaded of them too."""

    keys: tuple[bytes, ...] = field(sequence(BYTES))


@message(2)
class ForgetAll(CacheMessage):
    """Forget everything."""


def encode(item: CacheMessage) -> bytes:
    """A message as bytes."""
    return encode_message(item)
