"""Where the pods of a query are, by the API server of Kubernetes: http.client and ssl, on a thread of the resolvers.

Nothing is kept between two questions: tokens and certificates are exchanged while pods run, so each question reads them
from their files. What the server says is bounded in bytes, in pods and in time, and a redirect is not followed, since
the token is for this server alone. What fails gives no addresses; it is logged with what to do, each kind once in ten
minutes.

Pods that are ending stand last: one of them may be the only member that has the state, until it has left.
"""
from __future__ import annotations

import http.client
import json
import logging
import os
import re
import socket
import ssl
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from ipaddress import ip_address
from itertools import islice
from time import monotonic
from typing import Any
from urllib.parse import quote, urlencode

import attrs

from jgroups_py.model.address import PhysicalAddress
from jgroups_py.model.kubernetes_pods import PodQuery
from jgroups_py.model.name_resolution import MAX_ADDRESSES, NameResolver, is_address
from jgroups_py.model.text import place as place_text

log = logging.getLogger("jgroups_py")

TIMEOUT_S = 5.0                             # to connect, and of each read
ALL_S = 10.0                                # for all pages of one question
PAGE_PODS = 64
MAX_PAGES = 8                               # 512 pods, twice as many as addresses are used
MAX_PAGE_BYTES = 4 << 20                    # some 60 KB of a pod; 5 to 20 KB are usual
MAX_FILE_BYTES = 64 << 10                   # of a token
CHUNK_BYTES = 64 << 10
MOST_ADDRESSES = 4                          # of one pod: Kubernetes gives it one of each IP version
SILENCE_S = 600.0                           # between two log entries of one kind
REVISIONS = ("pod-template-hash", "controller-revision-hash", "deployment")
"""Labels that tell the pods of one revision of a Deployment, a StatefulSet and a DeploymentConfig from older ones."""
PORTS = {"https": 443, "http": 80}
_TOKEN = re.compile(r"[!-~]+")
_NAMESPACE = re.compile(r"[a-z0-9-]{1,63}")
TO_DO = {
    401: "the token is not accepted: check saTokenFile, and that the pod has a service account that is mounted",
    403: "the service account may not list pods: bind a Role that allows list of pods in this namespace to it "
         "(RBAC; deploy/kubernetes/kube-ping has one), or use DNS_PING, which needs none",
    404: "there is no such list: check masterHost, masterPort and namespace",
    410: "the list changed too much while it was read; it is read again",
}


