"""The REST API of a broker: a request in, an answer out. runtime/http/server.py has the sockets.

The paths, bodies and errors of `/v1/federation/{members,join,leave,force_leave}` are those of gmqttd v0.5.0, byte for
byte (tests/gmqtt/test_rest.py compares both). Clients, subscriptions and publishing are those of its plugin "admin", as
far as this broker has the figures. Errors are {"error", "code", "message", "details"}, with the codes of gRPC.

    GET    /v1/federation/members             GET    /v1/clients?page=&page_size=      GET    /v1/clients/ID
    POST   /v1/federation/join {"hosts"}      DELETE /v1/clients/ID                    GET    /v1/subscriptions
    POST   /v1/federation/leave               GET    /v1/retained?filter=              POST   /v1/publish
    POST   /v1/federation/force_leave         GET    /v1/federation/peers              GET    /v1/health
    GET    /v1/federation/interest?topic=     GET    /metrics                          GET    /v1/explain?topic=
    GET    /v1/sites?topic=                   GET    /v1/federation/sessions/ID
"""
from __future__ import annotations

import base64
import itertools
import json
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol
from urllib.parse import parse_qs, unquote

from jgroups_py.blocks.mqtt.broker.broker import Broker
from jgroups_py.blocks.mqtt.broker.session import ClientSession
from jgroups_py.blocks.mqtt.broker.subscription_tree import filter_matches, split_shared
from jgroups_py.blocks.mqtt.codec.packets import MAX_TEXT_BYTES, Properties
from jgroups_py.blocks.mqtt.codec.text import topic_filter_fault, topic_name_fault
from jgroups_py.blocks.mqtt.server.explain import explain
from jgroups_py.model.address import PhysicalAddress
from jgroups_py.model.counters import Counters
from jgroups_py.runtime.http.messages import METRICS, HttpAnswer, HttpRequest, plain_answer

GOSSIP_PORT = 8902
PAGE, MAX_PAGE = 20, 1_000
MAX_PARAMETERS = 20
MAX_RETAINED_SHOWN = 1_000
INVALID_ARGUMENT, UNKNOWN, NOT_FOUND, UNAVAILABLE = 3, 2, 5, 14
STATUS_OF = {INVALID_ARGUMENT: 400, UNKNOWN: 500, NOT_FOUND: 404, UNAVAILABLE: 503}
GO_NAMES = {str: "string", bool: "bool", int: "number", float: "number", list: "array", dict: "object"}
MAP = "map[string]json.RawMessage"


class JoinFailed(Exception):
    """No node at the given addresses could be reached; the text is that of Serf. reasons: one for each address."""

    def __init__(self, text: str, reasons: Sequence[str] = ()) -> None:
        super().__init__(text)
        self.reasons = tuple(reasons)


class FederationAdmin(Protocol):
    """A federation, as the API needs it."""

    async def members(self) -> list[dict[str, Any]]:
        """name, addr, tags, status (STATUS_ALIVE, ...) of each."""
        ...

    async def join(self, places: Sequence[PhysicalAddress]) -> None:
        """Join by these gossip addresses. Raises JoinFailed."""
        ...

    async def leave(self) -> None:
        """Leave for good."""
        ...

    def force_leave(self, name: str) -> None:
        """A member that failed counts as left."""
        ...

    def report(self) -> list[dict[str, Any]]:
        """Each peer."""
        ...

    def interest_in(self, topic: str) -> Mapping[str, Sequence[str]]:
        """Peer -> its filters that match."""
        ...

    def sites_for(self, topic: str) -> dict[str, Any]:
        """Whether a topic leaves this site, and what each other site does with it; {}: there are no sites."""
        ...

    def where(self, client_id: str) -> dict[str, Any] | None:
        """The node that has the session of a client id, and the nodes with copies; None: not known."""
        ...

    async def sites(self, topic: str) -> dict[str, Any]:
        """The own site and its relay; each other site: status, interest (and whether in `topic`, unless that is empty),
        RELAY's ledger."""
        ...

    @property
    def counters(self) -> Counters:
        """Counters of the federation."""
        ...


class RestFault(Exception):
    """A request that is answered with an error."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


def json_bytes(value: object) -> bytes:
    """JSON as Go writes it: compact, and <, >, & escaped."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text.encode("utf-8", "replace")


def error_answer(code: int, message: str) -> HttpAnswer:
    """An error in the words of gmqtt's gateway."""
    return HttpAnswer(STATUS_OF[code], json_bytes({"error": message, "code": code, "message": message, "details": []}))


