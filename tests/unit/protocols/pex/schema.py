"""The original's schema, and the class that protobuf generates from its Frame."""
from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

Field = descriptor_pb2.FieldDescriptorProto
SCHEMA: dict[str, list[tuple[str, int, int, str]]] = {
    "Ping": [("interests", 1, Field.TYPE_UINT64, "")],
    "Peer": [("identity", 1, Field.TYPE_BYTES, ""), ("address", 2, Field.TYPE_STRING, ""),
             ("interests", 3, Field.TYPE_UINT64, "")],
    "Pong": [("peers", 1, Field.TYPE_MESSAGE, "*Peer"), ("interests", 2, Field.TYPE_UINT64, "")],
    "UserPayload": [("payload", 1, Field.TYPE_BYTES, ""), ("topic", 2, Field.TYPE_UINT64, "")],
    "FrameMessage": [("ping", 1, Field.TYPE_MESSAGE, "Ping"), ("pong", 2, Field.TYPE_MESSAGE, "Pong"),
                     ("user_data", 3, Field.TYPE_MESSAGE, "UserPayload")],
    "Frame": [("identity", 1, Field.TYPE_BYTES, ""), ("messages", 2, Field.TYPE_MESSAGE, "*FrameMessage")],
}
"""Message -> (field, number, type, message of the field; * for repeated)."""


def generated() -> Any:
    """The class of Frame."""
    file = descriptor_pb2.FileDescriptorProto(name="gossip.proto", package="gossip", syntax="proto3")
    for name, fields in SCHEMA.items():
        message = file.message_type.add(name=name)
        if name == "FrameMessage":
            message.oneof_decl.add(name="payload")
        for field, number, kind, of in fields:
            label = Field.LABEL_REPEATED if of.startswith("*") else Field.LABEL_OPTIONAL
            added = message.field.add(name=field, number=number, type=kind, label=label)
            if of:
                added.type_name = f".gossip.{of.lstrip('*')}"
            if name == "FrameMessage":
                added.oneof_index = 0
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("gossip.Frame"))
