"""UDP and TCP: encode batches into frames, decode frames into batches, and map members to physical addresses.

The lowest layer. On the way down it cuts a batch at the frame size; on the way up it joins successive frames that
continue each other, so that batches are as long as the traffic allows. It sends by emitting Frame outputs; the sockets
are in runtime/ (or simulator/). Frames of other clusters, of other versions and malformed ones are counted by name and
dropped, with one warning a minute at most.

Source: JGroups TP.java (physical address cache, loopback, bundling). Deviations: no bundler thread, since messages that
are queued together form a batch anyway; addresses come with views and discovery, so there is no protocol to request
them; a unicast to a member whose physical address is unknown is sent by IP multicast where there is one.
"""
from __future__ import annotations

import struct
from collections.abc import Iterable
from ipaddress import ip_address
from typing import ClassVar

import attrs

from jgroups_py import wire
from jgroups_py.model.address import ADDRESS_BYTES, Address, PhysicalAddress
from jgroups_py.model.batch import Batch, joined
from jgroups_py.model.counters import counter, declare, drop, figure
from jgroups_py.model.errors import ConfigError, WireError
from jgroups_py.model.events import AddressesKnown, Connect, ResolveName, SenderProven, SendTo, ViewChange
from jgroups_py.model.name_resolution import parse_resolvers
from jgroups_py.model.outputs import Frame, LogEntry, Resolve
from jgroups_py.model.ports import FrameSealer
from jgroups_py.model.units import count, duration, flag, host, size, text
from jgroups_py.model.version import MANUAL, OWN
from jgroups_py.stack.base_transport import BaseTransport
from jgroups_py.stack.protocol import on, timer
from jgroups_py.wire.sealed_head import SEALED_VERSION

MAX_TOLD = 64                               # ids of skipped headers that are logged
MAX_NON_MEMBERS = 2000                      # physical addresses of non-members that are kept
MAX_DATAGRAM_BYTES = 65507                  # UDP over IPv4: 65535 - 20 (IP) - 8 (UDP)
UNWRITABLE = (struct.error, OverflowError)
THREADS = "threads of the Java transport; this one runs on one loop thread"
BUNDLER = "there is no bundler: what is queued when a round of the loop begins forms a batch"
SYSTEM_RESOLVER = parse_resolvers("dns")
DIAGNOSTICS = "there is no diagnostics handler that listens on the network"
FOREIGN_CLUSTER = "foreign cluster"
UNKNOWN_HEADER = "unknown header"
FOREIGN_VERSION = "foreign version"
VERSION_AT = 2                              # where its version stands in a frame
BESIDE_THE_FRAME = 1, 2, 40                 # protocol ids whose headers members of all stacks read (design/wire.md)
FOREIGN_FRAMES = {
    FOREIGN_VERSION: ("foreign_version_dropped", "it is of another version of the wire format"),
    FOREIGN_CLUSTER: ("foreign_cluster_dropped", "it is of another cluster, which uses the same address (give each "
                      "cluster a mcast_port of its own, or with TCP a bind_port)"),
    "wrong checksum": ("wrong_checksum_dropped", "its checksum is wrong"),
}
"""Reason of a WireError -> the counter, and the text for the log."""


def of_other_version(version: int) -> str:
    """Why a frame whose version is another one is dropped, and what to do."""
    if version == SEALED_VERSION:
        return "it is sealed, and this member's stack has no ENCRYPT: give all members of a group the same one"
    return (f"it is of version {version} of the wire format, and this member (jgroups_py {OWN}) of version "
            f"{wire.VERSION}, so they understand nothing of each other: upgrade all members of the group at once "
            f"({MANUAL})")


def is_ip_multicast(text: str) -> bool:
    """Whether `text` is an IP multicast address. One with a scope is none: bind_addr says which link is meant.

    >>> [is_ip_multicast(text) for text in ("239.8.8.8", "ff12::8:8:8", "10.0.0.1", "fd00::1", "ff12::8%eth0")]
    [True, True, False, False, False]
    """
    try:
        return "%" not in text and ip_address(text).is_multicast
    except ValueError:
        return False