OK = HttpAnswer(200, b"{}")
Handler = Callable[[Mapping[str, str], bytes, str], Awaitable[HttpAnswer]]


class RestApi:
    """See the module. settle: carries out the broker's outputs; clock: monotonic ns; wall: seconds since 1970."""

    def __init__(
        self, broker: Broker, settle: Callable[[], None], federation: FederationAdmin | None,
        clock: Callable[[], int], wall: Callable[[], float], more_counters: Mapping[str, Counters] | None = None,
    ) -> None:
        self._broker = broker
        self._settle = settle
        self._federation = federation
        self._clock = clock
        self._wall = wall
        self._more_counters = dict(more_counters or {})
        self._routes: dict[str, dict[str, Handler]] = {
            "/v1/clients": {"GET": self._clients}, "/v1/subscriptions": {"GET": self._subscriptions},
            "/v1/retained": {"GET": self._retained}, "/v1/publish": {"POST": self._publish},
            "/v1/explain": {"GET": self._explain}, "/v1/health": {"GET": self._health},
            "/metrics": {"GET": self._metrics},
        }
        if federation is not None:
            self._routes |= {
                "/v1/federation/members": {"GET": self._members}, "/v1/federation/join": {"POST": self._join},
                "/v1/federation/leave": {"POST": self._leave}, "/v1/federation/peers": {"GET": self._peers},
                "/v1/federation/force_leave": {"POST": self._force_leave},
                "/v1/federation/interest": {"GET": self._interest}, "/v1/sites": {"GET": self._sites},
            }
        self._below: dict[str, dict[str, Handler]] = {"/v1/clients/": {"GET": self._client, "DELETE": self._kick}}
        if federation is not None:
            self._below["/v1/federation/sessions/"] = {"GET": self._where}

    async def answer(self, request: HttpRequest) -> HttpAnswer:
        """Answer a request that came over HTTP."""
        return await self.handle(request.method, request.target, request.body)

    async def handle(self, method: str, target: str, body: bytes) -> HttpAnswer:
        """Answer a request."""
        path, _, text = target.partition("?")
        found, rest = self._routes.get(path), ""
        if found is None:
            for prefix, methods in self._below.items():
                if path.startswith(prefix) and len(path) > len(prefix):
                    found, rest = methods, unquote(path.removeprefix(prefix))
        if found is None:
            return plain_answer(404, "Not Found")
        if method not in found:
            return plain_answer(405, "Method Not Allowed")
        query = {name: values[-1] for name, values in parse_qs(text).items()} \
            if text.count("&") < MAX_PARAMETERS else {}
        try:
            return await found[method](query, body, rest)
        except RestFault as fault:
            return error_answer(fault.code, str(fault))

    # --- the federation -----------------------------------------------------------------------------------------------

    @property
    def federation(self) -> FederationAdmin:
        """The federation; routes that need it exist only if there is one."""
        assert self._federation is not None
        return self._federation

    async def _members(self, query: Mapping[str, str], body: bytes, rest: str) -> HttpAnswer:
        members = [{**member, "tags": dict(sorted(member["tags"].items()))} for member in
                   await self.federation.members()]
        return HttpAnswer(200, json_bytes({"members": members}))

    async def _join(self, query: Mapping[str, str], body: bytes, rest: str) -> HttpAnswer:
        hosts = _value(_object(body), "hosts", list) or []
        for host in hosts:
            if not isinstance(host, str):
                raise _mismatch(host, "string")
        try:
            await self.federation.join([gossip_place(host) for host in hosts])
        except JoinFailed as failed:
            raise RestFault(UNKNOWN, str(failed)) from None
        return OK

    async def _leave(self, query: Mapping[str, str], body: bytes, rest: str) -> HttpAnswer:
        _object(body)
        await self.federation.leave()
        return OK

    async def _force_leave(self, query: Mapping[str, str], body: bytes, rest: str) -> HttpAnswer:
        request = _object(body)
        name = _value(request, "node_name", str) or _value(request, "nodeName", str)
        if not name:
            raise RestFault(UNKNOWN, "host can not be empty")
        self.federation.force_leave(name)
        return OK

    async def _peers(self, query: Mapping[str, str], body: bytes, rest: str) -> HttpAnswer:
        return HttpAnswer(200, json_bytes({"peers": self.federation.report()}))

    async def _sites(self, query: Mapping[str, str], body: bytes, rest: str) -> HttpAnswer:
        topic = _topic(query) if "topic" in query else ""
        return HttpAnswer(200, json_bytes(await self.federation.sites(topic)))

    async def _interest(self, query: Mapping[str, str], body: bytes, rest: str) -> HttpAnswer:
        topic = _topic(query)
        matches = self._broker.router.tree.match(topic)
        here = [{"client_id": session.client_id, "filters": [
            filter for filter in session.subscriptions if not split_shared(filter)[0]
            and filter_matches(filter, topic)]} for session, _ in matches.plain[:MAX_PAGE]]
        groups = [{"filter": f"$share/{match.group}/{match.filter}", "members": len(match.members)}
                  for match in matches.shared[:MAX_PAGE]]
        peers = [{"name": name, "filters": list(filters)} for name, filters in
                 self.federation.interest_in(topic).items()]
        return HttpAnswer(200, json_bytes({"topic": topic, "clients": here, "groups": groups, "peers": peers,
                                           **self.federation.sites_for(topic)}))

    async def _where(self, query: Mapping[str, str], body: bytes, rest: str) -> HttpAnswer:
        federation = self._federation
        found = None if federation is None else federation.where(rest)
        if found is None:
            raise RestFault(NOT_FOUND, "not found")
        return HttpAnswer(200, json_bytes({"session": found}))

    async def _explain(self, query: Mapping[str, str], body: bytes, rest: str) -> HttpAnswer:
        topic, federation = _topic(query), self._federation
        interest = {} if federation is None else federation.interest_in(topic)
        peers = [] if federation is None else federation.report()
        sites = {} if federation is None else federation.sites_for(topic)
        return HttpAnswer(200, json_bytes({**explain(self._broker, topic, interest, peers, self._clock()), **sites}))

    # --- this broker --------------------------------------------------------------------------------------------------

    async def _clients(self, query: Mapping[str, str], body: bytes, rest: str) -> HttpAnswer:
        sessions = self._broker.sessions
        shown = [self._client_facts(session) for session in _page(sessions.values(), query)]
        return HttpAnswer(200, json_bytes({"clients": shown, "total_count": len(sessions)}))

    async def _client(self, query: Mapping[str, str], body: bytes, rest: str) -> HttpAnswer:
        return HttpAnswer(200, json_bytes({"client": self._client_facts(self._session(rest))}))

    async def _kick(self, query: Mapping[str, str], body: bytes, rest: str) -> HttpAnswer:
        self._session(rest)
        self._broker.kick(rest, self._clock())
        self._settle()
        return OK

    def _session(self, client_id: str) -> ClientSession:
        session = self._broker.sessions.get(client_id)
        if session is None:
            raise RestFault(NOT_FOUND, "not found")
        return session

    def _client_facts(self, session: ClientSession) -> dict[str, Any]:
        connection = session.connection
        since = None
        if connection is not None:
            since = round(self._wall() - (self._clock() - connection.connected_ns) / 1e9, 3)
        return {
            "client_id": session.client_id, "username": session.username or "",
            "keep_alive": 0 if connection is None else round(connection.keep_alive_ns / 1.5e9),
            "version": 0 if connection is None else int(connection.version),
            "remote_addr": "" if connection is None else connection.peer, "connected": connection is not None,
            "connected_at": since, "session_expiry": session.expiry_s, "inflight_len": len(session.in_flight),
            "queue_len": len(session.queue), "queue_bytes": session.queue_bytes,
            "subscriptions_current": len(session.subscriptions)}

    async def _subscriptions(self, query: Mapping[str, str], body: bytes, rest: str) -> HttpAnswer:
        shown = [{
            "topic_name": filter, "id": granted.identifiers[0] if granted.identifiers else 0, "qos": granted.qos,
            "no_local": granted.no_local, "retain_as_published": granted.retain_as_published, "client_id": client_id,
        } for client_id, filter, granted in _page(self._broker.subscriptions(), query)]
        total = sum(len(session.subscriptions) for session in self._broker.sessions.values())
        return HttpAnswer(200, json_bytes({"subscriptions": shown, "total_count": total}))

    async def _retained(self, query: Mapping[str, str], body: bytes, rest: str) -> HttpAnswer:
        filter = query.get("filter", "#")
        fault = topic_filter_fault(filter)
        if fault or split_shared(filter)[0]:
            raise RestFault(INVALID_ARGUMENT, f"invalid filter: {fault or 'a shared one matches no retained messages'}")
        store, now_ns = self._broker.router.retained, self._clock()
        shown = [{
            "topic_name": kept.topic, "payload_base64": base64.b64encode(kept.payload).decode(), "qos": kept.qos,
            "expires_in": kept.seconds_left(now_ns),
        } for kept in itertools.islice(store.matching(filter, now_ns), MAX_RETAINED_SHOWN)]
        return HttpAnswer(200, json_bytes({"retained": shown, "total_count": len(store)}))

    async def _publish(self, query: Mapping[str, str], body: bytes, rest: str) -> HttpAnswer:
        request = _object(body)
        topic = _value(request, "topic_name", str) or ""
        if topic_name_fault(topic) or _is_long(topic):
            raise RestFault(INVALID_ARGUMENT, "invalid topic_name")
        qos = _number(request, "qos", 2)
        properties = _properties(request)
        self._broker.publish(topic, (_value(request, "payload", str) or "").encode("utf-8", "surrogatepass"), qos,
                             bool(_value(request, "retained", bool)), self._clock(), properties)
        self._settle()
        return OK

    async def _health(self, query: Mapping[str, str], body: bytes, rest: str) -> HttpAnswer:
        return HttpAnswer(200, json_bytes({"status": "ok", "node_name": self._broker.options.node_name}))

    async def _metrics(self, query: Mapping[str, str], body: bytes, rest: str) -> HttpAnswer:
        return HttpAnswer(200, "".join(self._metric_lines()).encode(), METRICS)

    def _metric_lines(self) -> Iterator[str]:
        broker = self._broker
        groups = {"broker": broker.counters, **self._more_counters}
        if self._federation is not None:
            groups["federation"] = self._federation.counters
        for group, counters in groups.items():
            for name, declared in counters.declared.items():
                yield f"# HELP jgroups_mqtt_{group}_{name}_total {declared.doc}\n"
                yield f"# TYPE jgroups_mqtt_{group}_{name}_total counter\n"
                yield f"jgroups_mqtt_{group}_{name}_total {counters.get(name, 0)}\n"
        for name, value in (
                ("connections", len(broker.connections)), ("sessions", len(broker.sessions)),
                ("subscriptions", sum(len(session.subscriptions) for session in broker.sessions.values())),
                ("retained", len(broker.router.retained)),
                ("queued", sum(len(session.queue) for session in broker.sessions.values()))):
            yield f"# TYPE jgroups_mqtt_{name} gauge\njgroups_mqtt_{name} {value}\n"
        peers = [] if self._federation is None else self._federation.report()
        for name in ("queued", "queued_bytes", "unacknowledged"):
            yield f"# TYPE jgroups_mqtt_peer_{name} gauge\n"
            for peer in peers:
                label = str(peer["name"]).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
                yield f'jgroups_mqtt_peer_{name}{{peer="{label}"}} {peer.get(name, 0)}\n'


