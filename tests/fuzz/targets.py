"""Everything that reads bytes which others wrote: what to feed it, and what it may raise."""
from __future__ import annotations

import struct
import tempfile
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from random import Random
from zlib import crc32

from jgroups_py import wire
from jgroups_py.archive import framing
from jgroups_py.archive.rows import lines_of, plain, unfold
from jgroups_py.archive.sealing import OpenSegment
from jgroups_py.blocks.cache import messages as caches
from jgroups_py.blocks.coordination import messages as coordination
from jgroups_py.blocks.coordination.machine import CoordinationMachine
from jgroups_py.blocks.mqtt.codec.decoder import Decoder, decode
from jgroups_py.blocks.mqtt.codec.encoder import encode
from jgroups_py.blocks.mqtt.codec.packets import ConnectPacket, MqttError, Packet, ProtocolVersion, SentBy
from jgroups_py.blocks.mqtt.federation.copy_bytes import (
    CopyPart,
    SessionCopy,
    change_bytes,
    part_bytes,
    read_here,
    read_parts,
    read_wanted,
)
from jgroups_py.blocks.mqtt.federation.sessions import QueuedDelivery, SessionMoved, SessionOffer
from jgroups_py.blocks.mqtt.federation.wire import decode_frame, encode_frame, read_message, split_events
from jgroups_py.blocks.mqtt.gmqtt.wire import (
    ack_bytes,
    client_hello_bytes,
    read_ack,
    read_client_hello,
    read_event,
    read_server_hello,
    server_hello_bytes,
)
from jgroups_py.blocks.replication import messages as replicas
from jgroups_py.config import load
from jgroups_py.model.address import Address
from jgroups_py.model.batch import Batch
from jgroups_py.model.errors import ConfigError
from jgroups_py.model.events import Connect
from jgroups_py.model.outputs import Record
from jgroups_py.model.secrets import Secrets
from jgroups_py.model.topics import interest_in
from jgroups_py.model.units import seconds
from jgroups_py.model.view import ViewId
from jgroups_py.protocols import KNOWN
from jgroups_py.protocols.discovery.file_ping import file_of, parse_entry
from jgroups_py.protocols.discovery.pex import influx
from jgroups_py.protocols.encrypt.ciphers import FrameWriter
from jgroups_py.protocols.encrypt.headers import Handshake, decode_handshake
from jgroups_py.protocols.encrypt.protocol import Encrypt, EncryptConfig
from jgroups_py.protocols.name_service import res
from jgroups_py.protocols.name_service.gossip import NameGossip
from jgroups_py.protocols.relay.headers import SiteRow
from jgroups_py.protocols.relay.journal import records as journal
from jgroups_py.protocols.swim.headers import (
    Alive,
    NodeState,
    PingFor,
    PingHeader,
    ProbeAck,
    PushPull,
    SuspectedHeader,
    UserMessage,
)
from jgroups_py.protocols.swim.memberlist import serf
from jgroups_py.protocols.swim.memberlist.messages import CodecContext, StreamFailure, address_of, write_message
from jgroups_py.protocols.swim.memberlist.packet import read_packet, write_packet
from jgroups_py.protocols.swim.memberlist.sealing import Key, Keyring
from jgroups_py.protocols.swim.memberlist.stream import StreamReader, write_stream
from jgroups_py.protocols.swim.metadata import unpack_tags
from jgroups_py.protocols.transport.protocol import Udp, UdpConfig
from jgroups_py.sealing.files import FileCipher, preamble
from jgroups_py.sealing.keyring import ACTIVE, GroupKeyring, group_key, new_keyring, parse_keyring
from jgroups_py.stack.stack import Stack
from tests.fuzz import brokers, services
from tests.fuzz.codecs import Target
from tests.unit.blocks.mqtt.random_packets import random_packet
from tests.unit.blocks.mqtt.test_federation_wire import CHANGES as FEDERATION_CHANGES
from tests.unit.blocks.mqtt.test_federation_wire import COPIES as FEDERATION_COPIES
from tests.unit.blocks.mqtt.test_federation_wire import EVENTS as FEDERATION_EVENTS
from tests.unit.blocks.mqtt.test_federation_wire import GOLDEN as FEDERATION_FRAMES
from tests.unit.blocks.mqtt.test_federation_wire import SESSIONS as FEDERATION_SESSIONS
from tests.unit.blocks.mqtt.test_gmqtt_wire import GOLDEN as GMQTT_EVENTS
from tests.unit.blocks.test_coordination_machine import GOLDEN as COORDINATION_MESSAGES
from tests.unit.blocks.test_replica_messages import GOLDEN as REPLICA_MESSAGES
from tests.wire.collect import collected

