"""Validation of what an application gives a channel: stacks, names, destinations, the provider of a state."""
from __future__ import annotations

import enum
import logging
from collections.abc import Mapping

from jgroups_py.config.load import Source, load
from jgroups_py.config.spec import StackSpec
from jgroups_py.model.address import Address
from jgroups_py.model.text import MAX_NAME_BYTES, is_plain

log = logging.getLogger("jgroups_py")

HEADER_ROOM = 1024                          # without FRAG a message and all headers fit one frame


class Coordinator(enum.Enum):
    """Stands for the member that is coordinator when the state is requested."""

    COORDINATOR = "coordinator"


COORDINATOR = Coordinator.COORDINATOR


def loaded(source: Source, properties: Mapping[str, object] | None) -> StackSpec:
    """The stack; its warnings go to the log, unless it is a StackSpec: then they did when that was loaded."""
    spec = load(source, properties)
    for warning in () if spec is source else spec.warnings:
        log.warning("%s", warning)
    return spec


def checked_name(name: object, what: str) -> str:
    """A name that fits headers and that other members take; it may be empty.

    Raises:
        TypeError, ValueError: it does not.
    """
    if not isinstance(name, str):
        raise TypeError(f"{what} is a str, not {type(name).__name__}")
    if len(name.encode()) > MAX_NAME_BYTES:
        raise ValueError(f"{what} has at most {MAX_NAME_BYTES} bytes, not {len(name.encode())}")
    if not is_plain(name):
        raise ValueError(f"{what} has no control characters and no signs of direction: {name!r}")
    return name


def check_destination(dest: object) -> None:
    """Raises: TypeError: a message cannot be sent there."""
    if dest is not None and not isinstance(dest, Address):
        raise TypeError(f"a destination is an Address, or None for all members, not {type(dest).__name__}")


def provider_of(target: object) -> Address | None:
    """The member that a state is fetched from; None: the coordinator.

    Raises:
        TypeError: it is no member.
    """
    if target is None or isinstance(target, Coordinator):
        return None
    if not isinstance(target, Address):
        raise TypeError(f"a state comes from an Address, or from jg.COORDINATOR, not {type(target).__name__}")
    return target


def max_message_bytes(spec: StackSpec) -> int:
    """The largest payload that this stack carries."""
    frag = spec.config_of("FRAG")
    if frag is not None:
        return int(frag.max_message_bytes)
    return int(spec.layers[0].config.max_bundle_bytes) - HEADER_ROOM


def default_name() -> str:
    """A logical name for a member that was given none: the host and a number."""
    import random
    import socket
    return f"{socket.gethostname().partition('.')[0]}-{random.SystemRandom().randrange(10_000, 100_000)}"
