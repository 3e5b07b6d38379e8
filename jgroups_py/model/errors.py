"""The four kinds of errors.

A bug is an AssertionError (the channel closes with the reason). Bytes that make no frame are a WireError,
raised only while decoding and caught once, in the transport. A wrong configuration is a ConfigError, raised only
while a stack is built. What an application must handle is a ChannelError; `definite` states whether the outcome is
known: after a definite error the operation did not happen, after an indefinite one it may have.
"""
from __future__ import annotations

import inspect
from typing import Any, ClassVar, dataclass_transform


class ConfigError(ValueError):
    """A stack file or property is wrong; the text names the place, the value, and what is allowed."""


class WireError(ValueError):
    """Bytes that are no frame of this protocol and version."""


class ChannelError(Exception):
    """What an application must handle."""

    definite: bool = True


class NotConnectedError(ChannelError):
    """The channel is not connected, so nothing was sent."""


class ReceiversMissingError(NotConnectedError):
    """FLOW counts fewer receivers than its group_min_size, so nothing was sent. (A slow group: SendTimeoutError.)"""

    def __init__(self, receivers: int, wanted: int) -> None:
        super().__init__(receivers, wanted)
        self.receivers = receivers
        self.wanted = wanted

    def __str__(self) -> str:
        return f"not connected: {self.receivers} of at least {self.wanted} receivers are there; nothing was sent"


class ChannelClosedError(ChannelError):
    """The channel was closed, by the application or because of `reason`."""

    def __init__(self, reason: str = "the channel is closed") -> None:
        super().__init__(reason)
        self.reason = reason


class SendTimeoutError(ChannelError):
    """The send queue stayed full for the whole timeout; the message was not queued."""


class JoinTimeoutError(ChannelError):
    """No view was installed in time; the channel is disconnected again."""


class MembersTimeoutError(ChannelError):
    """The view did not have as many members in time; the channel goes on."""


class StateTransferError(ChannelError):
    """The state was not (or not wholly) received; the application's set_state may have seen a part of it."""

    definite = False


class UnknownSiteError(ChannelError):
    """No site of this name is known, so nothing was sent."""


class SiteOrderError(ChannelError):
    """An operator's order about a site was refused, or not carried out in time; the text names which."""

    definite = False


class KeyOrderError(ChannelError):
    """An operator's order of a new key was refused, or not carried out in time; the text names which."""

    definite = False


class ReceiptError(ChannelError):
    """The message was sent, but there is no receipt. outcome: "unknown", or "lost"."""

    definite = False
    outcome: ClassVar[str] = "unknown"


class ReceiptTimeoutError(ReceiptError):
    """No receipt in time; the message is held for the site and may reach it yet."""


class MessageLostError(ReceiptError):
    """The message was declared lost for `site`: it is not sent there (any more), and some members there do not have
    it."""

    definite = True
    outcome = "lost"

    def __init__(self, site: str) -> None:
        super().__init__(site)
        self.site = site

    def __str__(self) -> str:
        return f"the message is lost for site {self.site}: it is OFFLINE, or some member there cannot get it"


class RequestError(ChannelError):
    """A request got no answer; whether the other member handled it is unknown, except in the subclasses."""

    definite = False


class RequestTimeoutError(RequestError):
    """No answer in time."""


class MemberLeftError(RequestError):
    """The requested member left the group, or became unreachable, before its answer arrived."""

    def __init__(self, member: object) -> None:
        super().__init__(member)
        self.member = member

    def __str__(self) -> str:
        return f"{self.member} left before it answered"


class NoMemberError(MemberLeftError):
    """The destination is no member of the view, any more or yet, nor of another site; nothing was sent."""

    definite = True

    def __str__(self) -> str:
        return f"{self.member} is not in this member's view (it left, or this member's view is late)"


class RemoteError(RequestError):
    """The requested member handled the request and failed: its handler raised a `kind` with the text `text`."""

    definite = True

    def __init__(self, member: object, kind: str, text: str) -> None:
        super().__init__(member, kind, text)
        self.member = member
        self.kind = kind
        self.text = text

    def __str__(self) -> str:
        return f"{self.member} answered {self.kind}: {self.text}"


class NoServiceError(RequestError):
    """No member that can be asked offers the method; nothing was sent."""

    definite = True


class NoMethodError(RequestError):
    """The member has no such method, or one with other parameters or another result; nothing ran."""

    definite = True


class CallForgottenError(RequestError):
    """The member got the call (once=True) before, and keeps its answer no more."""


class ArgumentsError(RequestError):
    """The member refused the arguments of a call: they are not of the types that the method declares; nothing ran."""

    definite = True


class OverloadedError(RequestError):
    """The member runs as many calls or streams as it allows; this one did not begin."""

    definite = True


class AnswerError(RequestError):
    """The method ran, but its answer is larger than is accepted here, or not of the type that it declares."""


class CallCancelledError(RequestError):
    """The member cancelled the call before its end: it stops, or withdrew the service."""


class StreamLostError(RequestError):
    """The member does not know the stream any more, as this member was out of its view for a moment."""


@dataclass_transform()
class RemoteFault(RequestError):
    """Base of the errors that a method of a service declares; the caller gets an instance of the same class.

    A subclass has fields, with annotations as in a dataclass, of types that a method may have: `class
    NoSuchOrder(RemoteFault): id: int`. It is raised in the method, and by the call, if the method lists it in `raises`.
    """

    definite = True
    fields: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        own = [name for name, hint in inspect.get_annotations(cls).items() if "ClassVar" not in str(hint)]
        cls.fields = (*cls.fields, *(name for name in own if name not in cls.fields))

    def __init__(self, *args: Any, **values: Any) -> None:
        """The values of the fields, by place or by name.

        Raises:
            TypeError: too many, an unknown one, or one without a default is missing.
        """
        kind = type(self)
        given = dict(zip(self.fields, args, strict=False)) | values
        unknown = [name for name in values if name not in self.fields]
        missing = [name for name in self.fields if name not in given and not hasattr(kind, name)]
        if len(args) > len(self.fields) or len(given) < len(args) + len(values) or unknown or missing:
            raise TypeError(f"{kind.__name__} has the fields ({', '.join(self.fields)}), not {args}, {values}")
        for name, value in given.items():
            setattr(self, name, value)
        super().__init__(*(getattr(self, name) for name in self.fields))

    def __str__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={getattr(self, name)!r}' for name in self.fields)})"