CLUSTER = wire.cluster_id("fuzz")
ALICE, BOB = Address(b"a" * 16, "alice"), Address(b"b" * 16, "bob")
PLACE = ("127.0.0.2", 27946)
PIECES = 3
WRITTEN_AGAIN = 20
FILE_SECONDS = 1.0                       # a stack file comes from our own disk, once; YAML reads some 500 KB a second
OPEN = CodecContext()
SEALED = CodecContext(keyring=Keyring((Key(b"k" * 16),), lambda: b"nonce" + bytes(7)))
_HEAD = struct.Struct(">2sBBII")


# --- our own frames ---------------------------------------------------------------------------------------------------

def read_frame(data: bytes) -> object:
    """A frame as it is."""
    return wire.decode_frame(data, CLUSTER, wire.Interner())


def read_resealed(data: bytes) -> object:
    """A frame whose checksum is mended, and the length that it covers, if need be."""
    if len(data) < wire.SOURCE_END:
        return read_frame(data)
    flags, length = data[3], min(int.from_bytes(data[8:12], "big"), len(data) - 8)
    covered = length.to_bytes(4, "big") + CLUSTER + data[20:8 + length]
    return read_frame(data[:4] + crc32(covered, flags).to_bytes(4, "big") + covered + data[8 + length:])


def frames() -> tuple[bytes, ...]:
    """A frame with each header, some with payloads of equal length, some of different ones."""
    found = []
    for at, (header, _) in enumerate(collected()):
        payloads = ((), (b"one",), (b"one", b"two"), (b"", b"three"), (b"",) * 5)[at % 5]
        batch = Batch(ALICE, BOB if at % 2 else None, payloads, (header,))
        found.append(b"".join(wire.encode_frame(CLUSTER, batch)))
    return tuple(found)


class FuzzSecrets(Secrets):
    """A keyring, and random bytes that are always the same."""

    def draw(self, nbytes: int) -> bytes:
        return b"r" * nbytes

    def keyring(self, path: str) -> GroupKeyring:
        return KEYRING


KEYRING = new_keyring(b"k" * 32)


def sealed_stack(me: Address) -> Stack:
    """A transport with ENCRYPT."""
    stack = Stack([Udp(UdpConfig()), Encrypt(EncryptConfig(keyring="fuzz"))], me, secrets=FuzzSecrets())
    stack.inject(Connect("fuzz"), 0)
    return stack


def read_sealed(data: bytes) -> object:
    """A sealed frame, at a member that believes ALICE."""
    stack = sealed_stack(BOB)
    encrypt = stack.find(Encrypt)
    for frame in sealed_frames()[:2]:
        encrypt.open(frame, PLACE)
    name = next(iter(encrypt.senders.unproven))
    encrypt.senders.prove(name, Handshake(b"", b"", b"", 1, 1), 0)
    stack.receive([(data, PLACE)], 0)
    return stack.outputs


