"""Requests and answers between members: to one, several or all; the answers of one, a majority or all.

Place: above a channel, beside the application's receiver, which gets everything else as before. A service is a number;
services of one channel do not see each other. A request ends with its answer, with the handler's error, when its time
is over, or as soon as the member that was asked leaves the group (or, with RELAY, is unreachable); so nobody waits for
the dead. A multicast request is answered by the members of the view in which it is delivered: by virtual synchrony all
of them get it, so "all" and "majority" are exact, also while members come and go.

Requests to one member that are under way together form runs: numbered once, one header, one trip through the stack, and
so do their answers. Source: JGroups' MessageDispatcher. Deviations: no flag tells sync from async requests (`tell`);
answers do not queue behind the receiver's work, so a thread may wait for one inside a callback; see design/rpc.md.
"""
from jgroups_py.blocks.rpc.aio import AsyncRpc
from jgroups_py.blocks.rpc.calls import Answers, Mode
from jgroups_py.blocks.rpc.serving import LATER, Handler, Request
from jgroups_py.blocks.rpc.sync import Reply, Rpc
from jgroups_py.errors import MemberLeftError, NoMemberError, RemoteError, RequestError, RequestTimeoutError

FIRST, MAJORITY, ALL, NONE = Mode.FIRST, Mode.MAJORITY, Mode.ALL, Mode.NONE

__all__ = ["ALL", "FIRST", "LATER", "MAJORITY", "NONE", "Answers", "AsyncRpc", "Handler", "MemberLeftError", "Mode",
           "NoMemberError", "RemoteError", "Reply", "Request", "RequestError", "RequestTimeoutError", "Rpc"]