# --- reading requests, with the errors of Go's library ----------------------------------------------------------------

def _object(body: bytes) -> dict[str, Any]:
    """The first JSON value of a body; an empty body is an empty object, as is null."""
    text = body.decode("utf-8", "replace").lstrip(" \t\r\n")
    if not text:
        return {}
    try:
        found, _ = json.JSONDecoder(parse_constant=_no_constant).raw_decode(text)
    except json.JSONDecodeError as error:
        raise RestFault(INVALID_ARGUMENT, _json_fault(text, error.pos)) from None
    except RecursionError:
        raise RestFault(INVALID_ARGUMENT, "exceeded max depth") from None
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise _mismatch(found, MAP)
    return found


def _no_constant(name: str) -> Any:
    raise RestFault(INVALID_ARGUMENT, f"invalid character '{name.lstrip('-')[0]}' looking for beginning of value")


def _json_fault(text: str, at: int) -> str:
    if at >= len(text):
        return "unexpected EOF"
    return f"invalid character '{text[at]}' looking for beginning of value"


def _mismatch(value: object, wanted: str) -> RestFault:
    name = GO_NAMES.get(type(value), "null")
    return RestFault(INVALID_ARGUMENT, f"json: cannot unmarshal {name} into Go value of type {wanted}")


def _value(request: Mapping[str, Any], name: str, kind: type) -> Any:
    """A field of this type; None if it is absent or null."""
    value = request.get(name)
    if value is None:
        return None
    if type(value) is not kind:
        raise _mismatch(value, "[]json.RawMessage" if kind is list else GO_NAMES[kind])
    return value


