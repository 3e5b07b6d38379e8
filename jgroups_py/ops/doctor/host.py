"""Checks of this host for a stack: addresses, ports, multicasts, buffers, the hold's folder.

Nothing is sent to members of this host: a multicast goes to the stack's port only if none listens there, else to the
group at a free port.
"""
from __future__ import annotations

import contextlib
import errno
import os
import resource
import secrets
import shutil
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from jgroups_py.config.reach import is_loopback, why_alone
from jgroups_py.config.spec import StackSpec
from jgroups_py.model.errors import ConfigError
from jgroups_py.model.text import place
from jgroups_py.ops.doctor.finding import BAD, OK, WARN, Diagnosis
from jgroups_py.runtime.sockets.interfaces import host_address, interface_number, resolve
from jgroups_py.runtime.sockets.ip import SocketAddress, family, socket_address, split_scope, version
from jgroups_py.runtime.sockets.multicast import join, send_from

HEAR_SECONDS = 1.0
CONNECT_SECONDS = 1.0
SLOW_SYNC_SECONDS = 0.05
LEAST_FILES = 1024
SYNCED_BYTES = 4096


def examined(spec: StackSpec) -> Iterator[Diagnosis]:
    """All findings about a stack on this host."""
    transport: Any = spec.layers[0].config
    try:
        host = bound_host(transport)
        with socket.socket(family(host), socket.SOCK_DGRAM) as probe:
            probe.bind(local_address(host, 0))
    except ConfigError as error:
        yield Diagnosis(BAD, "address", str(error), "set bind_addr to an address of this host, or site_local")
        return
    except OSError as error:
        yield Diagnosis(BAD, "address", f"bind_addr {transport.bind_addr}: {error.strerror}",
                      "set bind_addr to an address of this host, or site_local")
        return
    yield Diagnosis(OK, "address", f"bind_addr {transport.bind_addr} is {host}")
    yield from _reach(spec, host)
    yield from _own_name(transport.bind_addr, host)
    yield from _port(spec, host)
    if getattr(transport, "ip_mcast", False):
        yield _multicast(transport, host)
    yield from _buffers(transport)
    yield from _initial_hosts(spec, host)
    yield from _hold(spec)
    yield _files()


def bound_host(transport: Any) -> str:
    """The address that a transport binds; of the version of its multicast address, if it has one.

    Raises:
        ConfigError: there is no such address.
    """
    has_multicast = getattr(transport, "ip_mcast", False)
    return resolve(transport.bind_addr, version(transport.mcast_addr) if has_multicast else 0)


def local_address(host: str, port: int) -> SocketAddress:
    """What a socket of this host binds."""
    address, scope = split_scope(host)
    return socket_address(address, port, scope)


def _reach(spec: StackSpec, host: str) -> Iterator[Diagnosis]:
    """Causes in the configuration for which members on other hosts are not found."""
    transport: Any = spec.layers[0].config
    tcpping = spec.config_of("TCPPING")
    is_only_here = is_loopback(host) or (getattr(transport, "ip_mcast", False) and not transport.ip_ttl) or (
        tcpping is not None and all(is_loopback(name) or name == host for name, _ in tcpping.initial_hosts))
    if not is_only_here:
        yield Diagnosis(OK, "reach", "members on other hosts can be found")
        return
    said = why_alone(spec)
    if tcpping is not None and not is_loopback(host):
        said = "initial_hosts names no other host; list where members may be: initial_hosts=HOST[PORT],..."
    what, _, remedy = said.partition("; ")
    yield Diagnosis(WARN, "reach", what, remedy)


def _own_name(bind_addr: str, host: str) -> Iterator[Diagnosis]:
    """Debian gives a host's name the address 127.0.1.1, so a member bound to that name stays alone; others ::1.

    Looked at is the address of bind_addr's version, which a member with that name as bind_addr would take.
    """
    name = socket.gethostname()
    address = host_address(name, version(host))
    if address is not None and is_loopback(address):
        is_used = is_loopback(host) and not is_loopback(bind_addr)
        yield Diagnosis(BAD if is_used else OK, "name", f"the host's name {name} is {address} here",
                      f"give {name} its address in /etc/hosts, or set bind_addr to it" if is_used else "")


def _port(spec: StackSpec, host: str) -> Iterator[Diagnosis]:
    """Whether a port of the transport is free."""
    transport: Any = spec.layers[0].config
    first, kind = transport.bind_port, socket.SOCK_STREAM if spec.layers[0].name == "TCP" else socket.SOCK_DGRAM
    if not first:
        return
    ports = range(first, min(first + transport.port_range, 0xFFFF) + 1)
    taken = [port for port in ports if not _is_free(kind, host, port)]
    if len(taken) == len(ports):
        yield Diagnosis(BAD, "port", f"all ports from {ports[0]} to {ports[-1]} are in use at {host}",
                      "set another bind_port, or a larger port_range")
    elif taken and taken[0] == first:
        free = next(port for port in ports if port not in taken)
        yield Diagnosis(WARN, "port", f"{place(host, first)} is in use; a member takes {place(host, free)}",
                      "is it another member's? Others must look at that port too (port_range)")
    else:
        yield Diagnosis(OK, "port", f"{place(host, first)} is free")


def _is_free(kind: int, host: str, port: int) -> bool:
    with socket.socket(family(host), kind) as probe:
        if kind == socket.SOCK_STREAM:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(local_address(host, port))
        except OSError as error:
            return error.errno != errno.EADDRINUSE
    return True