def ip_version(text: str) -> int:
    """The version of a literal IP address, in brackets or not; 0: it is a name, or a word for an interface.

    >>> ip_version("[::1]"), ip_version("fe80::1%eth0"), ip_version("10.0.0.1"), ip_version("site_local")
    (6, 6, 4, 0)
    """
    try:
        return ip_address(text.removeprefix("[").removesuffix("]")).version
    except ValueError:
        return 0


@attrs.frozen
class TransportConfig:
    """The properties that UDP and TCP share."""

    ignored: ClassVar[dict[str, str]] = {
        **dict.fromkeys((
            "thread_pool.enabled", "thread_pool.min_threads", "thread_pool.max_threads",
            "thread_pool.keep_alive_time", "thread_pool.queue_enabled", "thread_pool.queue_max_size",
            "thread_pool.rejection_policy", "thread_pool.thread_dumps_threshold", "use_virtual_threads",
            "use_fibers", "thread_naming_pattern", "time_service_interval", "oob_thread_pool.enabled",
            "oob_thread_pool.min_threads", "oob_thread_pool.max_threads", "oob_thread_pool.keep_alive_time",
            "oob_thread_pool.queue_enabled", "oob_thread_pool.queue_max_size", "oob_thread_pool.rejection_policy",
            "timer_type", "timer.min_threads", "timer.max_threads", "timer.keep_alive_time", "timer.queue_max_size",
            "timer_threads", "use_concurrent_stack", "msg_processing_policy", "message_processing_policy",
            "use_common_timer", "internal_thread_pool_enabled", "thread_pool.delta", "thread_pool.thread_dump_path",
            "thread_pool.thread_dumps_enabled", "thread_pool.thread_pool_full_suppress_time",
            "thread_pool.increase_max_size_dynamically", "thread_pool.use_virtual_threads", "use_vthreads",
            "mcast_receiver_threads", "ucast_receiver_threads", "async_executor.enabled"), THREADS),
        **dict.fromkeys((
            "bundler_type", "bundler.type", "bundler.capacity", "bundler.num_spins", "bundler.wait_strategy",
            "bundler.remove_queue_capacity", "bundler.suppress_log_timeout", "bundler.use_ringbuffer",
            "bundler.use_single_sender_thread", "bundler.remove_delay", "bundler.drop_when_full",
            "bundler_capacity", "max_bundle_timeout", "enable_bundling",
            "enable_unicast_bundling", "transport_queue_size", "bundler_wait_strategy"), BUNDLER),
        **dict.fromkeys((
            "enable_diagnostics", "diag_enable_tcp", "diag_enable_udp", "diag_bind_addr", "diagnostics_addr",
            "diagnostics_port", "diag.enabled", "diag.enable_tcp", "diag.enable_udp", "diag.bind_addr",
            "diag.mcast_addr", "diag.mcast_port", "diagnostics_bind_addr", "diag.bind_interfaces", "diag.passcode",
            "diag.port", "diag.port_range", "diag.ttl", "rtt.enabled", "rtt.num_reqs", "rtt.oob", "rtt.size",
            "rtt.timeout", "msg_stats.enabled"), DIAGNOSTICS),
        **dict.fromkeys(("local_transport_class", "msg_factory_class"), "there are no Java classes to load"),
        **dict.fromkeys(("loopback", "loopback_copy", "loopback_separate_thread"),
                        "own multicasts always loop back, above any layer that may lose them"),
        **dict.fromkeys(("logical_addr_cache_max_size", "logical_addr_cache_expiration",
                         "logical_addr_cache_reaper_interval", "who_has_cache_timeout"),
                        "logical names travel with views"),
        **dict.fromkeys(("discard_incompatible_packets", "log_discard_msgs", "log_discard_msgs_version",
                         "suppress_time_different_version_warnings",
                         "suppress_time_different_cluster_warnings", "suppress_time_out_of_buffer_space"),
                        "foreign frames are always dropped, counted, and warned of once a minute"),
        **dict.fromkeys(("singleton_name", "use_ip_addrs", "bind_to_interfaces", "receive_interfaces",
                         "receive_on_all_interfaces", "send_interfaces", "send_on_all_interfaces",
                         "bind_interface_str", "tos", "disable_loopback", "max_diagnostics"),
                        "not supported; bind_addr selects the interface"),
    }

    bind_addr: str = text("127.0.0.1", doc="The IP address of the interface to send and receive on, IPv4 or IPv6 "
                          "(a link-local one with its interface: fe80::1%eth0); also "
                          "\"loopback\" and \"site_local\", \"global\", \"match-interface:NAME\" as in JGroups.")
    bind_port: int = count(0, most=65535, doc="First port to try; 0: any free port.")
    port_range: int = count(10, doc="How many further ports above bind_port are tried if it is in use.")
    external_addr: str = host("", doc="The address given to other members in place of bind_addr, for a proxy or "
                              "NAT.")
    external_port: int = count(0, most=65535, doc="The port given to other members, for a proxy or NAT; 0: the "
                               "bound one.")
    max_bundle_bytes: int = size(
        "64000", least=1024, name="max_bundle_size", also=("bundler.max_size",), doc="Largest frame. Larger "
        "costs less per message; smaller loses less when one frame is lost.")
    address_max_age_ns: int = duration(
        "2m", also=("physical_addr_max_age",), doc="How long the physical address of a non-member is kept, of the "
        "latest 2000 at most.")