@cache
def sealed_frames() -> tuple[bytes, ...]:
    """Frames of all streams."""
    writer = FrameWriter(FuzzSecrets(), ALICE.raw, 0, CLUSTER, KEYRING.active)
    texts = [(0 if batch.dest is None else 1, b"".join(wire.encode_inner(batch))) for batch in (
        Batch(ALICE, None, (b"one", b"two")), Batch(ALICE, BOB, (b"x",)), Batch(ALICE, None, (b"", b"three")))]
    texts.append((2, Handshake(BOB.raw, b"c" * 16, bytes(16), 1, 1).encode()))
    return tuple(b"".join(writer.seal(stream, [text])) for stream, text in texts)


def sealed_texts() -> tuple[bytes, ...]:
    """What a member with the key may put into a frame."""
    return tuple(b"".join(wire.encode_inner(Batch(ALICE, BOB if at % 2 else None, ((), (b"x",), (b"x", b"yz"))[at % 3],
                                                  (header,)))) for at, (header, _) in enumerate(collected()))


def read_batch(data: bytes) -> object:
    """A batch inside a message."""
    return wire.unpack_batch(wire.Reader(data, wire.Interner()))


def batches() -> tuple[bytes, ...]:
    """Some of them."""
    found = []
    for at, (header, _) in enumerate(collected()[:12]):
        out = bytearray()
        wire.pack_batch(Batch(ALICE, BOB if at % 2 else None, ((), (b"x",), (b"x", b"yz"))[at % 3], (header,)), out)
        found.append(bytes(out))
    return tuple(found)


# --- memberlist, Serf, Influx, Aeron ----------------------------------------------------------------------------------

def alive(name: str, incarnation: int = 1) -> Alive:
    """A node."""
    return Alive(incarnation, name, PLACE, address_of(name, PLACE), None, b"\xff\x81\xa1k\xa1v")


def packets(context: CodecContext) -> tuple[bytes, ...]:
    """Datagrams of every shape."""
    messages = [write_message(header, context) for header in (
        PingHeader(1, "a", "b", PLACE), PingFor(2, "us", PLACE, address_of("us", PLACE), True, "b", PLACE),
        ProbeAck(4, b"\1\2"),
        SuspectedHeader(7, "us", "agent", 0), alive("us"), UserMessage(serf_message()))]
    single = [write_packet([message], compress=compress, check=check)
              for message in messages for compress, check in ((False, False), (True, False), (False, True))]
    whole = [*single, write_packet(messages, compress=False, check=True),
             write_packet(messages, compress=True, check=False)]
    keyring = context.keyring
    return tuple(whole if keyring is None else [keyring.sealed(packet) for packet in whole])


def streams(context: CodecContext) -> tuple[bytes, ...]:
    """What goes over a stream."""
    states = tuple(NodeState(alive(f"node{number}"), number % 4) for number in range(5))
    return tuple(write_stream(header, context, compress=compress) for compress in (False, True) for header in (
        PushPull(0, False, True, (), b""), PushPull(0, False, False, states, serf_state()),
        PingHeader(1, "a", "b", PLACE), ProbeAck(1, b""), UserMessage(b"x" * 300), StreamFailure("no room")))


def read_stream(context: CodecContext) -> Callable[[bytes], object]:
    """In pieces, as streams come."""
    def read(data: bytes) -> None:
        reader, size = StreamReader(context), len(data) // PIECES + 1
        for at in range(0, len(data), size):
            reader.feed(data[at:at + size])
    return read


def serf_message() -> bytes:
    """An event."""
    return serf.write_message(serf.SerfEvent(3, "deploy", b"payload", True))


def serf_messages() -> tuple[bytes, ...]:
    """All kinds."""
    return tuple(map(serf.write_message, (
        serf.SerfJoin(1, "a"), serf.SerfLeave(2, "b", True), serf.SerfEvent(3, "e", b"p"),
        serf.SerfEvent((1 << 64) - 1, "deploy", b"", True))))


def serf_state() -> bytes:
    """What a push-pull carries."""
    return serf.write_state(serf.SerfState(9, {"a": 1, "b": 2}, ("b",), 4, (serf.SerfEvent(3, "e", b"p"),), 5))


