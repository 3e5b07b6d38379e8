"""Group communication for Python, in the style of JGroups, with RELAY between sites that loses nothing.

    import jgroups_py as jg

    with jg.JChannel("udp", name="A", receiver=print) as ch:
        ch.connect("chat")
        ch.send(None, b"hello, all")

Read the package from the top and you follow a message down to the wire:

channel.py aio.py                    JChannel and AsyncChannel: what an application holds
arguments.py subscriber.py           what an application gives a channel, checked; the topics that it wants
message.py receiver.py receipts.py   what is sent and received, whom to call, sends that wait until a site has it
session.py delivery.py news.py       one connection to a group; calling the receiver, in order; its log
duty.py aioduty.py                   which thread runs the loop of a channel
block.py blocks/                     where building blocks hook into a channel; the blocks
control.py watching.py reports.py    operators: what they are shown of a member, and order
runtime/ filesystem.py children.py   the loop of a channel, sockets, links, files; processes that end with their parent
node.py skipping.py                  one member: its local stack and RELAY's bridge stack; what it drops     (pure)
stack.py road.py                     a stack of layers, and the roads through it                             (pure)
protocol.py base_transport.py        the base of all layers, of all transports                               (pure)
protocols/ windows/                  the layers, one room each; data structures that rooms share             (pure)
config/ plugins.py                   stack files into a StackSpec; classes of others that they name          (pure)
events outputs ports                 how layers speak with each other and with the world; of one subject:    (pure)
    disk streams naming swim_events userevents gossip
wire codec batch address view        what is sent, and its bytes; of one subject:                            (pure)
    blockheaders recording topics
texts logs                           which names are taken from others, how they are shown and logged            (pure)
units errors counters members resolver strangers jumps the rest of the vocabulary                                (pure)
sim/                                 the other world: a virtual network and clock around the same nodes
simulation/ pytest_plugin            an application on that world, from a test
archive/ pipeline/                   what members recorded, as files; jobs on Spark that read them
cli/ __main__                        the `jgroups` command

The names below are loaded when they are first used, so that the tools of the pure part need no sockets.
"""
from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from jgroups_py.logs import escape_records

if TYPE_CHECKING:
    from jgroups_py.address import Address as Address
    from jgroups_py.address import ProxyUUID as ProxyUUID
    from jgroups_py.aio import AsyncChannel as AsyncChannel
    from jgroups_py.arguments import COORDINATOR as COORDINATOR
    from jgroups_py.batch import Flag as Flag
    from jgroups_py.channel import JChannel as JChannel
    from jgroups_py.config.spec import StackSpec as StackSpec
    from jgroups_py.errors import ChannelClosedError as ChannelClosedError
    from jgroups_py.errors import ChannelError as ChannelError
    from jgroups_py.errors import ConfigError as ConfigError
    from jgroups_py.errors import JoinTimeoutError as JoinTimeoutError
    from jgroups_py.errors import MessageLostError as MessageLostError
    from jgroups_py.errors import NotConnectedError as NotConnectedError
    from jgroups_py.errors import ReceiptError as ReceiptError
    from jgroups_py.errors import ReceiptTimeoutError as ReceiptTimeoutError
    from jgroups_py.errors import ReceiversMissingError as ReceiversMissingError
    from jgroups_py.errors import SendTimeoutError as SendTimeoutError
    from jgroups_py.errors import SiteOrderError as SiteOrderError
    from jgroups_py.errors import StateTransferError as StateTransferError
    from jgroups_py.errors import UnknownSiteError as UnknownSiteError
    from jgroups_py.errors import WireError as WireError
    from jgroups_py.message import Message as Message
    from jgroups_py.message import MessageBatch as MessageBatch
    from jgroups_py.receiver import Receiver as Receiver
    from jgroups_py.session import ChannelState as ChannelState
    from jgroups_py.view import GlobalView as GlobalView
    from jgroups_py.view import MergeView as MergeView
    from jgroups_py.view import View as View
    from jgroups_py.view import ViewId as ViewId

__version__ = "0.1.0"

escape_records()

_HOMES = {
    "address": ("Address", "ProxyUUID"), "aio": ("AsyncChannel",), "arguments": ("COORDINATOR",), "batch": ("Flag",),
    "channel": ("JChannel",), "config.spec": ("StackSpec",),
    "errors": ("ChannelClosedError", "ChannelError", "ConfigError", "JoinTimeoutError", "MessageLostError",
               "NotConnectedError", "ReceiptError", "ReceiptTimeoutError", "ReceiversMissingError", "SendTimeoutError",
               "SiteOrderError", "StateTransferError", "UnknownSiteError", "WireError"),
    "message": ("Message", "MessageBatch"), "receiver": ("Receiver",), "session": ("ChannelState",),
    "view": ("GlobalView", "MergeView", "View", "ViewId"),
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
