"""The 15 control packets of MQTT 3.1.1 and 5 as values, and what they are made of.

One class per packet serves both versions: a packet of 3.1.1 has no properties, and its return codes are the reason
codes of version 5 that mean the same (the codec translates). So nothing above the codec asks for the version but where
the standards demand different behaviour. Section numbers are those of OASIS "MQTT Version 5.0" (2019-03-07); where
3.1.1 (2014-10-29) differs it is named. All values are immutable, and none of them is checked here: the decoder gives
only packets that obey the standard, an encoder is given what the broker means.

Units: seconds end in `_s`, except for properties, which are named as in the standard and are in seconds too; sizes are
bytes; packet ids are 1 to 65,535, and 0 where there is none.
"""
from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any, ClassVar, TypeVar

import attrs

from jgroups_py.model.errors import WireError

MAX_REMAINING_BYTES = 268_435_455
"""The largest Variable Byte Integer, so the largest packet after its fixed header (1.5.5)."""
MAX_TEXT_BYTES = 65_535
"""The longest string or binary value (1.5.4, 1.5.6)."""


class ProtocolVersion(enum.IntEnum):
    """The protocol level of CONNECT (3.1.2.2)."""

    MQTT_3_1_1 = 4
    MQTT_5 = 5


class PacketType(enum.IntEnum):
    """The upper half of a packet's first byte (2.1.2)."""

    WILL = 0
    """No packet: names the properties of the Will inside CONNECT (3.1.3.2)."""
    CONNECT = 1
    CONNACK = 2
    PUBLISH = 3
    PUBACK = 4
    PUBREC = 5
    PUBREL = 6
    PUBCOMP = 7
    SUBSCRIBE = 8
    SUBACK = 9
    UNSUBSCRIBE = 10
    UNSUBACK = 11
    PINGREQ = 12
    PINGRESP = 13
    DISCONNECT = 14
    AUTH = 15


class ReasonCode(enum.IntEnum):
    """How an operation ended (2.4): below 0x80 it succeeded. Which packet may carry which one: the codec."""

    SUCCESS = 0x00
    NORMAL_DISCONNECTION = 0x00                          # of DISCONNECT
    GRANTED_QOS_0 = 0x00                                 # of SUBACK
    GRANTED_QOS_1 = 0x01
    GRANTED_QOS_2 = 0x02
    DISCONNECT_WITH_WILL_MESSAGE = 0x04
    NO_MATCHING_SUBSCRIBERS = 0x10
    NO_SUBSCRIPTION_EXISTED = 0x11
    CONTINUE_AUTHENTICATION = 0x18
    RE_AUTHENTICATE = 0x19
    UNSPECIFIED_ERROR = 0x80
    MALFORMED_PACKET = 0x81
    PROTOCOL_ERROR = 0x82
    IMPLEMENTATION_SPECIFIC_ERROR = 0x83
    UNSUPPORTED_PROTOCOL_VERSION = 0x84
    CLIENT_IDENTIFIER_NOT_VALID = 0x85
    BAD_USER_NAME_OR_PASSWORD = 0x86
    NOT_AUTHORIZED = 0x87
    SERVER_UNAVAILABLE = 0x88
    SERVER_BUSY = 0x89
    BANNED = 0x8A
    SERVER_SHUTTING_DOWN = 0x8B
    BAD_AUTHENTICATION_METHOD = 0x8C
    KEEP_ALIVE_TIMEOUT = 0x8D
    SESSION_TAKEN_OVER = 0x8E
    TOPIC_FILTER_INVALID = 0x8F
    TOPIC_NAME_INVALID = 0x90
    PACKET_IDENTIFIER_IN_USE = 0x91
    PACKET_IDENTIFIER_NOT_FOUND = 0x92
    RECEIVE_MAXIMUM_EXCEEDED = 0x93
    TOPIC_ALIAS_INVALID = 0x94
    PACKET_TOO_LARGE = 0x95
    MESSAGE_RATE_TOO_HIGH = 0x96
    QUOTA_EXCEEDED = 0x97
    ADMINISTRATIVE_ACTION = 0x98
    PAYLOAD_FORMAT_INVALID = 0x99
    RETAIN_NOT_SUPPORTED = 0x9A
    QOS_NOT_SUPPORTED = 0x9B
    USE_ANOTHER_SERVER = 0x9C
    SERVER_MOVED = 0x9D
    SHARED_SUBSCRIPTIONS_NOT_SUPPORTED = 0x9E
    CONNECTION_RATE_EXCEEDED = 0x9F
    MAXIMUM_CONNECT_TIME = 0xA0
    SUBSCRIPTION_IDENTIFIERS_NOT_SUPPORTED = 0xA1
    WILDCARD_SUBSCRIPTIONS_NOT_SUPPORTED = 0xA2