def _number(request: Mapping[str, Any], name: str, most: int) -> int:
    value = _value(request, name, int) or 0
    if not 0 <= value <= most:
        raise RestFault(INVALID_ARGUMENT, f"invalid {name}")
    return int(value)


def _text(request: Mapping[str, Any], name: str) -> str | None:
    text = _value(request, name, str)
    if text and ("\0" in text or _is_long(text)):
        raise RestFault(INVALID_ARGUMENT, f"invalid {name}")
    return text or None


def _is_long(text: str) -> bool:
    return len(text.encode("utf-8", "surrogatepass")) > MAX_TEXT_BYTES or any(
        "\ud800" <= character <= "\udfff" for character in text)


def _properties(request: Mapping[str, Any]) -> Properties:
    """Of a message to be published, as gmqtt's plugin "admin" names them."""
    response_topic = _text(request, "response_topic")
    if response_topic and topic_name_fault(response_topic):
        raise RestFault(INVALID_ARGUMENT, "invalid response_topic")
    correlation = _text(request, "correlation_data")
    user = []
    for pair in _value(request, "user_properties", list) or []:
        if not isinstance(pair, dict):
            raise _mismatch(pair, MAP)
        user.append((_user_text(pair, "K"), _user_text(pair, "V")))
    return Properties(
        content_type=_text(request, "content_type"), response_topic=response_topic,
        correlation_data=None if correlation is None else correlation.encode(),
        message_expiry_interval=_number(request, "message_expiry", (1 << 32) - 1) or None,
        payload_format_indicator=_number(request, "payload_format", 1) or None, user_properties=tuple(user))


