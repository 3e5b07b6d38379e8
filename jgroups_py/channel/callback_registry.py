"""What a channel calls: a receiver, or the functions given to `@ch.on_message`, `@ch.on_view` and `@ch.on_state`."""
from __future__ import annotations

from typing import overload

from jgroups_py.channel.functions import Functions, OnMessage, OnView, StateFunction, StateWriter
from jgroups_py.channel.receiver import ReceiverLike, callbacks
from jgroups_py.model.errors import ChannelError


class CallbackRegistry:
    """A base of BaseChannel. Decorators may be used before and after connecting; what was delivered before is gone."""

    _receiver: ReceiverLike | None = None
    _functions: Functions | None = None                      # the receiver, if functions were registered

    @property
    def receiver(self) -> ReceiverLike | None:
        """What is called: a Receiver, any object with some of its methods, or a function of a message.

        None, assigned, also takes away what `on_message` and its like, `messages()` and `events()` have begun.

        Raises:
            TypeError: it has none of the methods and cannot be called. ChannelError: the channel has functions.
        """
        return None if self._functions is not None else self._receiver

    @receiver.setter
    def receiver(self, receiver: ReceiverLike | None) -> None:
        callbacks(receiver)                                  # raises now if it is none
        if receiver is not None and self._functions is not None:
            raise ChannelError("the channel has functions (on_message, on_view, on_state) or a loop over messages() or "
                               "events(); a receiver would take their calls. Assign None first to remove them")
        self._functions, self._receiver = None, receiver
        self._receiver_changed()

    def on_message(self, function: OnMessage) -> OnMessage:
        """Register a function that is called with each Message, one at a time and in order.

        Raises:
            ChannelError: the channel has a receiver, such a function, or a loop over its messages already.
            TypeError: it cannot be called.
        """
        self._add_function("receive", function)
        return function

    def on_view(self, function: OnView) -> OnView:
        """Register a function that is called with each View from now on; see `on_message`."""
        self._add_function("view_accepted", function)
        return function

    @overload
    def on_state(self, write: StateFunction) -> StateWriter: ...

    @overload
    def on_state(self, write: StateFunction, read: StateFunction) -> StateWriter: ...

    def on_state(self, write: StateFunction, read: StateFunction | None = None) -> StateWriter:
        """Register the functions of the state: `write(stream)` for a member that wants it, `read(stream)` for one that
        comes.

            @ch.on_state
            def save(stream): ...

            @save.setter
            def load(stream): ...
        """
        writer = StateWriter(write, self._add_function)
        self._add_function("get_state", write)
        if read is not None:
            self._add_function("set_state", read)
        return writer

    def _add_function(self, name: str, function: object) -> None:
        self._own_functions().add(name, function)
        self._receiver_changed()

    def _own_functions(self) -> Functions:
        """The functions of this channel, which from now on are its receiver.

        Raises:
            ChannelError: it has another one.
        """
        if self._functions is None:
            if self._receiver is not None:
                raise ChannelError(f"the channel has a receiver ({type(self._receiver).__name__}); it takes all calls, "
                                   "so functions and loops over messages would get none")
            self._functions = self._receiver = Functions()
        return self._functions

    def _receiver_changed(self) -> None:
        """The receiver, or what it has, changed."""
        raise NotImplementedError
