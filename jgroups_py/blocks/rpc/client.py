"""The base of Rpc and AsyncRpc: checks, registers and sends requests."""
from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from jgroups_py.blocks.rpc.calls import NEVER_NS, Answers, Call, Calls, Lane, Many, Mode, One
from jgroups_py.blocks.rpc.hub import Hub, HubService
from jgroups_py.blocks.rpc.serving import Handler, Request, Server
from jgroups_py.channel.base import BaseChannel
from jgroups_py.channel.message import as_bytes
from jgroups_py.model.address import Address
from jgroups_py.model.batch import NO_RELAY, Flag
from jgroups_py.model.errors import NoMemberError
from jgroups_py.model.units import seconds
from jgroups_py.wire.block_headers import OneWayRequest

MAX_SERVICE = 0xFFFF
TIMEOUT_SECONDS = 10.0                      # for an answer, by default
NO_ANSWERS = Answers({}, {}, (), (), complete=False)


class BaseRpc:
    """Requests and answers of one service of a channel.

    handler: a function of a Request, called for every request in order with the receiver's methods; None: this service
    only sends requests. service: services with the same number (0 to 65535) communicate with each other.
    """

    def __init__(
        self, channel: BaseChannel, handler: Handler | None, service: int,
        deferred: Callable[[Request, Any], None] | None,
    ) -> None:
        if not 0 <= service <= MAX_SERVICE:
            raise ValueError(f"service {service}: a service has a number from 0 to {MAX_SERVICE}")
        if handler is not None and not callable(handler):
            raise TypeError(f"a handler is a function of a Request, not {type(handler).__name__}")
        self._channel = channel
        self._number = service
        hub = self._hub = Hub.of(channel)

        def make(draw: Callable[[int], int]) -> HubService:
            calls = Calls(service, draw)
            return HubService(channel, calls, Server(service, handler, hub.sends, deferred), self._done)
        self._service = hub.add(service, make)
        self._calls = self._service.calls

    @property
    def handler(self) -> Handler | None:
        """The function that answers requests; may be changed at any time."""
        return self._service.server.handler

    @handler.setter
    def handler(self, handler: Handler | None) -> None:
        self._service.server.handler = handler

    @property
    def stats(self) -> dict[str, int]:
        """Counters of this service: requests_timed_out, answers_too_late, handler_exceptions, ..."""
        return {**self._calls.counters, **self._service.server.counters, "waiting": len(self._calls.pending)}

    def _done(self, finished: list[Call]) -> None:
        raise NotImplementedError

    # --- sending; room: seconds to wait for room in the send queue, None: no limit ------------------------------------

    def _send_one(
        self, dest: Address, payload: Any, flags: int, timeout: float | None, waiter: Any, room: float | None,
    ) -> One:
        data = self._checked(payload)
        lane, connection = self._lane(dest), self._channel.connection()
        if lane.gone:
            raise NoMemberError(dest)
        assert lane.dest is not None, "the lane to one member has a destination"
        deadline_ns = NEVER_NS if timeout is None else connection.clock_ns() + seconds(timeout)
        call = One(lane.dest, deadline_ns, waiter)
        connection.sends.put_numbered(lane, (call,), (data,), flags, room)
        self._hub.watch(deadline_ns)
        if lane.gone:
            self._hub.check(self._service, call)
        return call

    def _send_many(
        self, dests: Iterable[Address] | None, payload: Any, flags: int, mode: Mode, timeout: float | None,
        waiter: Any, room: float | None,
    ) -> Many | None:
        """Register and send a request to several members; None: there is no destination."""
        data = self._checked(payload)
        if dests is None:
            lanes = [self._calls.all_members]
            flags |= NO_RELAY                                # members of other sites are no destinations of it
            call = Many(self._service.targets(), mode, self._deadline_ns(timeout), waiter, settled=False)
        else:
            targets = list(dict.fromkeys(dests))
            lanes = [self._lane(dest) for dest in targets]
            call = Many(targets, mode, self._deadline_ns(timeout), waiter, settled=True)
            if not targets:
                return None
        try:
            for lane in lanes:
                self._channel.connection().sends.put_numbered(lane, (call,), (data,), flags, room)
        except BaseException:
            self._calls.forget(call)
            raise
        self._hub.watch(call.deadline_ns)
        if call.over:                                        # done before it was sent to all: later numbers are stale
            self._calls.forget(call)
        elif any(lane.gone for lane in lanes):
            self._hub.check(self._service, call)
        return call

    def _notify(self, dest: Address | None, payload: Any, flags: int, room: float | None) -> None:
        data = self._checked(payload)
        headers = (OneWayRequest(self._number),)
        self._channel.connection().sends.put(dest, data, Flag.bits(flags), headers, room)

    def _checked(self, payload: Any) -> bytes:
        data = as_bytes(payload)
        if len(data) > self._channel.max_message_bytes:
            self._channel.check_size(len(data))              # raises
        return data

    def _lane(self, dest: Address) -> Lane:
        if not isinstance(dest, Address):
            raise TypeError(f"a destination is an Address, not {type(dest).__name__}")
        return self._calls.lane(dest)

    def _deadline_ns(self, timeout: float | None) -> int:
        """When a request ends that is sent now, by the clock of the connection."""
        return NEVER_NS if timeout is None else self._channel.connection().clock_ns() + seconds(timeout)