class NoPodsError(Exception):
    """The API server cannot be asked, or did not answer with pods. kind: what is logged once."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(text)
        self.kind = kind


@attrs.frozen
class Pod:
    """What matters of a pod: its addresses, whether it is ready or ending, and its revision ("": unknown)."""

    addresses: tuple[str, ...]
    ready: bool
    ending: bool
    revision: str


class KubernetesPods(NameResolver):
    """argument: a PodQuery as text."""

    def __init__(self, argument: str) -> None:
        self._query = PodQuery.parse(argument)
        self._logged: dict[str, float] = {}     # kind of problem -> when it was last logged; few kinds

    def resolve(self, host: str, parameter: str, again: bool) -> str | None:
        return next((address for address, _ in self.places(host, 1, parameter, again, 4)), None)

    def places(self, name: str, port: int, parameter: str, again: bool, version: int) -> Sequence[PhysicalAddress]:
        try:
            pods = self._chosen(self._list())
        except NoPodsError as problem:
            self._log(problem.kind, f"KUBE_PING: {problem}")
            return []
        found = [(address, port) for pod in sorted(pods, key=lambda pod: pod.ending)
                 for address in of_version(pod.addresses, version)]
        return list(dict.fromkeys(found))[:MAX_ADDRESSES]

    def _chosen(self, pods: list[Pod]) -> list[Pod]:
        """Those of the revision of this pod, and ready ones, if the query says so."""
        query = self._query
        if query.like:
            like = str(ip_address(query.like)) if is_address(query.like) else ""
            own = next((pod.revision for pod in pods if like in pod.addresses), "")
            if own:
                pods = [pod for pod in pods if pod.revision == own]
            else:
                self._log("revision", f"KUBE_PING: split_clusters_during_rolling_update: no pod in the list has the "
                          f"address {query.like} and one of the labels {', '.join(REVISIONS)}, so pods of all "
                          "revisions are looked for; bind_addr has to be the pod's address, and labels have to fit "
                          "this pod")
        return [pod for pod in pods if pod.ready] if query.ready_only else pods

    # --- the API server -----------------------------------------------------------------------------------------------

    def _list(self) -> list[Pod]:
        query, until = self._query, monotonic() + ALL_S
        host, port = api_server(query)
        token = read_token(query.token_file) if query.token_file and query.scheme == "https" else ""
        namespace = query.namespace or read_namespace(query.token_file)
        asked = {"limit": str(PAGE_PODS), "fieldSelector": "status.phase=Running"}
        if query.labels:
            asked["labelSelector"] = query.labels
        headers = {"Accept": "application/json", "User-Agent": "jgroups_py",
                   **({"Authorization": f"Bearer {token}"} if token else {})}
        pods: list[Pod] = []
        with connected(query, host, port, until) as connection:
            for _ in range(MAX_PAGES):
                path = f"/api/v1/namespaces/{quote(namespace, safe='')}/pods?{urlencode(asked)}"
                page = ask(connection, path, headers, f"{query.scheme}://{place_text(host, port)}", until)
                pods += pods_of(page)
                following = table(page.get("metadata")).get("continue")
                if not isinstance(following, str) or not following:
                    return pods
                asked["continue"] = following
        self._log("many", f"KUBE_PING: there are more than {PAGE_PODS * MAX_PAGES} pods; the first of them are asked: "
                  "set labels that fit the members alone")
        return pods

    def _log(self, kind: str, text: str) -> None:
        now = monotonic()
        if now - self._logged.get(kind, -SILENCE_S) >= SILENCE_S:
            self._logged[kind] = now
            log.warning("%s", text)


def api_server(query: PodQuery) -> tuple[str, int]:
    """Where it is. The environment counts where the configuration is silent: Kubernetes sets it in each container."""
    host = query.host or os.environ.get("KUBERNETES_SERVICE_HOST", "")
    if not host:
        raise NoPodsError("host", "KUBERNETES_SERVICE_HOST is not set, as it is in each pod; outside of one set "
                          "masterHost")
    text = "" if query.host else os.environ.get("KUBERNETES_SERVICE_PORT", "")
    if query.port or not text:
        return host, query.port or PORTS[query.scheme]
    if not text.isdecimal() or not 0 < int(text[:6]) < 1 << 16:
        raise NoPodsError("port", f"KUBERNETES_SERVICE_PORT is {text[:20]!r}, which is no port; set masterPort")
    return host, int(text)


def read_small(path: str, what: str) -> str:
    """The text of a file of the service account."""
    try:
        with open(path, encoding="ascii") as file:
            return file.read(MAX_FILE_BYTES).strip()
    except OSError as error:
        raise NoPodsError(what, f"{path} cannot be read ({error.strerror}): set {what}, or let the pod mount its "
                          "service account (automountServiceAccountToken)") from None
    except ValueError:
        raise NoPodsError(what, f"{path} is no text of ASCII; check {what}") from None


def read_token(path: str) -> str:
    """The token. Its text stands in no error: what is no token may be a part of one."""
    token = read_small(path, "saTokenFile")
    if _TOKEN.fullmatch(token) is None:
        raise NoPodsError("saTokenFile", f"{path} has no token: one line without blanks; check saTokenFile")
    return token


def read_namespace(token_file: str) -> str:
    """The namespace of the service account."""
    path = os.path.join(os.path.dirname(token_file), "namespace")
    namespace = read_small(path, "namespace")
    if _NAMESPACE.fullmatch(namespace) is None:
        raise NoPodsError("namespace", f"{path} has no namespace; set namespace")
    return namespace


@contextmanager
def connected(query: PodQuery, host: str, port: int, until: float) -> Iterator[http.client.HTTPConnection]:
    """A connection that ends at `until`: a timeout of each read alone would let a server that sends a byte at a time
    hold the thread for hours."""
    at = f"{query.scheme}://{place_text(host, port)}"
    connection = watch = None
    try:
        connection = connection_to(query, host, port)
        connection.connect()                # its parts end by TIMEOUT_S: connecting, and the handshake
        watch = threading.Timer(max(0.0, until - monotonic()), shut, (connection.sock,))
        watch.daemon = True
        watch.start()
        yield connection
    except ssl.SSLCertVerificationError as error:
        raise NoPodsError("certificate", f"the certificate of {at} is not accepted ({error.verify_message}): check "
                          "caCertFile and masterHost") from None
    except (OSError, UnicodeError, http.client.HTTPException) as error:
        what = getattr(error, "strerror", None) or type(error).__name__
        if monotonic() >= until:
            what = f"not within {ALL_S:g} s"
        raise NoPodsError("connection", f"{at} does not answer ({what}): check masterHost, masterPort, network "
                          "policies and the API server") from None
    finally:
        if watch is not None:
            watch.cancel()
        if connection is not None:
            connection.close()


def connection_to(query: PodQuery, host: str, port: int) -> http.client.HTTPConnection:
    """Not connected yet."""
    if query.scheme == "http":
        return http.client.HTTPConnection(host, port, timeout=TIMEOUT_S)
    try:
        context = ssl.create_default_context(cafile=query.ca_file or None)
    except (OSError, ValueError):
        raise NoPodsError("caCertFile", f"{query.ca_file} has no certificates that can be read: set caCertFile, or let "
                          "the pod mount its service account (automountServiceAccountToken)") from None
    return http.client.HTTPSConnection(host, port, timeout=TIMEOUT_S, context=context)


def shut(sock: socket.socket) -> None:
    """End a connection that another thread reads from; that one sees its end."""
    with suppress(OSError):
        socket.socket.shutdown(sock, socket.SHUT_RDWR)   # past ssl, whose state belongs to the reading thread


def ask(
    connection: http.client.HTTPConnection, path: str, headers: dict[str, str], at: str, until: float,
) -> dict[str, Any]:
    """One page of the list."""
    connection.request("GET", path, headers=headers)
    response = connection.getresponse()
    status = response.status
    if status != 200:
        to_do = TO_DO.get(status)
        if to_do is None and 300 <= status < 400:
            to_do = "a redirect, which is not followed with a token: set masterHost and masterPort to the API server"
        raise NoPodsError(f"status {status}", f"{at} answers {status}: "
                          f"{to_do or 'an error of the API server; it is asked again'}")
    found = bytearray()
    while chunk := response.read1(CHUNK_BYTES):
        found += chunk
        if len(found) > MAX_PAGE_BYTES:
            raise NoPodsError("size", f"{at} answers with more than {MAX_PAGE_BYTES >> 20} MB for {PAGE_PODS} pods, "
                              "which is not used: set labels that fit the members alone, and check masterHost")
    if monotonic() >= until:
        raise TimeoutError                  # the connection was ended, which looks like the end of the answer
    if response.length:
        raise http.client.IncompleteRead(b"", response.length)
    response.close()                        # read1 leaves it open at its end, and the next page could not be asked for
    try:
        page = json.loads(found)
    except (ValueError, RecursionError):
        page = None
    if not isinstance(page, dict) or not isinstance(page.get("items"), list):
        raise NoPodsError("answer", f"{at} answers with something else than a list of pods: check masterHost and "
                          "masterPort")
    return page


# --- what a page says -------------------------------------------------------------------------------------------------

def pods_of(page: dict[str, Any]) -> list[Pod]:
    """The running pods with an address; what is no pod is left out."""
    found = []
    for item in islice(page["items"], PAGE_PODS):
        pod, status = table(item), table(table(item).get("status"))
        metadata = table(pod.get("metadata"))
        several = status.get("podIPs")
        more = several[:MOST_ADDRESSES] if isinstance(several, list) else []
        addresses = tuple(dict.fromkeys(
            str(ip_address(each)) for each in (status.get("podIP"), *(table(each).get("ip") for each in more))
            if isinstance(each, str) and is_address(each) and "%" not in each))
        if addresses and status.get("phase", "Running") == "Running":
            found.append(Pod(addresses, is_ready(status), "deletionTimestamp" in metadata, revision_of(metadata)))
    return found


def is_ready(status: dict[str, Any]) -> bool:
    """Whether a pod's condition Ready is true."""
    conditions = status.get("conditions")
    return isinstance(conditions, list) and any(
        table(each).get("type") == "Ready" and table(each).get("status") == "True" for each in conditions)


def revision_of(metadata: dict[str, Any]) -> str:
    """The first label that names one."""
    labels = table(metadata.get("labels"))
    return next((f"{name}={labels[name]}"[:200] for name in REVISIONS if isinstance(labels.get(name), str)), "")


def of_version(addresses: tuple[str, ...], version: int) -> tuple[str, ...]:
    """Those of one IP version; all, if there are none."""
    return tuple(each for each in addresses if (":" in each) == (version == 6)) or addresses


def table(value: Any) -> dict[str, Any]:
    """A value of JSON, if it is an object; else an empty one."""
    return value if isinstance(value, dict) else {}
