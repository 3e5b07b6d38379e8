"""What the broker asks of what stands beside it: permissions, and the other brokers."""
from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

import attrs

from jgroups_py.blocks.mqtt.broker.publication import Publication
from jgroups_py.blocks.mqtt.broker.session import ClientSession
from jgroups_py.blocks.mqtt.codec.packets import ConnectPacket, ReasonCode


class Access(enum.Enum):
    """What a client asks leave for."""

    PUBLISH = "publish"
    SUBSCRIBE = "subscribe"


class Authorizer(Protocol):
    """Passwords and access control (auth.py). Answers at once; what takes time is asked before `Broker.received`."""

    def authenticate(self, connect: ConnectPacket, peer: str) -> ReasonCode:
        """SUCCESS, or what CONNACK says. peer: the address that the server gave with `connected`."""
        ...

    def may(self, client_id: str, username: str | None, access: Access, topic: str) -> bool:
        """Whether a client may publish to a topic name, or subscribe to a filter (without $share/GROUP/)."""
        ...


@runtime_checkable
class SlowAuthorizer(Protocol):
    """An Authorizer with something to compute before `authenticate` can answer at once."""

    def work(self, connect: ConnectPacket) -> Callable[[], object] | None:
        """What to call in another thread, None: nothing. It must touch nothing that changes."""
        ...

    def worked(self, connect: ConnectPacket, result: object) -> None:
        """What it returned; `authenticate` of this CONNECT follows at once."""
        ...


class AllowAll:
    """No passwords and no rules."""

    def authenticate(self, connect: ConnectPacket, peer: str) -> ReasonCode:
        return ReasonCode.SUCCESS

    def may(self, client_id: str, username: str | None, access: Access, topic: str) -> bool:
        return True


@attrs.frozen
class GroupChoice:
    """A shared subscription that a message matches here. online: members that have a connection."""

    group: str
    filter: str
    members: int
    online: int


@attrs.define(weakref_slot=False)
class Forwarding:
    """What the federation does with a message.

    token: what `Broker.release` will be called with once the peers have taken it over, 0 if nothing need be awaited;
    messages that one client published one after the other may have the same one, which is released once, for all;
    elsewhere: (group, filter) of the shared subscriptions whose member is chosen at a peer; peers: to how many it goes.
    """

    token: int = 0
    elsewhere: frozenset[tuple[str, str]] = frozenset()
    peers: int = 0


NOWHERE = Forwarding()


class Federation(Protocol):
    """The other brokers, as a broker sees them. Is called inside the broker's methods; must not call back."""

    def interest(self, group: str, filter: str, members: int, online: int) -> None:
        """A filter has got its first subscriber, or lost its last. Of a shared subscription (group not ""), each change
        of its numbers."""
        ...

    def publish(self, publication: Publication, groups: Sequence[GroupChoice], now_ns: int) -> Forwarding:
        """A client of this broker has published, or its will is published. groups: the shared subscriptions here that
        match."""
        ...

    def retained(self, publication: Publication, now_ns: int) -> None:
        """A topic's retained message was set here, or cleared (empty payload)."""
        ...

    def move(self, publication: Publication, group: str, filter: str, now_ns: int) -> bool:
        """The member of a shared subscription that had this message is gone, and no other member here has a connection.
        Returns whether a peer takes the message."""
        ...

    def connecting(self, client_id: str, clean_start: bool, now_ns: int) -> bool:
        """A client may connect here. True: `Broker.claimed` says when, since another node has its session."""
        ...

    def ended(self, client_id: str, now_ns: int) -> None:
        """A session is no more."""
        ...

    def dropped(self, client_id: str) -> None:
        """A session is no more that was begun in place of one that did not come in time, and that its client need not
        know of: that one may be elsewhere."""
        ...

    def routed(self, token: int) -> int:
        """A message of QoS 1 or 2 is in the sessions here. token: what `publish` returned. Returns the token that its
        acknowledgement waits for: the same one, or if that is 0 perhaps a new one."""
        ...

    def attached(self, session: ClientSession, now_ns: int) -> None:
        """A session is about to get a connection; expiry and will are set."""
        ...

    def detached(self, session: ClientSession, now_ns: int) -> None:
        """A session goes on without a connection."""
        ...

    def leaving(self, session: ClientSession) -> None:
        """A session is about to be taken out of this broker, whether it ends or has moved."""
        ...


class NoCopies:
    """The part of a Federation that keeps copies of sessions, where there are none."""

    def routed(self, token: int) -> int:
        """See Federation."""
        return token

    def attached(self, session: ClientSession, now_ns: int) -> None:
        """See Federation."""

    def detached(self, session: ClientSession, now_ns: int) -> None:
        """See Federation."""

    def leaving(self, session: ClientSession) -> None:
        """See Federation."""


class NoFederation(NoCopies):
    """A broker by itself."""

    def interest(self, group: str, filter: str, members: int, online: int) -> None:
        pass

    def publish(self, publication: Publication, groups: Sequence[GroupChoice], now_ns: int) -> Forwarding:
        return NOWHERE

    def retained(self, publication: Publication, now_ns: int) -> None:
        pass

    def move(self, publication: Publication, group: str, filter: str, now_ns: int) -> bool:
        return False

    def connecting(self, client_id: str, clean_start: bool, now_ns: int) -> bool:
        return False

    def ended(self, client_id: str, now_ns: int) -> None:
        pass

    def dropped(self, client_id: str) -> None:
        pass
