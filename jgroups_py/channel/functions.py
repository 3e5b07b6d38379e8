"""The functions that an application registers one by one, in the place of a receiver: `@ch.on_message` and the like.

A channel has either a receiver or these. Both take the same calls, since a `Functions` is a receiver whose methods are
attributes: `channel/receiver.py` finds those that are there. A stream (channel/streams.py) takes the messages if no
function does, and may see the views beside a function.
"""
from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, BinaryIO, TypeVar

from jgroups_py.channel.message import Message
from jgroups_py.channel.receiver import Receiver
from jgroups_py.model.errors import ChannelError
from jgroups_py.model.view import View

OnMessage = TypeVar("OnMessage", bound=Callable[[Message], object])
OnView = TypeVar("OnView", bound=Callable[[View], object])
StateFunction = Callable[[BinaryIO], object]
OnState = TypeVar("OnState", bound=StateFunction)

DECORATORS = {"receive": "on_message", "view_accepted": "on_view", "get_state": "on_state", "set_state": "on_state"}


class Functions(Receiver):
    """Callbacks by name. Its attributes are what `receiver.callbacks` finds."""

    def __init__(self) -> None:
        self._given: dict[str, Callable[..., object]] = {}   # name of a callback -> the application's function
        self._stream: Mapping[str, Callable[..., object]] = {}   # name -> the stream's; empty without a stream

    def add(self, name: str, function: object) -> None:
        """Register the function of a callback.

        Raises:
            TypeError: it cannot be called. ChannelError: there is one already, or a stream takes the messages.
        """
        decorator = DECORATORS[name]
        if not callable(function):
            raise TypeError(f"{decorator} takes a function, not {type(function).__name__}")
        if name in self._given:
            raise ChannelError(f"{decorator}: the channel has a function for {name} already")
        if name == "receive" and self._stream:
            raise ChannelError("on_message: messages() or events() of this channel takes the messages")
        self._given[name] = function
        self._bind(name)

    def open_stream(self, stream: Mapping[str, Callable[..., object]]) -> None:
        """Give a stream the calls that are under these names.

        Raises:
            ChannelError: a function of the application takes the messages.
        """
        if "receive" in self._given:
            raise ChannelError("on_message takes the messages of this channel; messages() and events() are for "
                               "channels without it")
        self._stream = stream
        for name in stream:
            self._bind(name)

    @property
    def takes_messages(self) -> bool:
        """Whether a function of the application takes the messages."""
        return "receive" in self._given

    def _bind(self, name: str) -> None:
        """Set the attribute of a callback to what is to be called now; the stream first, as it keeps the order."""
        calls = [call for call in (self._stream.get(name), self._given.get(name)) if call is not None]
        if not calls:
            self.__dict__.pop(name, None)
        elif len(calls) == 1:
            self.__dict__[name] = calls[0]
        else:
            self.__dict__[name] = _both(*calls)


def _both(first: Callable[..., object], second: Callable[..., object]) -> Callable[..., object]:
    """Call two functions; what the second one returns may have to be awaited."""
    def call(*arguments: Any) -> object:
        first(*arguments)
        return second(*arguments)
    return call


class StateWriter:
    """What `@ch.on_state` makes of the function that writes the state; `setter` registers the one that reads it."""

    def __init__(self, write: StateFunction, add: Callable[[str, object], None]) -> None:
        self._write = write
        self._add = add
        self.__name__ = getattr(write, "__name__", type(write).__name__)
        self.__doc__ = write.__doc__

    def __call__(self, stream: BinaryIO) -> object:
        return self._write(stream)

    def setter(self, read: OnState) -> OnState:
        """Register the function that reads a state which another member wrote."""
        self._add("set_state", read)
        return read
