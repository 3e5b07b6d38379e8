"""The contents of the stock udp.xml and tcp.xml of JGroups 5: protocols, lowest first, and properties.

5.0 and 5.4 are whole files; 5.5 includes its transport from a second file.
"""
from __future__ import annotations

from pathlib import Path
from xml.sax.saxutils import quoteattr

Protocols = list[tuple[str, dict[str, str]]]

POOL = {"thread_pool.min_threads": "0", "thread_pool.max_threads": "200", "thread_pool.keep_alive_time": "30000"}
BUNDLER_55 = {
    "bundler_type": "${jgroups.bundler.type:pd}",
    "bundler.max_size": "${jgroups.bundler.max_size:64K}",
    "bundler.capacity": "${jgroups.bundler.capacity:16k}",
    "bundler.use_single_sender_thread": "${jgroups.bundler.use_single_sender_thread:true}",
    "bundler.use_ringbuffer": "${jgroups.bundler.use_ringbuffer:true}",
    "message_processing_policy": "${mpp:max}",
    "diag.enabled": "true",
    "diag.enable_tcp": "false",
    "thread_pool.min_threads": "${jgroups.thread_pool.min_threads:0}",
    "thread_pool.max_threads": "${jgroups.thread_pool.max_threads:200}",
    "thread_pool.keep_alive_time": "60s",
    "use_virtual_threads": "${vthreads:true}",
}
BIND_55 = "match-interface:eth2,match-interface:eth0,site_local,loopback"


def above_discovery(fd: str, verify: str, credits: str, nakack: dict[str, str], unicast: dict[str, str],
                    join: str, fd_all: dict[str, str]) -> Protocols:
    flow = {"max_credits": credits, "min_threshold": "0.4"}
    return [
        ("MERGE3", {"max_interval": "30s", "min_interval": "10s"}), (fd, {}), ("FD_ALL3", fd_all),
        (verify, {"timeout": "1.5s"}), ("BARRIER", {}), ("pbcast.NAKACK2", nakack), ("UNICAST3", unicast),
        ("pbcast.STABLE", {"desired_avg_gossip": "50s", "max_bytes": "4M"}),
        ("pbcast.GMS", {"print_local_addr": "true", "join_timeout": join}), ("MFC", flow), ("UFC", flow),
        ("FRAG2", {"frag_size": "60K"}), ("pbcast.STATE_TRANSFER", {}),
    ]


def tcpping(hosts: str) -> tuple[str, dict[str, str]]:
    return "TCPPING", {
        "async_discovery": "true", "initial_hosts": f"${{jgroups.tcpping.initial_hosts:{hosts}}}",
        "return_entire_cache": "${jgroups.tcpping.return_entire_cache:false}",
        "port_range": "${jgroups.tcp.port_range:2}"}


def udp_rest(fd: str = "FD_SOCK2", verify: str = "VERIFY_SUSPECT2", credits: str = "4M") -> Protocols:
    return above_discovery(fd, verify, credits, {"xmit_interval": "0.5s"}, {"xmit_interval": "0.5s"}, "1s", {})


def tcp_rest(fd: str = "FD_SOCK2", verify: str = "VERIFY_SUSPECT2", credits: str = "2M") -> Protocols:
    return above_discovery(fd, verify, credits, {"use_mcast_xmit": "false"}, {}, "2s",
                           {"timeout": "40s", "interval": "5s"})


UDP_54: tuple[str, dict[str, str]] = ("UDP", {"mcast_port": "${jgroups.udp.mcast_port:45588}", **POOL})
TCP_50: tuple[str, dict[str, str]] = ("TCP", {
    "bind_addr": "${jgroups.bind_addr:site_local}", "bind_port": "${jgroups.bind_port:7800}",
    "external_addr": "${jgroups.external_addr}", "external_port": "${jgroups.external_port}", **POOL})
UDP_DEFAULT_55: Protocols = [("UDP", {
    "bind_addr": BIND_55, "mcast_addr": "${jgroups.udp.mcast_addr:239.8.8.8}",
    "mcast_port": "${jgroups.udp.mcast_port:45588}", "diag.enable_udp": "true", **BUNDLER_55})]
TCP_DEFAULT_55: Protocols = [("TCP", {
    "bind_addr": BIND_55, "bind_port": "7800", "recv_buf_size": "0", "send_buf_size": "0",
    "buffered_input_stream_size": "65536", "buffered_output_stream_size": "65536", "sock_conn_timeout": "300ms",
    "tcp_nodelay": "${tcp-nodelay:false}", **BUNDLER_55})]

STOCK: dict[str, Protocols] = {
    "udp-5.0.xml": [UDP_54, ("PING", {}), *udp_rest("FD_SOCK", "VERIFY_SUSPECT", "10M")],
    "tcp-5.0.xml": [TCP_50, tcpping("localhost[7800],localhost[7801]"), *tcp_rest("FD_SOCK", "VERIFY_SUSPECT")],
    "udp-5.4.xml": [UDP_54, ("RED", {}), ("PING", {}), *udp_rest()],
    "tcp-5.4.xml": [TCP_50, ("NON_BLOCKING_SENDS", {}), tcpping("localhost[7800],localhost[7801]"),
                    *tcp_rest(credits="10M")],
    "udp-5.5.xml": [("include", {"file": "${transport-config:udp-default.xml}"}), ("RED", {}), ("PING", {}),
                    *udp_rest()],
    "tcp-5.5.xml": [("include", {"file": "${transport-config:tcp-default.xml}"}), tcpping("localhost[7800]"),
                    *tcp_rest()],
}
INCLUDED: dict[str, Protocols] = {"udp-default.xml": UDP_DEFAULT_55, "tcp-default.xml": TCP_DEFAULT_55}


def as_xml(protocols: Protocols) -> str:
    """A stack file with JGroups' usual head."""
    elements = [f"    <{name} {' '.join(f'{key}={quoteattr(value)}' for key, value in properties.items())}/>"
                for name, properties in protocols]
    head = ('<config xmlns="urn:org:jgroups" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"\n'
            '        xsi:schemaLocation="urn:org:jgroups http://www.jgroups.org/schema/jgroups.xsd">')
    return "\n".join(["<!-- a comment before the root -->", head, *elements, "</config>"])


def write_all(folder: Path) -> None:
    """All files, those that are included too, into `folder`."""
    for name, protocols in {**STOCK, **INCLUDED}.items():
        (folder / name).write_text(as_xml(protocols), encoding="utf-8")