def _multicast(transport: Any, host: str) -> Diagnosis:
    """Whether a multicast that this host sends comes back to it."""
    group, token = transport.mcast_addr, secrets.token_bytes(16)
    interface = interface_number(host)
    where = f"{place(group, transport.mcast_port)} on {host}"
    with socket.socket(family(group), socket.SOCK_DGRAM) as hearing, \
            socket.socket(family(group), socket.SOCK_DGRAM) as sending:
        try:
            with contextlib.suppress(OSError):
                hearing.bind(socket_address(group, transport.mcast_port, interface))
            if not hearing.getsockname()[1]:
                hearing.bind(socket_address(group, 0, interface))                     # a member listens at the port
            join(hearing, group, host, interface)
            send_from(sending, host, interface, transport.ip_ttl)
            sending.sendto(token, socket_address(group, hearing.getsockname()[1], interface))
            until = time.monotonic() + HEAR_SECONDS
            while (left := until - time.monotonic()) > 0:
                hearing.settimeout(left)
                if hearing.recv(len(token)) == token:
                    return Diagnosis(OK, "multicast", f"this host hears its own multicasts to {where}")
        except TimeoutError:
            pass
        except OSError as error:
            network = "-6 route add ff00::/8" if version(group) == 6 else "route add 224.0.0.0/4"
            return Diagnosis(BAD, "multicast", f"{where}: {error.strerror}", "does the interface take multicasts? "
                           f"ip link show; ip {network} dev INTERFACE; or use TCP")
    return Diagnosis(BAD, "multicast", f"this host does not hear its own multicasts to {where}",
                   "a firewall drops them: nft list ruleset; or use TCP with initial_hosts")


def _buffers(transport: Any) -> Iterator[Diagnosis]:
    """Whether the system gives the buffers that the stack asks for."""
    wanted = max((getattr(transport, name, 0) for name in (
        "ucast_recv_buf_bytes", "mcast_recv_buf_bytes", "recv_buf_bytes")), default=0)
    if not wanted:
        return
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, wanted)
        got = probe.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) // 2
    if got < wanted:
        yield Diagnosis(WARN, "buffers", f"the system gives {got:,} of {wanted:,} bytes for receiving, so bursts are "
                      "lost and sent again", f"sysctl net.core.rmem_max={wanted}")
    else:
        yield Diagnosis(OK, "buffers", f"{wanted:,} bytes for receiving")


def _initial_hosts(spec: StackSpec, host: str) -> Iterator[Diagnosis]:
    """Which addresses in initial_hosts answer. Only connections of TCP can be tried without a member there."""
    tcpping = spec.config_of("TCPPING")
    if tcpping is None or spec.layers[0].name != "TCP":
        return
    interface = interface_number(host)
    for name, port in tcpping.initial_hosts:
        where = place(name, port)
        found = host_address(name, version(host)) or host_address(name)
        if found is None:
            yield Diagnosis(BAD, "initial_hosts", f"{name} has no address", "correct it, or name an address")
            continue
        address = socket_address(found, port, interface)
        try:
            with socket.socket(family(found), socket.SOCK_STREAM) as probe:
                probe.settimeout(CONNECT_SECONDS)
                probe.connect(address)
            yield Diagnosis(OK, "initial_hosts", f"something listens at {where}")
        except ConnectionRefusedError:
            yield Diagnosis(OK, "initial_hosts", f"{where} is reached; nothing listens there now")
        except OSError as error:
            yield Diagnosis(BAD, "initial_hosts", f"{where} does not answer ({error.strerror or 'timed out'})",
                          "is the host up, and does its firewall pass TCP to that port?")


def _hold(spec: StackSpec) -> Iterator[Diagnosis]:
    """RELAY's folder on disk: writable, large enough, fast enough."""
    relay = spec.config_of("RELAY")
    if relay is None or not relay.hold_dir:
        return
    folder = Path(relay.hold_dir)
    probe = folder / f".doctor-{os.getpid()}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        began = time.monotonic()
        with probe.open("wb") as file:
            file.write(bytes(SYNCED_BYTES))
            file.flush()
            os.fsync(file.fileno())
        took = time.monotonic() - began
        probe.unlink()
        free = shutil.disk_usage(folder).free
    except OSError as error:
        with contextlib.suppress(OSError):
            probe.unlink()
        yield Diagnosis(BAD, "hold_dir", f"{folder}: {error.strerror}", "make it writable for this user, and make room")
        return
    if free < relay.hold_bytes:
        yield Diagnosis(BAD, "hold_dir", f"{folder} has {free:,} bytes left, hold_bytes is {relay.hold_bytes:,}",
                      "make room, or lower hold_bytes")
    elif took > SLOW_SYNC_SECONDS:
        yield Diagnosis(WARN, "hold_dir", f"{folder}: writing {SYNCED_BYTES} bytes through to disk took {took:.2f} s",
                      "hold_sync=every would wait that long for each batch")
    else:
        yield Diagnosis(OK, "hold_dir", f"{folder} is writable and has {free:,} bytes left")


def _files() -> Diagnosis:
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if soft != resource.RLIM_INFINITY and soft < LEAST_FILES:
        return Diagnosis(WARN, "files", f"this process may open {soft} files", f"ulimit -n {LEAST_FILES}")
    return Diagnosis(OK, "files", f"{soft} files may be open")