@attrs.frozen
class UdpConfig(TransportConfig):
    """UDP with IP multicast."""

    mcast_addr: str = text("239.8.8.8", also=("mcast_group_addr",), doc="IP multicast address of the group; its "
                          "version is that of bind_addr.")
    mcast_port: int = count(45588, least=1, most=65535, doc="Port of the multicast address.")
    ip_ttl: int = count(0, most=255, also=("mcast_ttl",), doc="How many routers multicasts may pass; 0: this host.")
    ip_mcast: bool = flag(True, doc="false: a multicast is sent to each member separately; discovery then needs "
                          "TCPPING, DNS_PING or FILE_PING.")
    ucast_recv_buf_bytes: int = size("5M", name="ucast_recv_buf_size", doc="Socket buffer for unicasts.")
    ucast_send_buf_bytes: int = size("1M", name="ucast_send_buf_size", doc="Socket buffer for sending.")
    mcast_recv_buf_bytes: int = size("5M", name="mcast_recv_buf_size", doc="Socket buffer for multicasts.")
    mcast_send_buf_bytes: int = size("1M", name="mcast_send_buf_size", doc="Socket buffer for sending multicasts.")

    def __attrs_post_init__(self) -> None:
        if self.max_bundle_bytes > MAX_DATAGRAM_BYTES:
            object.__setattr__(self, "max_bundle_bytes", MAX_DATAGRAM_BYTES)
        if self.ip_mcast and not is_ip_multicast(self.mcast_addr):
            raise ConfigError(f"mcast_addr {self.mcast_addr!r} is not an IP multicast address (224.0.0.0 to "
                              "239.255.255.255, or ff00::/8 without a scope)")
        if self.ip_mcast and ip_version(self.bind_addr) not in (0, ip_version(self.mcast_addr)):
            raise ConfigError(f"bind_addr {self.bind_addr} and mcast_addr {self.mcast_addr} are of different IP "
                              "versions; set both, as to fd00::1 and ff15::8:8:8, or to 10.0.0.1 and 239.8.8.8")
        if self.ip_mcast and (self.external_addr or self.external_port):
            raise ConfigError("external_addr and external_port are of no use with IP multicast, which no proxy or NAT "
                              "passes on: members send to the source of a datagram; use TCP, or ip_mcast=false")