def influx_frames() -> tuple[bytes, ...]:
    """Pings, pongs and payloads."""
    peers = (influx.InfluxPeer(BOB, ("10.0.0.2", 8082), interest_in(1, 63)), influx.InfluxPeer(ALICE, ("::1", 80),
                                                                                                interest_in(0)))
    return tuple(influx.write_frame(influx.InfluxFrame(ALICE, entries)) for entries in (
        (), (influx.InfluxPing(interest_in(0, 7)),), (influx.InfluxPong(peers, interest_in(3)),),
        (influx.InfluxPayload(b"\0payload", 63), influx.InfluxPing(interest_in(5)))))


def read_res(data: bytes) -> object:
    """An Aeron frame, and what a participant makes of its entries."""
    gossip = NameGossip("me", ("127.0.0.1", 8050), seconds(10))
    return [gossip.take(entry, "10.0.0.1", seconds(100)) for entry in res.decode_frame(data)]


def res_frames() -> tuple[bytes, ...]:
    """With IPv4, IPv6, wildcards, several entries."""
    entries = (res.NameEntry("B", "127.0.0.1", 8050, 0, True), res.NameEntry("name", "::1", 7800, 2040),
               res.NameEntry("C", "0.0.0.0", 1, 5, True), res.NameEntry("x" * 40, "fe80::1", 65535, 100))
    return tuple(frame for some in (entries, entries[:1], entries[1:2], entries[2:]) for frame in
                 res.encode_frames(some))


# --- MQTT -------------------------------------------------------------------------------------------------------------

def read_federation_events(data: bytes) -> object:
    """The events of one frame between brokers."""
    return [read_message(data[begin:end], 0) for _, begin, end in split_events(data)]


def mqtt_packets(version: ProtocolVersion) -> tuple[bytes, ...]:
    """Packets of every type."""
    rng = Random(version)
    return tuple(encode(random_packet(rng, version), version) for _ in range(200))


def read_mqtt(version: ProtocolVersion | None) -> Callable[[bytes], object]:
    """A stream in pieces; some packets, drawn by the input, are written again, and are the same then.

    version: None for what a client sends.
    """
    def read(data: bytes) -> None:
        decoder = Decoder(SentBy.EITHER if version else SentBy.CLIENT, version)
        size, now, rng = len(data) // PIECES + 1, version, Random(crc32(data))
        for at in range(0, len(data), size):
            packets: list[tuple[Packet, ProtocolVersion]] = []
            for packet in decoder.feed(data[at:at + size]):
                now = packet.version if isinstance(packet, ConnectPacket) else now
                assert now is not None
                packets.append((packet, now))
            for packet, spoken in rng.sample(packets, min(len(packets), WRITTEN_AGAIN)):
                assert decode(encode(packet, spoken), spoken) == packet
            assert decoder.pending_bytes <= len(data)
    return read


def mqtt_connections() -> tuple[bytes, ...]:
    """CONNECT and what a client may send after it."""
    found = []
    for version in ProtocolVersion:
        sent = []
        for data in mqtt_packets(version):
            with suppress(MqttError):
                decoder = Decoder(SentBy.CLIENT, version)
                sent += [data] if decoder.feed(data) else []
        connect = encode(ConnectPacket("fuzz", version), version)
        found += [connect + b"".join(sent[at:at + 5]) for at in range(0, len(sent), 5)]
    return tuple(found)


# --- files ------------------------------------------------------------------------------------------------------------

def journal_records() -> tuple[bytes, ...]:
    """A segment, and each of its records alone."""
    row = SiteRow("SFO", 1, None, (ALICE,), {ALICE: 7}, {ALICE: 3}, {ALICE: ((3, 5),)}, 2)
    held = Batch(ALICE, None, (b"one", b"", b"three"), (wire.AppHeaders({200: b"trace"}),), 1)
    parts = tuple(map(bytes, (journal.owner_record("demo", "NYC"), journal.batch_record(ALICE, 41, 17, held),
                              journal.state_record(journal.StateRecord((row,), {ALICE: 6}, ("A", "B"))))))
    return (b"".join(parts), *parts)


