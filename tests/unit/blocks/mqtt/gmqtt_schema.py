"""federation.proto of gmqtt v0.5.0, and the classes that Google's library makes of it."""
from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

Field = descriptor_pb2.FieldDescriptorProto
PACKAGE = "gmqtt.federation.api"
U64, U32, BOOL, TEXT, BYTES, MESSAGE = (
    Field.TYPE_UINT64, Field.TYPE_UINT32, Field.TYPE_BOOL, Field.TYPE_STRING, Field.TYPE_BYTES, Field.TYPE_MESSAGE)
SCHEMA: dict[str, list[tuple[str, int, int, str]]] = {
    "Event": [("id", 1, U64, ""), ("Subscribe", 2, MESSAGE, "Subscribe"), ("message", 3, MESSAGE, "Message"),
              ("unsubscribe", 4, MESSAGE, "Unsubscribe")],
    "Subscribe": [("share_name", 1, TEXT, ""), ("topic_filter", 2, TEXT, "")],
    "Message": [("topic_name", 1, TEXT, ""), ("payload", 2, BYTES, ""), ("qos", 3, U32, ""), ("retained", 4, BOOL, ""),
                ("content_type", 5, TEXT, ""), ("correlation_data", 6, TEXT, ""), ("message_expiry", 7, U32, ""),
                ("payload_format", 8, U32, ""), ("response_topic", 9, TEXT, ""),
                ("user_properties", 10, MESSAGE, "*UserProperty")],
    "UserProperty": [("K", 1, BYTES, ""), ("V", 2, BYTES, "")],
    "Unsubscribe": [("topic_name", 1, TEXT, "")],
    "Ack": [("event_id", 1, U64, "")],
    "ClientHello": [("session_id", 1, TEXT, "")],
    "ServerHello": [("clean_start", 1, BOOL, ""), ("next_event_id", 2, U64, "")],
}
"""Message -> (field, number, type, message of the field; * for repeated)."""


def generated() -> dict[str, Any]:
    """Name -> class."""
    file = descriptor_pb2.FileDescriptorProto(name="federation.proto", package=PACKAGE, syntax="proto3")
    for name, fields in SCHEMA.items():
        message = file.message_type.add(name=name)
        if name == "Event":
            message.oneof_decl.add(name="Event")
        for field, number, kind, of in fields:
            label = Field.LABEL_REPEATED if of.startswith("*") else Field.LABEL_OPTIONAL
            added = message.field.add(name=field, number=number, type=kind, label=label)
            if of:
                added.type_name = f".{PACKAGE}.{of.lstrip('*')}"
            if name == "Event" and of:
                added.oneof_index = 0
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{PACKAGE}.{name}")) for name in SCHEMA}
