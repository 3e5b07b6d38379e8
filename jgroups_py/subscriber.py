"""The part of a channel that has to do with topics: what it wants, and the mark of what it sends."""
from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from jgroups_py.address import Address
from jgroups_py.batch import Header
from jgroups_py.config.spec import StackSpec
from jgroups_py.errors import ChannelError
from jgroups_py.events import Event
from jgroups_py.topics import ALL_TOPICS, EVERYTHING, Interest, Subscribe, Unsubscribe, interest_in, topic_header

if TYPE_CHECKING:
    from jgroups_py.session import Session


class Subscriber:
    """A base of BaseChannel."""

    spec: StackSpec
    _session: Session | None
    _interest: Interest

    @property
    def interest(self) -> Interest:
        """The topics that this channel wants; from the stack file until `subscribe` or `unsubscribe`."""
        return self._interest

    def subscribe(self, *topics: str | int) -> None:
        """Want messages about these topics too ("*": all), from what is delivered next on; connected or not.

        Raises:
            ValueError, TypeError: there can be no such topic.
            ChannelError: the stack has no TOPICS.
        """
        wanted = interest_in(*topics)
        self._set_interest(self._interest.union(wanted), Subscribe(wanted))

    def unsubscribe(self, *topics: str | int) -> None:
        """Want these topics no more ("*": none at all). What waits for the receiver already still comes.

        Raises:
            ValueError: all topics are wanted, of which none can be taken away; or there can be no such topic.
            ChannelError: the stack has no TOPICS.
        """
        unwanted = interest_in(*topics)
        if self._interest.everything and not unwanted.everything:
            raise ValueError('all topics are wanted; unsubscribe("*") first, then subscribe to some')
        self._set_interest(self._interest.without(unwanted), Unsubscribe(unwanted))

    def _set_interest(self, interest: Interest, change: Event) -> None:
        self._needs_topics()
        self._interest = interest
        self.spec = with_interests(self.spec, interest)      # for the next connection
        self._tell_interest(change)

    def _tell_interest(self, change: Event) -> None:
        """Tell our stack, if there is one just now."""
        session = self._session
        if session is not None:
            session.host.sends.put_event(change, 0, None)

    def _about(self, topic: str | int, dest: Address | None) -> Header:
        """The mark of a message's topic."""
        self._needs_topics()
        if dest is not None:
            raise ValueError("a message to one member has no topic; topics are for what is sent to all")
        return topic_header(topic)

    def _needs_topics(self) -> None:
        if self.spec.config_of("TOPICS") is None:
            raise ChannelError("topics need the protocol TOPICS at the top of the stack; this stack has none")


def interest_of(spec: StackSpec) -> Interest:
    """What a stack wants to begin with; without TOPICS everything."""
    topics = spec.config_of("TOPICS")
    return EVERYTHING if topics is None else interest_in(*topics.interests)


def with_interests(spec: StackSpec, interest: Interest) -> StackSpec:
    """A stack whose TOPICS begins with this interest."""
    names = (ALL_TOPICS,) if interest.everything else tuple(sorted(interest.names))
    return attrs.evolve(spec, layers=tuple(
        attrs.evolve(layer, config=attrs.evolve(layer.config, interests=names)) if layer.name == "TOPICS" else layer
        for layer in spec.layers))