def read_journal(data: bytes) -> object:
    """A segment as it is."""
    return list(journal.read_records(data, wire.Interner(), journal.JournalDamage()))


def read_journal_resealed(data: bytes) -> object:
    """One record with right checksums around a mutated body: the first byte is its kind."""
    if not data:
        return read_journal(data)
    body = data[journal.HEAD_BYTES:]
    head = struct.pack(">BII", data[0] % 7, len(body), crc32(body))
    return read_journal(head + struct.pack(">I", crc32(head)) + body)


def sealed_journal() -> tuple[bytes, ...]:
    """The same records, sealed; and the segment with its preamble."""
    key = group_key(bytes(range(32)), ACTIVE)
    head = preamble(key, bytes(32))
    data = bytes(journal.Written(journal.SEAL, head))
    for record in (journal.owner_record("demo", "NYC"), journal.clock_record(7),
                   journal.batch_record(ALICE, 41, 17, Batch(ALICE, None, (b"one", b"three")))):
        data += record.sealed(journal_cipher(), len(data))
    return data, data[:80]


@cache
def journal_cipher() -> FileCipher:
    """What opens them."""
    key = group_key(bytes(range(32)), ACTIVE)
    return FileCipher(key, preamble(key, bytes(32)), b"hold")


def read_sealed_journal(data: bytes) -> object:
    """A sealed segment: its preamble, then what opens."""
    journal.seal_of(data)
    return list(journal.read_records(data, wire.Interner(), journal.JournalDamage(), journal_cipher()))


def archive_bodies() -> tuple[bytes, ...]:
    """Arrow record batches of runs."""
    view = ViewId(3, ALICE)
    some = [Record("start", 5, None, detail={"pid": 7}),
            Record("sent", 6, view, rows=3, origin=ALICE, stream="all", first=1, sizes=(1, 2, 3),
                   headers=(wire.AppHeaders({200: b"h"}),)),
            Record("delivered", 7, view, rows=3, origin=BOB, origin_site="SFO", stream="all", first=1, sizes=2,
                   payloads=(b"ab", b"cd", b"ef")),
            Record("lost", 9, view, count=5, origin=ALICE, stream="all", first=9)]
    return tuple(lines_of(part, 0, 0).serialize().to_pybytes() for part in (some, some[1:3], some[:1]))


def archive_file(*bodies: bytes) -> bytes:
    """A segment whose checksums are right, whatever the bodies are."""
    records = [framing.record(framing.BATCH, body + bytes(-len(body) % framing.ALIGNMENT), 8, 8 * at)
               for at, body in enumerate(bodies)]
    return framing.owner_record({"member": "A"}, 0) + b"".join(bytes(part) for record in records for part in record)


def read_archive(data: bytes) -> None:
    """All rows of a segment, as readers get them."""
    path = scratch() / "segment"
    path.unlink(missing_ok=True)                         # the former one may still be mapped
    path.write_bytes(data)
    with OpenSegment(path) as source:
        source.damage()
        for head in source.heads():
            lines = source.lines(head)
            if lines is not None:
                plain(unfold(lines))


@cache
def scratch() -> Path:
    """A folder for the run."""
    return Path(tempfile.mkdtemp(prefix="jgroups_py-fuzz-"))


def stack_files(ending: str) -> tuple[bytes, ...]:
    """The packaged ones."""
    return tuple(path.read_bytes() for path in sorted(load.stacks_folder().glob(f"*.{ending}")))


def read_stack(ending: str) -> Callable[[bytes], object]:
    """A stack file with this ending."""
    path = load.stacks_folder() / f"fuzz.{ending}"
    return lambda data: load.parse(load.decode(data, str(path)), str(path))


