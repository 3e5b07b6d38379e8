"""Requests and answers between members: to one, several or all; the answers of one, a majority or all.

Place: above a channel, beside the application's receiver, which gets all other messages. A service is a number;
services of one channel are independent. A request ends with its answer, with the handler's error, at its timeout, or as
soon as its destination leaves the group (or, with RELAY, is unreachable); so no thread waits for a member that has
ended. A multicast request is answered by the members of the view in which it is delivered: by virtual synchrony all of
them deliver it, so "all" and "majority" are exact, even while members join and leave.

Requests to one member that are queued together form a batch: one number, one header, one way through the stack; so do
their answers. Source: JGroups' MessageDispatcher. Deviations: one-way requests are a method (`notify`), not a flag;
answers do not queue behind the receiver's work, so a thread may wait for one inside a callback; see design/rpc.md.
"""
from jgroups_py.blocks.rpc.aio import AsyncRpc
from jgroups_py.blocks.rpc.calls import Answers, Mode
from jgroups_py.blocks.rpc.serving import LATER, Handler, Request
from jgroups_py.blocks.rpc.sync import Reply, Rpc
from jgroups_py.model.errors import MemberLeftError, NoMemberError, RemoteError, RequestError, RequestTimeoutError

FIRST, MAJORITY, ALL, NONE = Mode.FIRST, Mode.MAJORITY, Mode.ALL, Mode.NONE

__all__ = ["ALL", "FIRST", "LATER", "MAJORITY", "NONE", "Answers", "AsyncRpc", "Handler", "MemberLeftError", "Mode",
           "NoMemberError", "RemoteError", "Reply", "Request", "RequestError", "RequestTimeoutError", "Rpc"]
