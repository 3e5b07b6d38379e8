"""The topics of a channel: its subscriptions, and the header of messages that it sends."""
from __future__ import annotations

import attrs

from jgroups_py.config.spec import StackSpec
from jgroups_py.model.address import Address
from jgroups_py.model.batch import Header
from jgroups_py.model.errors import ChannelError
from jgroups_py.model.events import Event, Subscribe, Unsubscribe
from jgroups_py.model.topics import ALL_TOPICS, EVERYTHING, Interest, interest_in
from jgroups_py.wire.topic_headers import topic_header


class Subscriptions:
    """A base of BaseChannel: `interest`, `subscribe` and `unsubscribe`."""

    spec: StackSpec
    _interest: Interest

    @property
    def interest(self) -> Interest:
        """The topics that this channel subscribes to; from the stack file until `subscribe` or `unsubscribe`."""
        return self._interest

    def subscribe(self, *topics: str | int) -> None:
        """Subscribe to these topics ("*": all), from the next delivery on; connected or not.

        Raises:
            ValueError, TypeError: there can be no such topic.
            ChannelError: the stack has no TOPICS.
        """
        added = interest_in(*topics)
        self._set_interest(self._interest.union(added), Subscribe(added))

    def unsubscribe(self, *topics: str | int) -> None:
        """Unsubscribe from these topics ("*": from all). What waits for the receiver already is still delivered.

        Raises:
            ValueError: this channel subscribes to all topics, of which none can be removed; or no such topic is
            possible. ChannelError: the stack has no TOPICS.
        """
        removed = interest_in(*topics)
        if self._interest.everything and not removed.everything:
            raise ValueError('this channel subscribes to all topics; unsubscribe("*") first, then subscribe to some')
        self._set_interest(self._interest.without(removed), Unsubscribe(removed))

    def _set_interest(self, interest: Interest, change: Event) -> None:
        self._needs_topics()
        self._interest = interest
        self.spec = with_interests(self.spec, interest)      # for the next connection
        self._interest_changed(change)

    def _interest_changed(self, change: Event) -> None:
        """Pass the change to the stack, if the channel has one just now."""
        raise NotImplementedError

    def _topic_header(self, topic: str | int, dest: Address | None) -> Header:
        """The header of a message's topic."""
        self._needs_topics()
        if dest is not None:
            raise ValueError("a message to one member has no topic; topics are for what is sent to all")
        return topic_header(topic)

    def _needs_topics(self) -> None:
        if self.spec.config_of("TOPICS") is None:
            raise ChannelError("topics need the protocol TOPICS at the top of the stack; this stack has none")


def interest_of(spec: StackSpec) -> Interest:
    """The interest that a stack begins with; without TOPICS everything."""
    topics = spec.config_of("TOPICS")
    return EVERYTHING if topics is None else interest_in(*topics.interests)


def with_interests(spec: StackSpec, interest: Interest) -> StackSpec:
    """A stack whose TOPICS begins with this interest."""
    names = (ALL_TOPICS,) if interest.everything else tuple(sorted(interest.names))
    return attrs.evolve(spec, layers=tuple(
        attrs.evolve(layer, config=attrs.evolve(layer.config, interests=names)) if layer.name == "TOPICS" else layer
        for layer in spec.layers))