class RetainHandling(enum.IntEnum):
    """Which retained messages a new subscription gets (3.8.3.1)."""

    ALWAYS = 0
    IF_NEW = 1
    NEVER = 2


class SentBy(enum.Enum):
    """The end of a connection that sends what a decoder reads."""

    CLIENT = "client"
    SERVER = "server"
    EITHER = "either"
    """For tools that read both directions: what only one end may send is not checked."""


class MqttError(WireError):
    """Input that breaks the standard.

    reason: what DISCONNECT or CONNACK of version 5 says of it (in 3.1.1 the connection is closed); detail: what is
    wrong, and where, in words; packets: those that were complete before it in the same input, in order.
    """

    def __init__(self, reason: ReasonCode, detail: str) -> None:
        super().__init__(f"{detail} (0x{reason:02x} {reason.name})")
        self.reason = reason
        self.detail = detail
        self.packets: list[Packet] = []


class PropertyKind(enum.Enum):
    """How a property's value is written (2.2.2.2)."""

    BYTE = "byte"
    FLAG = "a byte, 0 or 1"
    U16 = "two byte integer"
    U32 = "four byte integer"
    VARINT = "variable byte integer"
    TEXT = "UTF-8 string"
    BINARY = "binary data"


def prop(number: int, kind: PropertyKind, *where: PacketType, least: int = 0) -> Any:
    """Declare a property: its identifier, how it is written, in which packets it may be, its smallest value."""
    return attrs.field(default=None, metadata={"number": number, "kind": kind, "where": where, "least": least})


_P = PacketType
_K = PropertyKind
_REASONED = (_P.CONNACK, _P.PUBACK, _P.PUBREC, _P.PUBREL, _P.PUBCOMP, _P.SUBACK, _P.UNSUBACK, _P.DISCONNECT, _P.AUTH)


@attrs.frozen(kw_only=True, weakref_slot=False)
class Properties:
    """The properties of a packet of version 5 (2.2.2.2); None is absent. Those of 3.1.1 are NO_PROPERTIES."""

    payload_format_indicator: int | None = prop(0x01, _K.FLAG, _P.PUBLISH, _P.WILL)
    """1: the payload is UTF-8; 0 and absent: bytes."""
    message_expiry_interval: int | None = prop(0x02, _K.U32, _P.PUBLISH, _P.WILL)
    """Seconds that the message lives; absent: for ever (3.3.2.3.3)."""
    content_type: str | None = prop(0x03, _K.TEXT, _P.PUBLISH, _P.WILL)
    response_topic: str | None = prop(0x08, _K.TEXT, _P.PUBLISH, _P.WILL)
    """A topic name without wildcards (3.3.2.3.5)."""
    correlation_data: bytes | None = prop(0x09, _K.BINARY, _P.PUBLISH, _P.WILL)
    subscription_identifiers: tuple[int, ...] = attrs.field(
        default=(), metadata={"number": 0x0B, "kind": _K.VARINT, "where": (_P.PUBLISH, _P.SUBSCRIBE), "least": 1})
    """1 to 268,435,455 each. At most one in SUBSCRIBE; in PUBLISH of a server those that matched (3.3.2.3.8)."""
    session_expiry_interval: int | None = prop(0x11, _K.U32, _P.CONNECT, _P.CONNACK, _P.DISCONNECT)
    """Seconds that the session outlives its connection; 0 and absent: it ends with it; 0xFFFFFFFF: never ends."""
    assigned_client_identifier: str | None = prop(0x12, _K.TEXT, _P.CONNACK)
    server_keep_alive: int | None = prop(0x13, _K.U16, _P.CONNACK)
    """Seconds; takes the place of the client's keep-alive (3.2.2.3.14)."""
    authentication_method: str | None = prop(0x15, _K.TEXT, _P.CONNECT, _P.CONNACK, _P.AUTH)
    authentication_data: bytes | None = prop(0x16, _K.BINARY, _P.CONNECT, _P.CONNACK, _P.AUTH)
    request_problem_information: int | None = prop(0x17, _K.FLAG, _P.CONNECT)
    """0: reason strings and user properties only in PUBLISH, CONNACK, DISCONNECT; absent: 1 (3.1.2.11.7)."""
    will_delay_interval: int | None = prop(0x18, _K.U32, _P.WILL)
    """Seconds between the end of the connection and the Will; absent: 0 (3.1.3.2.2)."""
    request_response_information: int | None = prop(0x19, _K.FLAG, _P.CONNECT)
    response_information: str | None = prop(0x1A, _K.TEXT, _P.CONNACK)
    server_reference: str | None = prop(0x1C, _K.TEXT, _P.CONNACK, _P.DISCONNECT)
    reason_string: str | None = prop(0x1F, _K.TEXT, *_REASONED)
    receive_maximum: int | None = prop(0x21, _K.U16, _P.CONNECT, _P.CONNACK, least=1)
    """Publications of QoS 1 and 2 that may be in flight towards the sender; absent: 65,535 (3.1.2.11.3)."""
    topic_alias_maximum: int | None = prop(0x22, _K.U16, _P.CONNECT, _P.CONNACK)
    """The highest alias that may be sent to the sender; absent: 0, none (3.1.2.11.5)."""
    topic_alias: int | None = prop(0x23, _K.U16, _P.PUBLISH, least=1)
    maximum_qos: int | None = prop(0x24, _K.FLAG, _P.CONNACK)
    """0 or 1; absent: 2. A server that takes QoS 2 must not send it (3.2.2.3.4)."""
    retain_available: int | None = prop(0x25, _K.FLAG, _P.CONNACK)
    user_properties: tuple[tuple[str, str], ...] = attrs.field(
        default=(), metadata={"number": 0x26, "kind": _K.TEXT, "where": tuple(
            each for each in _P if each not in (_P.PINGREQ, _P.PINGRESP)), "least": 0})
    """(name, value) in the order of the packet; names may come again."""
    maximum_packet_size: int | None = prop(0x27, _K.U32, _P.CONNECT, _P.CONNACK, least=1)
    """Bytes of a whole packet that the sender takes; absent: no limit but the protocol's (3.1.2.11.4)."""
    wildcard_subscription_available: int | None = prop(0x28, _K.FLAG, _P.CONNACK)
    subscription_identifiers_available: int | None = prop(0x29, _K.FLAG, _P.CONNACK)
    shared_subscription_available: int | None = prop(0x2A, _K.FLAG, _P.CONNACK)


