"""The four kinds of errors.

A bug is an AssertionError (the channel closes with the reason). Bytes that make no frame are a WireError,
raised only while decoding and caught once, in the transport. A wrong configuration is a ConfigError, raised only
while a stack is built. What an application must handle is a ChannelError; `definite` states whether the outcome is
known: after a definite error the operation did not happen, after an indefinite one it may have.
"""
from __future__ import annotations

from typing import ClassVar


class ConfigError(ValueError):
    """A stack file or property is wrong; the text names the place, the value, and what is allowed."""


class WireError(ValueError):
    """Bytes that are no frame of this protocol and version."""


class ChannelError(Exception):
    """What an application must handle."""

    definite: ClassVar[bool] = True


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