def _user_text(pair: Mapping[str, Any], name: str) -> str:
    """Bytes of protobuf are base64 in JSON."""
    try:
        text = base64.b64decode(_value(pair, name, str) or "", validate=True).decode()
    except ValueError:
        raise RestFault(INVALID_ARGUMENT, "invalid user_properties") from None
    if "\0" in text or _is_long(text):
        raise RestFault(INVALID_ARGUMENT, "invalid user_properties")
    return text


def _topic(query: Mapping[str, str]) -> str:
    """The topic of a query."""
    topic = query.get("topic", "")
    fault = topic_name_fault(topic)
    if fault:
        raise RestFault(INVALID_ARGUMENT, f"invalid topic: {fault}")
    return topic


def _page(items: Iterable[Any], query: Mapping[str, str]) -> Iterator[Any]:
    """page and page_size of a query; from 1 on, and 20, as in gmqtt."""
    numbers = []
    for name, default in (("page", 1), ("page_size", PAGE)):
        text = query.get(name, "0")
        if not (text.isascii() and text.isdigit() and len(text) < 10):
            raise RestFault(INVALID_ARGUMENT, f"type mismatch, parameter: {name}, error: "
                            f"strconv.ParseUint: parsing {json.dumps(text)}: invalid syntax")
        numbers.append(int(text) or default)
    page, size = numbers[0], min(numbers[1], MAX_PAGE)
    return itertools.islice(items, (page - 1) * size, page * size)


def gossip_place(host: str) -> PhysicalAddress:
    """Host and port of a member to join, as gmqtt reads them: HOST, HOST:PORT, [HOST]:PORT. Raises RestFault.

    >>> gossip_place("node1"), gossip_place("127.0.0.1:8912"), gossip_place("[::1]:1")
    (('node1', 8902), ('127.0.0.1', 8912), ('::1', 1))
    """
    if not host:
        raise RestFault(INVALID_ARGUMENT, "missing hosts")
    if host.endswith(":"):
        raise RestFault(INVALID_ARGUMENT, "invalid hosts")
    if host.startswith("["):
        inside, bracket, port = host[1:].partition("]")
        if not bracket:
            raise RestFault(INVALID_ARGUMENT, f"invalid hosts: address {host}: missing ']' in address")
        port = port.removeprefix(":")
    else:
        if host.count(":") > 1:
            raise RestFault(INVALID_ARGUMENT, f"invalid hosts: address {host}: too many colons in address")
        inside, _, port = host.partition(":")
    if port and not (port.isascii() and port.isdigit() and 0 < int(port[:6]) < 1 << 16):
        raise RestFault(INVALID_ARGUMENT, f"invalid port number: {port}")
    return inside, int(port or GOSSIP_PORT)