@cache
def coordination_messages() -> tuple[bytes, ...]:
    """One of each kind, so that every one is mutated."""
    head = 3, 1, 1, 0
    more = (coordination.Arrive(*head, "b", 2), coordination.WriteCell(*head, "c", coordination.SET, b"o", b"n"),
            coordination.WriteCounter(*head, "n", True, None, -5), coordination.PutItem(*head, "q", b"v"),
            coordination.TakeItem(*head, "q"), coordination.WatchCell(*head, "c", True),
            coordination.JoinOwners(*head, "s", 64, 1, "A"), coordination.LeaveOwners(*head, "s"),
            coordination.ReadOwners("s"), coordination.OwnersTable(64, 2, ((3, ALICE, 9),)),
            coordination.PartitionGranted("s", 3, 9), coordination.PartitionRevoked(9))
    return tuple(map(coordination.encode, (*[message for message, _ in COORDINATION_MESSAGES], *more)))


def busy_machine() -> CoordinationMachine:
    """A store with one of everything: sessions 11 and 12, of which the first has all there is, the second waits."""
    machine = CoordinationMachine()
    numbers = iter(range(1, 100))

    def do(kind: type[coordination.SessionCommand], session: int, *fields: object) -> None:
        machine.apply(coordination.encode(kind(session, next(numbers), 0, 0, *fields)))
    for owner in (ALICE, BOB):
        machine.apply(coordination.encode(coordination.OpenSession(owner, 3000, 10)))
    for session in (11, 12):
        do(coordination.Acquire, session, coordination.LOCK, "l", 1)
        do(coordination.JoinOwners, session, "s", 4, 1, "label")
    do(coordination.Arrive, 11, "b", 3)
    do(coordination.PutItem, 11, "q", b"item")
    do(coordination.TakeItem, 11, "q")
    do(coordination.WriteCell, 11, "c", coordination.SET, None, b"value")
    do(coordination.WatchCell, 12, "c", True)
    do(coordination.WriteCounter, 12, "n", True, None, 5)
    return machine


def carry_out_in(copy: bytes) -> Callable[[bytes], object]:
    """A reader that gives its input to a machine as a command, a query, and once more: nothing may raise."""
    def carry_out(data: bytes) -> None:
        machine = CoordinationMachine()
        machine.load(copy)
        for call in (machine.apply, machine.read, machine.apply):
            coordination.decode(call(data))
        machine.load(machine.save())
    return carry_out