@attrs.frozen
class TcpConfig(TransportConfig):
    """TCP: a mesh of connections on ZeroMQ sockets."""

    ignored: ClassVar[dict[str, str]] = {
        **TransportConfig.ignored,
        **dict.fromkeys(("linger", "reaper_interval", "conn_expire_time", "use_send_queues", "non_blocking_sends",
                         "tcp_nodelay", "log_accept_error", "log_details", "peer_addr_read_timeout",
                         "cookie", "use_acks", "max_length", "use_lock_to_send", "use_direct_memory",
                         "buffered_input_stream_size", "buffered_output_stream_size",
                         "buffered_inputstream_size", "buffered_outputstream_size",
                         "so_keepalive", "defer_client_bind_addr", "client_bind_addr", "client_bind_port",
                         "enable_suspect_events", "use_peer_connections", "max_read_batch_size",
                         "max_send_buffers", "reader_idle_time", "copy_on_partial_write"),
                        "ZeroMQ manages the connections"),
    }

    bind_port: int = count(7800, most=65535, also=("start_port",), doc="First port to try; 0: any free port.")
    connect_timeout_ns: int = duration("2s", name="sock_conn_timeout", doc="How long one connection attempt may "
                                       "take before it is tried again.")
    send_queue: int = count(1024, least=1, name="max_send_queue", also=("send_queue_size",), doc="Frames queued for "
                            "one peer; when it is full further frames to that peer are dropped and counted.")
    recv_buf_bytes: int = size("1M", name="recv_buf_size", doc="Socket buffer for receiving; 0: the system's.")
    send_buf_bytes: int = size("1M", name="send_buf_size", doc="Socket buffer for sending; 0: the system's.")
    reconnect_ns: int = duration("100ms", name="reconnect_interval", doc="First wait before a broken connection is "
                                 "tried again; it doubles up to reconnect_interval_max.")
    reconnect_max_ns: int = duration("2s", name="reconnect_interval_max", doc="Longest wait between two attempts.")
    heartbeat_ns: int = duration("2s", name="heartbeat_interval", doc="How often the system probes an idle "
                                 "connection, in whole seconds; one without an answer for three times as long is "
                                 "opened again. 0: never.")


