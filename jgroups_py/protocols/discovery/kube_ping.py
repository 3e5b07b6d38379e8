"""KUBE_PING: discovery by the pods that the API server of Kubernetes lists (host_list.py).

Each running pod of a namespace with the given labels is a possible member, at the port of this member, which all of
them share. The API server is asked off the loop (runtime/name_resolution/kubernetes_pods.py), past the resolver of
the system and NAMES. DNS_PING with a headless service needs no permission and no token; this protocol is for clusters
without such a service, for choosing pods by labels, and for groups that shall not mix during a rolling update.

Source: KUBE_PING.java of jgroups-kubernetes. Deviations: design/decisions/0047-pods-by-the-api-server.md.
"""
from __future__ import annotations

import re
from typing import ClassVar

import attrs

from jgroups_py.model.address import PhysicalAddress
from jgroups_py.model.batch import Batch
from jgroups_py.model.errors import ConfigError
from jgroups_py.model.events import ResolveName
from jgroups_py.model.kubernetes_pods import ACCOUNT, PodQuery
from jgroups_py.model.name_resolution import PODS, Chain, ResolverSpec
from jgroups_py.model.outputs import Resolve
from jgroups_py.model.units import choice, count, flag, host, parsed, text
from jgroups_py.protocols.discovery.base import DiscoveryConfig
from jgroups_py.protocols.discovery.host_list import MAX_PORT, HostList, HostListConfig

NAME = "pods"
"""What is resolved; the query stands in the chain."""
_NAMESPACE = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_KEY = r"([A-Za-z0-9.-]+/)?[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?"
_VALUE = r"([A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?)?"
_REQUIREMENT = re.compile(
    rf"{_KEY}|!\s*{_KEY}|{_KEY}\s*(=|==|!=)\s*{_VALUE}|{_KEY}\s+(in|notin)\s*\(\s*{_VALUE}(\s*,\s*{_VALUE})*\s*\)")


def parse_namespace(value: str) -> str:
    """A namespace; empty: that of the service account.

    Raises:
        ConfigError: Kubernetes allows no such name.
    """
    if value and _NAMESPACE.fullmatch(value) is None:
        raise ConfigError(f"namespace: {value!r} is no namespace: up to 63 small letters, digits and -, one namespace")
    return value


def parse_labels(value: str) -> str:
    """A label selector of Kubernetes.

    >>> parse_labels("app=chat, tier in (a, b)")
    'app=chat, tier in (a, b)'

    Raises:
        ConfigError: one of its parts is no requirement.
    """
    for part in re.split(r",(?![^(]*\))", value) if value.strip() else ():
        if _REQUIREMENT.fullmatch(part.strip()) is None:
            raise ConfigError(f"labels: {part.strip()!r} is no requirement on a label; write app=chat, tier!=web, "
                              '"tier in (a, b)", app or !app, with commas between them')
    return value.strip()


@attrs.frozen
class KubePingConfig(HostListConfig):
    """Properties of KUBE_PING."""

    ignored: ClassVar[dict[str, str]] = {
        **DiscoveryConfig.ignored,
        **dict.fromkeys(("connectTimeout", "readTimeout", "operationAttempts", "operationSleep"),
                        "the API server is asked on other threads, no message waits for it, and a question that failed "
                        "is asked again with the next request"),
        "apiVersion": "pods are listed by v1, the only version that has them",
        "dump_requests": "answers are not logged; jgroups doctor and the log name what fails",
    }

    namespace: str = parsed("", parse=parse_namespace, unit="text", doc="The namespace whose pods are possible "
                            "members; empty: that of this pod's service account.")
    labels: str = parsed("", parse=parse_labels, unit="text", doc='Which pods of it, as "app=chat" or "app=chat,tier '
                         'in (a, b)"; empty: all of them, those of other applications too.')
    useNotReadyAddresses: bool = flag(True, doc="false: only pods that are ready. Members that have to find each other "
                                      "before they are ready then begin a group each.")
    split_clusters_during_rolling_update: bool = flag(False, doc="Only pods of the revision of this one (labels "
                                                      "pod-template-hash, controller-revision-hash, deployment) are "
                                                      "looked for, so that old and new ones are groups of their own. "
                                                      "MERGE3 looks no further either.")
    masterProtocol: str = choice("https", allowed=("https", "http"), doc="How the API server is reached. http: without "
                                 "the token, for a proxy on this host.")
    masterHost: str = host("", doc="The API server; empty: as KUBERNETES_SERVICE_HOST says, which each pod has in its "
                           "environment.")
    masterPort: int = count(0, most=MAX_PORT, doc="Its port; 0: as KUBERNETES_SERVICE_PORT says, or the usual one of "
                            "masterProtocol where masterHost is set.")
    saTokenFile: str = text(ACCOUNT + "token", doc="The token of the service account, read for each question; the "
                            "file namespace beside it has the namespace. Empty: no token.")
    caCertFile: str = text(ACCOUNT + "ca.crt", doc="Certificates that the API server's is verified with, read for each "
                           "question; empty: those of the system.")

    def __attrs_post_init__(self) -> None:
        if not self.saTokenFile and not self.namespace:
            raise ConfigError("KUBE_PING without saTokenFile needs namespace, which is read beside the token otherwise")


class KubePing(HostList):
    """Sends the request to all pods that the API server lists."""

    Config = KubePingConfig
    config: KubePingConfig

    def start(self) -> None:
        super().start()
        self.own: PhysicalAddress | None = None
        self.chain = self.pods("")

    def pods(self, own: str) -> Chain:
        """The resolver to ask. own: the address of this pod."""
        config = self.config
        query = PodQuery(
            config.namespace, config.labels, config.masterProtocol, config.masterHost, config.masterPort,
            config.saTokenFile, config.caCertFile, not config.useNotReadyAddresses,
            own if config.split_clusters_during_rolling_update else "")
        return Chain((ResolverSpec(PODS, query.text()),), NAME)

    def unknown_names(self) -> tuple[str, ...]:
        """None: the API server is asked for a list, not for a name."""
        return ()

    def send_request(self, request: Batch) -> None:
        own = self.addresses.my_physical()
        if own is not None and own != self.own:        # it is known once the transport has bound its socket
            self.own = own
            self.chain = self.pods(own[0])
            self.listed = self.hosts([(NAME, own[1])])
        super().send_request(request)

    def look_up(self, wanted: ResolveName) -> None:
        self.emit(Resolve(self.stack.net, wanted.name, wanted.port, self.chain, wanted.parameter, wanted.again,
                          wanted.version))
