"""Group communication for Python, in the style of JGroups, with RELAY between sites that loses nothing.

    import jgroups_py as jg

    with jg.JChannel("udp", name="A", receiver=print) as ch:
        ch.connect("chat")
        ch.send(None, b"hello, all")

Read the package from the top and you follow a message down to the wire:

channel.py aio.py       JChannel and AsyncChannel: what an application holds
arguments.py            what an application gives a channel, checked
session.py delivery.py  one connection to a group; calling the receiver, in order
message.py receiver.py  what is sent and received, and whom to call
control.py              operators: the ledger of other sites, orders about them
receipts.py             sends that wait until a site has the message
runtime/                the loop of a channel, sockets, links, files
node.py stack.py        one member: its local stack and RELAY's bridge stack; a stack of layers       (pure)
protocol.py protocols/  the base of all layers, and the layers, one room each                        (pure)
windows/                data structures that rooms share                                             (pure)
config/                 stack files into a StackSpec                                                 (pure)
batch address view events outputs ports wire units errors counters       the vocabulary              (pure)
sim/                    the other world: a virtual network and clock around the same nodes
simulation/ pytest_plugin.py           an application on that world, from a test
blocks/ cli/            building blocks above a channel; the `jgroups` command

The names below are loaded when they are first used, so that the tools of the pure part need no sockets.
"""
from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

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

_HOMES = {
    "address": ("Address", "ProxyUUID"), "aio": ("AsyncChannel",), "arguments": ("COORDINATOR",), "batch": ("Flag",),
    "channel": ("JChannel",), "config.spec": ("StackSpec",),
    "errors": ("ChannelClosedError", "ChannelError", "ConfigError", "JoinTimeoutError", "MessageLostError",
               "NotConnectedError", "ReceiptError", "ReceiptTimeoutError", "SendTimeoutError", "SiteOrderError",
               "StateTransferError", "UnknownSiteError", "WireError"),
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