T = TypeVar("T")


def mutable_twin(cls: type[T]) -> Callable[..., T]:
    """Make a class of the same layout whose instances may become those of an immutable class.

    The constructor of an immutable attrs class takes three times as long as that of a mutable one, and a decoder makes
    a packet of every message: it makes the twin and sets its `__class__`, which CPython allows where slots are the
    same.
    """
    declared = attrs.fields(cls)                         # type: ignore[arg-type]
    fields = {field.name: attrs.field(default=field.default, kw_only=field.kw_only) for field in declared}
    made: Callable[..., T] = attrs.make_class(
        cls.__name__, fields, bases=cls.__bases__, slots=True, weakref_slot=False, eq=False)
    return made


NO_PROPERTIES = Properties()
"""What a packet without properties has, in version 5 too."""


@attrs.frozen
class Will:
    """What the server publishes for a client whose connection ends without DISCONNECT (3.1.2.5)."""

    topic: str
    payload: bytes
    qos: int = 0                                         # 0, 1 or 2
    retain: bool = False
    properties: Properties = NO_PROPERTIES


@attrs.frozen
class Subscription:
    """One filter of SUBSCRIBE with its options (3.8.3.1); in 3.1.1 there is the QoS alone."""

    filter: str                                          # "$share/GROUP/FILTER" for a shared one (4.8.2)
    qos: int = 0                                         # the highest that is wanted: 0, 1 or 2
    no_local: bool = False                               # not what this client published
    retain_as_published: bool = False                    # keep the RETAIN flag of what is forwarded
    retain_handling: RetainHandling = RetainHandling.ALWAYS


class ControlPacket:
    """Base of the 15."""

    __slots__ = ()
    type: ClassVar[PacketType]


@attrs.frozen
class ConnectPacket(ControlPacket):
    """The first packet of a client (3.1)."""

    type: ClassVar[PacketType] = PacketType.CONNECT
    client_id: str                                       # "" asks the server for one
    version: ProtocolVersion = ProtocolVersion.MQTT_5
    clean_start: bool = True                             # CleanSession in 3.1.1
    keep_alive_s: int = 0                                # 0 to 65,535; 0: none
    username: str | None = None
    password: bytes | None = None                        # without a user name in version 5 only
    will: Will | None = None
    properties: Properties = NO_PROPERTIES


@attrs.frozen
class ConnAckPacket(ControlPacket):
    """The server's answer to CONNECT (3.2). The six return codes of 3.1.1 are the reason codes of the same meaning."""

    type: ClassVar[PacketType] = PacketType.CONNACK
    session_present: bool = False                        # False with every reason but SUCCESS
    reason: ReasonCode = ReasonCode.SUCCESS
    properties: Properties = NO_PROPERTIES


@attrs.frozen(weakref_slot=False)
class PublishPacket(ControlPacket):
    """A message, in either direction (3.3)."""

    type: ClassVar[PacketType] = PacketType.PUBLISH
    topic: str                                           # "" with a topic alias only
    payload: bytes
    qos: int = 0                                         # 0, 1 or 2
    retain: bool = False
    dup: bool = False                                    # sent before; False at QoS 0
    packet_id: int = 0                                   # 0 at QoS 0, else 1 to 65,535
    properties: Properties = NO_PROPERTIES