@cache
def targets() -> dict[str, Target]:
    """All of them by name."""
    for known in KNOWN.values():
        known.load()
    messages = tuple(replicas.encode(message) for message, _ in REPLICA_MESSAGES)
    entries = file_of(ALICE, PLACE), file_of(BOB, ("10.0.0.1", 1))
    return {target.name: target for target in (
        Target("frame", read_frame, frames()), Target("frame-resealed", read_resealed, frames()),
        Target("batch", read_batch, batches()),
        Target("sealed-frame", read_sealed, sealed_frames(), ()),
        Target("sealed-text", lambda data: wire.decode_inner(data, ALICE.raw, wire.Interner()), sealed_texts()),
        Target("sealed-handshake", decode_handshake, (Handshake(BOB.raw, b"c" * 16, bytes(16), 1, 1).encode(),)),
        Target("keyring", parse_keyring, (KEYRING.with_key(b"l" * 32).as_text().encode(),), (ConfigError,)),
        Target("memberlist-packet", lambda data: read_packet(data, OPEN), packets(OPEN)),
        Target("memberlist-sealed", lambda data: read_packet(data, SEALED), packets(SEALED)),
        Target("memberlist-stream", read_stream(OPEN), streams(OPEN)),
        Target("memberlist-sealed-stream", read_stream(SEALED), streams(SEALED)),
        Target("serf-message", serf.read_message, serf_messages()),
        Target("serf-state", serf.read_state, (serf_state(),)),
        Target("tags", unpack_tags, (b"\xff\x82\xa4role\xa3web\xa2dc\xa1a", b"web"), ()),
        Target("influx", influx.read_frame, influx_frames()),
        Target("aeron-res", read_res, res_frames()),
        Target("journal", read_journal, journal_records(), ()),
        Target("journal-resealed", read_journal_resealed, journal_records(), ()),
        Target("journal-sealed", read_sealed_journal, sealed_journal(), ()),
        Target("archive", read_archive, (archive_file(*archive_bodies()),), ()),
        Target("archive-body", lambda data: read_archive(archive_file(data)), archive_bodies(), ()),
        Target("file-ping", parse_entry, entries, ()),
        Target("mqtt-3.1.1", read_mqtt(ProtocolVersion.MQTT_3_1_1), mqtt_packets(ProtocolVersion.MQTT_3_1_1),
               (MqttError,)),
        Target("mqtt-5", read_mqtt(ProtocolVersion.MQTT_5), mqtt_packets(ProtocolVersion.MQTT_5), (MqttError,)),
        Target("mqtt-connection", read_mqtt(None), mqtt_connections(), (MqttError,)),
        Target("gmqtt", read_event, tuple(map(bytes.fromhex, GMQTT_EVENTS.values()))),
        Target("gmqtt-ack", read_ack, (ack_bytes(0), ack_bytes(300))),
        Target("gmqtt-client-hello", read_client_hello, (client_hello_bytes("5f0c2a"),)),
        Target("gmqtt-server-hello", read_server_hello, (server_hello_bytes(True, 0), server_hello_bytes(False, 300))),
        Target("mqtt-federation", decode_frame, tuple(encode_frame(frame) for frame, _ in FEDERATION_FRAMES)),
        Target("mqtt-session-offer", SessionOffer.decode, (FEDERATION_SESSIONS[0][0], FEDERATION_SESSIONS[1][0])),
        Target("mqtt-session-queued", lambda data: QueuedDelivery.decode(data, 0),
               (FEDERATION_SESSIONS[2][0], FEDERATION_SESSIONS[3][0])),
        Target("mqtt-session-moved", SessionMoved.decode, (FEDERATION_SESSIONS[4][0], FEDERATION_SESSIONS[6][0])),
        Target("mqtt-session-copies",
               lambda data: [SessionCopy(1).apply(part.changes, 0) for part in read_parts(data)[1]],
               tuple(bytes(8) + part_bytes(CopyPart("me", 5, 7, True, True, change_bytes(entry, 0)))
                     for entry, _ in FEDERATION_CHANGES)),
        Target("mqtt-copies-here", read_here, (FEDERATION_COPIES[1][0],)),
        Target("mqtt-copy-wanted", read_wanted, (FEDERATION_COPIES[2][0],)),
        Target("mqtt-federation-events", read_federation_events, (FEDERATION_EVENTS, FEDERATION_EVENTS * 3)),
        *(Target(name, read, seeds) for name, read, seeds in brokers.attacks()),
        *(Target(name, read, seeds, ()) for name, read, seeds in services.attacks()),
        Target("cache", lambda data: caches.MESSAGES.decode(data, wire.Interner()),
               tuple(map(caches.encode, (caches.ForgetKeys((b"k", b"")), caches.ForgetAll())))),
        Target("coordination", coordination.decode, coordination_messages()),
        Target("coordination-carried-out", carry_out_in(busy_machine().save()), coordination_messages(), ()),
        Target("coordination-copy", lambda data: CoordinationMachine().load(data), (busy_machine().save(),)),
        Target("replicas", lambda data: replicas.decode(data, wire.Interner()), messages),
        Target("stack-xml", read_stack("xml"), stack_files("xml"), (ConfigError,), FILE_SECONDS),
        Target("stack-yaml", read_stack("yaml"), stack_files("yaml"), (ConfigError,), FILE_SECONDS),
    )}


