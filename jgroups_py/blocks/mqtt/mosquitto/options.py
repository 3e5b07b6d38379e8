"""Options and counters of the link to a mosquitto."""
from __future__ import annotations

import attrs

from jgroups_py.model.counters import Counters, counter, declare, drop, table
from jgroups_py.model.errors import ConfigError


@attrs.frozen(kw_only=True)
class MosquittoOptions:
    """Times are seconds. name: of the node that the link belongs to; unique in the federation.

    client_id: of the link at mosquitto. A mosquitto has one link: a second one with the same id closes the first.
    filters: filters of mosquitto's clients whose subscriptions are older than the link, so that it cannot learn them.
    """

    name: str
    client_id: str = attrs.field(default="jgroups-sidecar")
    username: str | None = None
    password: bytes | None = None
    filters: tuple[str, ...] = ()
    session_s: int = 3600                                # mosquitto keeps the link's session after a break
    keep_alive_s: int = 30
    connect_s: float = 10.0                              # until all is set up
    retry_s: float = 0.1                                 # after a break; doubled each time, up to retry_most_s
    retry_most_s: float = 5.0
    report_s: float = 5.0                                # for mosquitto's log to report a subscription of the link
    sync_s: float = 5.0                                  # after SUBACK, in which known retained messages are old ones
    keep_offline_s: float = 300.0                        # filters of a client of MQTT 5 that is offline
    subscribing: int = 50                                # SUBSCRIBE and UNSUBSCRIBE under way
    receive_maximum: int = 1_000
    max_packet_bytes: int = 16 << 20
    max_clients: int = 100_000                           # of mosquitto, whose filters are remembered
    max_filters: int = 10_000                            # of one client of mosquitto
    max_levels: int = 128

    @client_id.validator
    def _check_client_id(self, attribute: object, value: str) -> None:
        if not value or any(character in value for character in "+#/\0"):
            raise ConfigError(f"client id {value!r} of the link to mosquitto: it must not be empty, nor have + # /")


COUNTERS = declare(
    counter("links", "Times that the link was set up."),
    counter("link_breaks", "Times that it broke, or could not be set up."),
    counter("messages_in", "Messages of mosquitto's clients given to the federation."),
    counter("messages_out", "Messages of the federation given to mosquitto."),
    counter("subscribed", "Filters that the link subscribed at mosquitto for other nodes."),
    counter("unsubscribed", "Filters that it unsubscribed there."),
    counter("subscriptions_refused", "Filters that mosquitto did not let the link subscribe."),
    counter("learned", "Filters of mosquitto's clients that got their first subscriber."),
    counter("retained_placed", "Retained messages of the federation given to mosquitto for late subscribers."),
    drop("overlap_copies", "Copies of a message that mosquitto sent for a second matching filter of the link."),
    drop("retained_known", "Retained messages that mosquitto sent for a new filter, and that the federation has."),
    drop("retained_own", "Retained messages that mosquitto sent for a new filter, and that came from the federation."),
    drop("dollar_topics", "Messages to topics that begin with $, which belong to one broker."),
    drop("cut_lines", "Lines of mosquitto's log that are cut, since a client id or filter is too long."),
    drop("odd_lines", "Lines of its log about subscriptions that are malformed."),
    drop("dropped_clients", "Clients of mosquitto beyond the number whose filters are remembered."),
    drop("dropped_filters", "Filters of one of its clients beyond their number, or of too many levels."),
    drop("unexpected_packets", "Packets of mosquitto that answer no packet of the link."),
)


def mosquitto_counters() -> Counters:
    """Counters of one link; a name that is not declared here is refused."""
    return Counters(table(COUNTERS))