@attrs.frozen(weakref_slot=False)
class PubAckPacket(ControlPacket):
    """Answers PUBLISH of QoS 1 (3.4)."""

    type: ClassVar[PacketType] = PacketType.PUBACK
    packet_id: int
    reason: ReasonCode = ReasonCode.SUCCESS
    properties: Properties = NO_PROPERTIES


@attrs.frozen(weakref_slot=False)
class PubRecPacket(ControlPacket):
    """QoS 2, part 1: answers PUBLISH (3.5)."""

    type: ClassVar[PacketType] = PacketType.PUBREC
    packet_id: int
    reason: ReasonCode = ReasonCode.SUCCESS
    properties: Properties = NO_PROPERTIES


@attrs.frozen(weakref_slot=False)
class PubRelPacket(ControlPacket):
    """QoS 2, part 2: answers PUBREC (3.6)."""

    type: ClassVar[PacketType] = PacketType.PUBREL
    packet_id: int
    reason: ReasonCode = ReasonCode.SUCCESS
    properties: Properties = NO_PROPERTIES


@attrs.frozen(weakref_slot=False)
class PubCompPacket(ControlPacket):
    """QoS 2, part 3: answers PUBREL (3.7)."""

    type: ClassVar[PacketType] = PacketType.PUBCOMP
    packet_id: int
    reason: ReasonCode = ReasonCode.SUCCESS
    properties: Properties = NO_PROPERTIES


@attrs.frozen
class SubscribePacket(ControlPacket):
    """Asks for one or more subscriptions (3.8)."""

    type: ClassVar[PacketType] = PacketType.SUBSCRIBE
    packet_id: int
    subscriptions: tuple[Subscription, ...]              # one at least
    properties: Properties = NO_PROPERTIES


@attrs.frozen
class SubAckPacket(ControlPacket):
    """Answers SUBSCRIBE: one code a subscription, in its order (3.9). 3.1.1 knows one failure, UNSPECIFIED_ERROR."""

    type: ClassVar[PacketType] = PacketType.SUBACK
    packet_id: int
    reasons: tuple[ReasonCode, ...]
    properties: Properties = NO_PROPERTIES


@attrs.frozen
class UnsubscribePacket(ControlPacket):
    """Ends subscriptions (3.10)."""

    type: ClassVar[PacketType] = PacketType.UNSUBSCRIBE
    packet_id: int
    filters: tuple[str, ...]                             # one at least, as in SUBSCRIBE
    properties: Properties = NO_PROPERTIES


@attrs.frozen
class UnsubAckPacket(ControlPacket):
    """Answers UNSUBSCRIBE: one code a filter, in its order (3.11). In 3.1.1 there are none."""

    type: ClassVar[PacketType] = PacketType.UNSUBACK
    packet_id: int
    reasons: tuple[ReasonCode, ...] = ()
    properties: Properties = NO_PROPERTIES


@attrs.frozen
class PingReqPacket(ControlPacket):
    """The client lives (3.12)."""

    type: ClassVar[PacketType] = PacketType.PINGREQ


@attrs.frozen
class PingRespPacket(ControlPacket):
    """So does the server (3.13)."""

    type: ClassVar[PacketType] = PacketType.PINGRESP


@attrs.frozen
class DisconnectPacket(ControlPacket):
    """The last packet of a connection (3.14). In 3.1.1 of clients alone, and without a reason."""

    type: ClassVar[PacketType] = PacketType.DISCONNECT
    reason: ReasonCode = ReasonCode.NORMAL_DISCONNECTION
    properties: Properties = NO_PROPERTIES


@attrs.frozen
class AuthPacket(ControlPacket):
    """A step of extended authentication (3.15, 4.12). Not in 3.1.1."""

    type: ClassVar[PacketType] = PacketType.AUTH
    reason: ReasonCode = ReasonCode.SUCCESS
    properties: Properties = NO_PROPERTIES


Ack = PubAckPacket | PubRecPacket | PubRelPacket | PubCompPacket
_AckDraft = mutable_twin(PubAckPacket)


def acknowledgement(kind: type[Ack], packet_id: int, reason: ReasonCode = ReasonCode.SUCCESS) -> Ack:
    """One of the four without properties, made fast: they are half of all packets. Their classes have one layout."""
    draft: Any = _AckDraft(packet_id, reason)
    draft.__class__ = kind
    made: Ack = draft
    return made


Packet = (
    ConnectPacket | ConnAckPacket | PublishPacket | PubAckPacket | PubRecPacket | PubRelPacket | PubCompPacket
    | SubscribePacket | SubAckPacket | UnsubscribePacket | UnsubAckPacket | PingReqPacket | PingRespPacket
    | DisconnectPacket | AuthPacket
)
