"""Which pods the API server of Kubernetes is asked for, as text in a chain of resolvers (KUBE_PING, runtime). Pure."""
from __future__ import annotations

import json

import attrs

ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount/"
"""Where Kubernetes puts a pod's token, the certificates of its API server, and the namespace."""


@attrs.frozen
class PodQuery:
    """The pods of a namespace with certain labels, and how the API server is reached. Empty texts mean: scheme, host
    and port as the environment says, the namespace of the service account, any labels, no token, the system's CAs.

    like: only pods of the same revision as the one with this address; empty: of all revisions.
    """

    namespace: str = ""
    labels: str = ""
    scheme: str = "https"
    host: str = ""
    port: int = 0
    token_file: str = ACCOUNT + "token"
    ca_file: str = ACCOUNT + "ca.crt"
    ready_only: bool = False
    like: str = ""

    def text(self) -> str:
        """As the argument of a resolver.

        >>> PodQuery.parse(PodQuery("chat", "app=a").text()).labels
        'app=a'
        """
        return json.dumps(attrs.asdict(self))

    @classmethod
    def parse(cls, text: str) -> PodQuery:
        """The query that `text()` gave."""
        return cls(**json.loads(text))
