"""Group communication for Python, in the style of JGroups, with RELAY between sites that loses nothing.

    import jgroups_py as jg

    with jg.join("chat", name="A", receiver=print) as ch:
        ch.send(b"hello, all")

Read the package from the top and you follow a message down to the wire:

channel/      JChannel and AsyncChannel: what an application holds; its receiver, receipts, topics; the I/O thread
blocks/       building blocks above a channel: requests, replicated tables and partitions, placement
ops/          operators: what they see of a member, and their orders
runtime/      the loop of a channel, sockets, links, files, names                            (the real world)
simulator/    a virtual network and clock around the same nodes, faults, checkers            (the other world)
node/         one member: its local stack and, while it is the relay, the bridge stack                   (pure)
config/       stack files into a StackSpec                                                               (pure)
protocols/    the layers, one room each                                                                  (pure)
stack/        the base of layers, the stack and its routes                                               (pure)
sealing/      keys, keyrings, ciphers of sealed frames                                                   (pure)
windows/      data structures that protocols share                                                       (pure)
wire/         headers and frames, byte by byte                                                           (pure)
model/        addresses, batches, views, events, outputs, ports, errors, units                           (pure)
system/       files for this user alone, child processes, the log
archive/ pipeline/   what members recorded, as files; jobs on Spark that read them
testing/      a stack on a bench, applications on the simulator, the pytest plugin
cli/          the `jgroups` command

Two doors for authors: `jgroups_py.aio` (asyncio) and `jgroups_py.spi` (protocols of your own).

The names below are loaded when they are first used, so that the tools of the pure part need no sockets.
"""
from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from jgroups_py.model.version import __version__
from jgroups_py.system.logs import escape_records

if TYPE_CHECKING:
    from jgroups_py.channel.aio import AsyncChannel as AsyncChannel
    from jgroups_py.channel.base import ChannelState as ChannelState
    from jgroups_py.channel.message import Message as Message
    from jgroups_py.channel.message import MessageBatch as MessageBatch
    from jgroups_py.channel.message import Payload as Payload
    from jgroups_py.channel.receipt import Receipt as Receipt
    from jgroups_py.channel.receiver import Receiver as Receiver
    from jgroups_py.channel.receiver import ReceiverLike as ReceiverLike
    from jgroups_py.channel.streams import GroupEvent as GroupEvent
    from jgroups_py.channel.sync import JChannel as JChannel
    from jgroups_py.channel.sync import join as join
    from jgroups_py.channel.validation import COORDINATOR as COORDINATOR
    from jgroups_py.config.spec import StackSpec as StackSpec
    from jgroups_py.model.address import Address as Address
    from jgroups_py.model.address import ProxyUUID as ProxyUUID
    from jgroups_py.model.batch import Flag as Flag
    from jgroups_py.model.errors import ChannelClosedError as ChannelClosedError
    from jgroups_py.model.errors import ChannelError as ChannelError
    from jgroups_py.model.errors import ConfigError as ConfigError
    from jgroups_py.model.errors import JoinTimeoutError as JoinTimeoutError
    from jgroups_py.model.errors import KeyOrderError as KeyOrderError
    from jgroups_py.model.errors import MembersTimeoutError as MembersTimeoutError
    from jgroups_py.model.errors import MessageLostError as MessageLostError
    from jgroups_py.model.errors import NotConnectedError as NotConnectedError
    from jgroups_py.model.errors import ReceiptError as ReceiptError
    from jgroups_py.model.errors import ReceiptTimeoutError as ReceiptTimeoutError
    from jgroups_py.model.errors import ReceiversMissingError as ReceiversMissingError
    from jgroups_py.model.errors import RemoteFault as RemoteFault
    from jgroups_py.model.errors import SendTimeoutError as SendTimeoutError
    from jgroups_py.model.errors import SiteOrderError as SiteOrderError
    from jgroups_py.model.errors import StateTransferError as StateTransferError
    from jgroups_py.model.errors import UnknownSiteError as UnknownSiteError
    from jgroups_py.model.errors import WireError as WireError
    from jgroups_py.model.view import GlobalView as GlobalView
    from jgroups_py.model.view import MergeView as MergeView
    from jgroups_py.model.view import View as View
    from jgroups_py.model.view import ViewId as ViewId


escape_records()

_HOMES = {
    "channel.aio": ("AsyncChannel",), "channel.base": ("ChannelState",),
    "channel.message": ("Message", "MessageBatch", "Payload"),
    "channel.receipt": ("Receipt",),
    "channel.receiver": ("Receiver", "ReceiverLike"), "channel.streams": ("GroupEvent",),
    "channel.sync": ("JChannel", "join"),
    "channel.validation": ("COORDINATOR",), "config.spec": ("StackSpec",),
    "model.address": ("Address", "ProxyUUID"), "model.batch": ("Flag",),
    "model.errors": (
        "ChannelClosedError", "ChannelError", "ConfigError", "JoinTimeoutError", "KeyOrderError", "MembersTimeoutError",
        "MessageLostError", "NotConnectedError", "ReceiptError", "ReceiptTimeoutError", "ReceiversMissingError",
        "RemoteFault", "SendTimeoutError", "SiteOrderError", "StateTransferError", "UnknownSiteError", "WireError"),
    "model.view": ("GlobalView", "MergeView", "View", "ViewId"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = ["__version__", *sorted(_HOME_OF)]


def __getattr__(name: str) -> Any:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(f"{__name__}.{home}"), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME_OF})