class Transport(BaseTransport):
    """What UDP and TCP share; see the module. A subclass defines whether there is IP multicast."""

    config: TransportConfig

    COUNTERS = declare(
        counter("non_members_forgotten", "Addresses of non-members that were dropped because there were too many."),
        drop("unwritable_dropped", "Batches with a value that fits no field of the wire format."),
        drop("too_large_dropped", "Messages larger than a frame; the stack has no FRAG below their sender."),
        drop("no_physical_address", "Frames to a member whose physical address is not known."),
        drop("for_others_dropped", "Frames addressed to another member: as a rule an earlier incarnation at this "
                                   "address."),
        drop("foreign_version_dropped", "Frames of another version of the wire format (design/wire.md)."),
        drop("foreign_cluster_dropped", "Frames of another cluster that uses the same multicast address or port."),
        drop("wrong_checksum_dropped", "Frames whose checksum does not fit their bytes."),
        drop("unknown_header_dropped", "Frames with a header that no protocol of this version declares "
                                       "(design/wire.md)."),
        drop("malformed_dropped", "Frames that cannot be decoded."),
        counter("headers_skipped", "Headers that this member does not have, and that may be skipped: their messages "
                                   "are delivered without them (design/wire.md)."),
        figure("frames_sent", "Frames sent."),
        figure("bytes_sent", "Their bytes."),
        figure("messages_sent", "Messages in them."),
        figure("frames_received", "Frames received."),
        figure("bytes_received", "Their bytes."),
        figure("messages_received", "Messages in them."),
    )

    def start(self) -> None:
        super().start()
        self.addresses = wire.Interner()
        self.addresses.adopt(self.me)
        self.cluster = b""
        self.told_skipped: dict[tuple[int, int], None] = {}       # ids of skipped headers that the log has
        self.by_multicast = self.has_multicast()
        self.sealer: FrameSealer | None = self.stack.find(FrameSealer)
        self.seal_bytes = self.sealer.overhead() if self.sealer is not None else 0
        self.members: tuple[Address, ...] = ()
        self.frames_sent = self.bytes_sent = self.messages_sent = 0
        self.frames_received = self.bytes_received = self.messages_received = 0

    def stats(self) -> dict[str, float]:
        return {"frames_sent": self.frames_sent, "bytes_sent": self.bytes_sent, "messages_sent": self.messages_sent,
                "frames_received": self.frames_received, "bytes_received": self.bytes_received,
                "messages_received": self.messages_received, **super().stats()}

    def max_frame_bytes(self) -> int:
        return self.config.max_bundle_bytes

    # --- events -----------------------------------------------------------------------------------------------------

    @on(Connect)
    def on_connect(self, event: Connect) -> None:
        self.cluster = wire.cluster_id(event.cluster)
        of_layers = [header.proto for layer in self.stack.layers for header in layer.receivers]
        self.addresses.unread.protocols = frozenset((*BESIDE_THE_FRAME, *of_layers))
        self.set_timer("age", self.config.address_max_age_ns)

    @on(AddressesKnown)
    def on_addresses_known(self, event: AddressesKnown) -> None:
        for member, physical in event.book.items():
            if member != self.me:
                self.book[self.addresses.get(member.raw, member.name)] = physical
        if len(self.book) > len(self.members) + 2 * MAX_NON_MEMBERS:
            self.bound_non_members()

    @on(ViewChange)
    def on_view_change(self, event: ViewChange) -> None:
        self.members = event.view.members
        # A view has the members' true logical names; those in earlier frames may be forged, and are replaced.
        self.addresses.keep(self.members, self.me)

    @on(SendTo)
    def on_send_to(self, event: SendTo) -> None:
        """Send to a physical address, whether a member is known there or not (discovery)."""
        try:
            frames = self.frames(self.encoded(event.batch), event.batch.dest, event.physical)
        except UNWRITABLE as error:
            return self.drop_unwritable(event.batch, error)
        for data in frames:
            self.emit_frame(event.physical, data, sum(map(len, data)), len(event.batch.payloads))
        return None

    @on(ResolveName)
    def on_resolve_name(self, event: ResolveName) -> None:
        """No layer above resolves names: the system does, on another thread, as it may take seconds."""
        self.emit(Resolve(self.stack.net, event.name, event.port, SYSTEM_RESOLVER, event.parameter, event.again,
                          event.version))

    @timer("age")
    def forget_non_members(self) -> None:
        """Drop the addresses of non-members of which no frame arrived for `address_max_age`."""
        oldest_ns = self.now_ns - self.config.address_max_age_ns
        keep = dict.fromkeys(self.members)
        for member in [m for m in self.book if m not in keep and self.last_frames.get(m, 0) < oldest_ns]:
            del self.book[member]
        for member in [m for m, at_ns in self.last_frames.items() if m not in keep and at_ns < oldest_ns]:
            del self.last_frames[member]
        self.set_timer("age", self.config.address_max_age_ns)

    def bound_non_members(self) -> None:
        """Bound the memory for non-members: keep the latest that sent frames, and the latest that others announced.

        Each kind has half of the room, so that forged frames of one kind do not displace the other.
        """
        keep, last_frames, most = dict.fromkeys(self.members), self.last_frames, MAX_NON_MEMBERS // 2
        senders = sorted([member for member in last_frames if member not in keep], key=last_frames.__getitem__)[:-most]
        for member in senders:
            del last_frames[member]
            self.book.pop(member, None)
        announced = [member for member in self.book if member not in keep and member not in last_frames][:-most]
        for member in announced:
            del self.book[member]
        self.count("non_members_forgotten", len(senders) + len(announced))

    # --- down -------------------------------------------------------------------------------------------------------

    def down(self, batch: Batch) -> None:
        if batch.dest == self.me:
            return self.pass_up(batch)
        try:
            self.send_in_frames(batch)
        except UNWRITABLE as error:
            self.drop_unwritable(batch, error)
        return None

    def drop_unwritable(self, batch: Batch, error: Exception) -> None:
        """Drop a batch with a value that fits no field. Such a value comes from a frame of another process: it must not
        end this one."""
        self.drop("unwritable_dropped", batch, str(error), number=1)
        self.warn(f"dropped a batch that cannot be encoded: {error}")

    def send_in_frames(self, batch: Batch) -> None:
        """Send the batch in one frame, or in as many as it takes."""
        # Most batches fit one frame: encode, then compare the size. What cannot fit is cut before it is encoded.
        if batch.nbytes < self.config.max_bundle_bytes and self.transmit(batch):
            return
        for piece in self.fitting(batch):
            if not self.transmit(piece):
                self.drop("too_large_dropped", piece, "it is larger than max_bundle_size")
                self.warn(f"a message of {piece.nbytes} bytes exceeds max_bundle_size and the stack has no FRAG below "
                          "the sender; dropped")

    def fitting(self, batch: Batch) -> list[Batch]:
        """The batch cut into pieces of which each fits one frame, unless a single message does not."""
        room = self.config.max_bundle_bytes - wire.headers_nbytes(batch) - self.seal_bytes
        if batch.length >= 0:
            each = max(1, room // max(1, batch.length))
            return [batch.cut(start, min(start + each, batch.count)) for start in range(0, batch.count, each)]
        pieces, start, used = [], 0, 0
        for index, payload in enumerate(batch.payloads):
            need = len(payload) + 4
            if used + need > room and index > start:
                pieces.append(batch.cut(start, index))
                start, used = index, 0
            used += need
        pieces.append(batch.cut(start, batch.count))
        return pieces

    def transmit(self, batch: Batch) -> bool:
        """Send the batch as one frame; False: it does not fit."""
        sealer = self.sealer
        data = wire.encode_frame(self.cluster, batch) if sealer is None else wire.encode_inner(batch)
        nbytes = len(data[0]) + batch.nbytes + self.seal_bytes
        if nbytes > self.config.max_bundle_bytes:
            return False
        dest = batch.dest
        physical = None if dest is None else self.book.get(dest)
        if physical is not None or self.by_multicast:
            for frame in (data,) if sealer is None else self.frames(data, dest, physical):
                self.emit_frame(physical, frame, nbytes, len(batch.payloads))
        elif dest is None:
            for frame in self.frames(data, None, None):
                self.send_to_each(frame, nbytes, batch)
        else:
            self.drop("no_physical_address", batch, "its physical address is not known", number=1)
        return True

    def encoded(self, batch: Batch) -> list[bytes | bytearray]:
        """The frame of a batch, or what ENCRYPT makes a frame of."""
        return wire.encode_frame(self.cluster, batch) if self.sealer is None else wire.encode_inner(batch)

    def frames(
        self, data: list[bytes | bytearray], dest: Address | None, physical: PhysicalAddress | None,
    ) -> list[list[bytes | bytearray]]:
        """The frame to be sent: sealed once, however many receive it; none: ENCRYPT sends it later, or drops it. While
        a group is upgraded to ENCRYPT a second one is in clear."""
        if self.sealer is None:
            return [data]
        clear = self.sealer.clear_copy(data, dest) if self.sealer.copies_clear else None
        sealed = self.sealer.seal(data, dest, physical)
        if clear is None:
            return [] if sealed is None else [sealed]
        return [clear] if sealed is None else [clear, sealed]

    def send_to_each(self, data: list[bytes | bytearray], nbytes: int, batch: Batch) -> None:
        for member in self.members:
            if member != self.me:
                physical = self.book.get(member)
                if physical is None:
                    self.drop("no_physical_address", batch, f"the physical address of {member} is not known", number=1)
                else:
                    self.emit_frame(physical, data, nbytes, len(batch.payloads))

    def emit_frame(self, to: PhysicalAddress | None, data: list[bytes | bytearray], nbytes: int, messages: int) -> None:
        self.frames_sent += 1
        self.bytes_sent += nbytes
        self.messages_sent += messages
        self.stack.outputs.append(Frame(self.stack.net, to, data))

    # --- up ---------------------------------------------------------------------------------------------------------

    def receive(self, frames: Iterable[tuple[bytes, PhysicalAddress | None]]) -> None:
        batches = []
        me, now_ns = self.me, self.stack.now_ns
        own = me.raw
        for data, physical in frames:
            if data[wire.SOURCE_OFFSET:wire.SOURCE_END] == own:
                continue                                  # an own multicast, looped back by the system
            batch = self.decoded(data, physical)
            if batch is None:
                continue
            src, dest = batch.src, batch.dest
            if dest is not None and dest != me:
                # It teaches nothing of its source: anybody may have recorded it, and sent it here from another place.
                self.drop("for_others_dropped", batch, "it is addressed to another member", number=1)
                continue
            self.last_frames[src] = now_ns
            if physical is not None and self.book.get(src) != physical:
                self.book[src] = physical
            batches.append(batch)
        if self.addresses.unread.skipped:
            self.note_skipped()
        if len(self.last_frames) > len(self.members) + MAX_NON_MEMBERS:
            self.bound_non_members()
        for batch in joined(batches) if len(batches) > 1 else batches:
            self.messages_received += len(batch.payloads)
            self.pass_up(batch)

    @on(SenderProven)
    def sender_proven(self, event: SenderProven) -> None:
        self.receive(event.frames)

    def decoded(self, data: bytes, physical: PhysicalAddress | None) -> Batch | None:
        self.frames_received += 1
        self.bytes_received += len(data)
        try:
            if self.sealer is None:
                return wire.decode_frame(data, self.cluster, self.addresses)
            opened = self.sealer.open(data, physical)
            if opened is None:
                return None
            return wire.decode_inner(opened[0], data[wire.SOURCE_OFFSET:wire.SOURCE_END], self.addresses, opened[1])
        except WireError as error:
            self.drop_frame(data, str(error))
            return None

    def note_skipped(self) -> None:
        """Count the headers that were skipped; the log has each once."""
        unread = self.addresses.unread
        skipped, unread.skipped = unread.skipped, {}
        self.count("headers_skipped", sum(skipped.values()))
        for proto, kind in skipped:
            if (proto, kind) not in self.told_skipped and proto >= 0 and len(self.told_skipped) < MAX_TOLD:
                self.told_skipped[proto, kind] = None
                self.emit(LogEntry("info", f"skips header {proto}/{kind}, which another version or another stack has: "
                                   "messages that have it are delivered without it"))

    def drop_frame(self, data: bytes, reason: str) -> None:
        """Count a frame that cannot be decoded under the name of its reason, and log it."""
        name, words = FOREIGN_FRAMES.get(reason, ("malformed_dropped", reason))
        if reason.startswith(UNKNOWN_HEADER):
            name, words = "unknown_header_dropped", f"{reason}: of another version, or of a protocol unknown here"
        if reason == FOREIGN_VERSION:
            words = of_other_version(data[VERSION_AT])
        source = data[wire.SOURCE_OFFSET:wire.SOURCE_END]
        claimed = Address(source) if len(source) == ADDRESS_BYTES else Address(bytes(ADDRESS_BYTES))
        self.drop(name, Batch(claimed, None), words)
        if reason != FOREIGN_CLUSTER:
            self.warn(f"dropped a frame: {words}")
        elif self.counters[name] == 1:
            # Clusters on a host may share a multicast address. That is harmless, and may last: it is logged once.
            self.emit(LogEntry("info", f"dropped a frame: {words}"))


class Udp(Transport):
    """Datagrams and IP multicast."""

    Config = UdpConfig
    config: UdpConfig

    def has_multicast(self) -> bool:
        return self.config.ip_mcast


class Tcp(Transport):
    """A mesh of TCP connections; a multicast is sent to each member separately."""

    Config = TcpConfig
