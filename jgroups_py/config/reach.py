"""Which members a stack can find: the reason given to a member that stays alone in its group."""
from __future__ import annotations

import ipaddress

from jgroups_py.config.spec import StackSpec


def why_alone(spec: StackSpec, unknown: tuple[str, ...] = ()) -> str:
    """What keeps a member from finding others, or from being found, and what to set.

    unknown: names of its discovery for which no address has been found.

    The first that applies: names without an address, an address on loopback, multicasts that leave no host, a list of
    hosts without another one.
    """
    ping, tcpping, dns_ping, kube_ping, file_ping = (
        spec.config_of(name) for name in ("PING", "TCPPING", "DNS_PING", "KUBE_PING", "FILE_PING"))
    if unknown:
        where = "dns_query" if dns_ping is not None else "initial_hosts"
        return (f"no address is known for {', '.join(unknown)} ({where}): check what the name server, or /etc/hosts, "
                "answers on this host, also for members that are not ready yet")
    transport = spec.layers[0].config
    bind_addr = str(getattr(transport, "bind_addr", ""))
    if is_loopback(bind_addr):
        by_multicasts = ping is not None and getattr(transport, "ip_mcast", False)
        return (f"bind_addr is {bind_addr}, so only members on this host can find it; for several hosts: "
                f"bind_addr=site_local, or an address of this host{' and ip_ttl=1' if by_multicasts else ''}")
    if tcpping is not None:
        others = [f"{host}[{port}]" for host, port in tcpping.initial_hosts if not is_loopback(host)]
        if not others:
            return ("initial_hosts has no address of another host; list where members may be: "
                    "initial_hosts=HOST[PORT],...")
        return f"none of {', '.join(others)} answered: check addresses, ports and firewalls, and the cluster's name"
    if dns_ping is not None:
        return (f"no other member answered at the addresses of {', '.join(dns_ping.dns_query)}: check what the name "
                "server answers (also for members that are not ready yet), that ports are those of the members, and "
                "the cluster's name")
    if kube_ping is not None:
        return (f"no other member answered in the pods with the labels {kube_ping.labels or '(any)'}: check what "
                "kubectl get pods -l LABELS lists, what the log says of the API server, that ports are those of the "
                "members, and the cluster's name")
    if file_ping is not None:
        return f"no other member has a file in {file_ping.location}: check that all hosts share this folder"
    if ping is not None and getattr(transport, "ip_mcast", False):
        if not transport.ip_ttl:
            return "ip_ttl is 0, so no multicast leaves this host; ip_ttl=1 reaches the hosts of one network"
        return (f"no member answered at {transport.mcast_addr}:{transport.mcast_port}: check that the network passes "
                "IP multicasts, that firewalls pass UDP, and the cluster's name; or use TCP with initial_hosts")
    return "no other member answered: check addresses, firewalls and the cluster's name"


def is_loopback(bind_addr: str) -> bool:
    """Whether a bind_addr means this host only; symbolic ones other than "loopback" do not.

    >>> [is_loopback(text) for text in ("127.0.0.1", "loopback", "site_local", "10.0.0.1", "127.0.0.1, 10.0.0.1")]
    [True, True, False, False, False]
    """
    if bind_addr.lower() in ("loopback", "localhost"):
        return True
    try:
        return ipaddress.ip_address(bind_addr).is_loopback
    except ValueError:
        return False
