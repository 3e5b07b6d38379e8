"""ENCRYPT: every frame of the stack is sealed, headers included, and nothing is believed that was not opened.

Problem: who reaches a port can read, forge and replay. Idea: the transport, below, gives each frame to this layer
before it is sent and after it arrived (the port FrameSealer). So all layers are covered without knowing it, discovery
and failure detection too, and a frame is sealed once, whatever it holds and however many receive it. Members share a
keyring (mode "shared"); sub-keys, nonces and the renewal of salts are in ciphers.py. What was recorded is of no use: a
counter is accepted once, and a sender that is not known proves that it is alive by answering a challenge (senders.py),
in handshake frames, which are sealed too.

The keyring is read again when its file changes. Members report to each other which keys they hold, so that an operator
sees when the next phase of a rotation may begin (sealing/keyring.py).

Place: directly above the transport; any other place is a ConfigError. Source: JGroups SYM_ENCRYPT.java. Deviations: the
whole frame is sealed, not payloads; nonces are counted, not drawn; frames cannot be replayed; keys are changed without
a pause. What is not protected against: design/encrypt.md.
"""
from __future__ import annotations

from functools import partial
from typing import Any, Final

import attrs

from jgroups_py.model.address import ADDRESS_BYTES, Address, PhysicalAddress
from jgroups_py.model.batch import Batch
from jgroups_py.model.counters import counter, declare, drop, figure
from jgroups_py.model.errors import ConfigError, WireError
from jgroups_py.model.events import (
    ChallengeMember,
    Connect,
    IdentityDecided,
    IdentityRevoked,
    KeyringRead,
    Left,
    SenderProven,
    ViewChange,
    ViewKeyChosen,
)
from jgroups_py.model.outputs import Frame, LogEntry, ReadKeyring
from jgroups_py.model.ports import (
    WAITING,
    AddressBook,
    Authenticator,
    FrameRoom,
    FrameSealer,
    KeyReporter,
    ViewKeys,
)
from jgroups_py.model.units import choice, duration, millis, seconds, text
from jgroups_py.protocols.encrypt.ciphers import EPOCH_BITS, NONCE_STARTS, FrameWriter, Parts, frame_cipher
from jgroups_py.protocols.encrypt.clear_window import ClearWindow
from jgroups_py.protocols.encrypt.handshake import AddressChallenge, Side, transcript
from jgroups_py.protocols.encrypt.headers import CHALLENGE_BYTES, NO_KEYS, NONE, Handshake, KeysHeld, decode_handshake
from jgroups_py.protocols.encrypt.senders import MAX_UNPROVEN, HeldFrame, SealedSender, Senders, Unproven
from jgroups_py.protocols.encrypt.signatures import (
    MOST_TAGS,
    Kind,
    end_before_signature,
    end_before_tags,
    kind_of,
    signed,
    tag_cipher,
    tagged,
)
from jgroups_py.protocols.encrypt.waiting_unicasts import WaitingUnicasts
from jgroups_py.sealing.keyring import ACTIVE, MAX_KEYS, RETIRED, GroupKey, GroupKeyring, group_key, new_keyring
from jgroups_py.sealing.primitives import (
    KEY_BYTES,
    NOT_OPENED,
    PUBLIC_BYTES,
    SIGNATURE_BYTES,
    TAG_BYTES,
    Cipher,
    derive,
    require_library,
)
from jgroups_py.stack.protocol import CONTROL, Protocol, on, receives, timer
from jgroups_py.wire import SOURCE_OFFSET, VERSION, cluster_id
from jgroups_py.wire.frame import MAGIC, clear_frame, clear_text
from jgroups_py.wire.sealed_head import (
    COUNTED_AS,
    COUNTER_OFFSET,
    DISCOVERY_STREAM,
    HANDSHAKE_STREAM,
    HEAD_BYTES,
    MULTICAST_STREAM,
    SEAL_BYTES,
    SEALED_VERSION,
    SIGNED_STREAM,
    STREAMS,
    TAGGED_STREAM,
    UNICAST_STREAM,
    read_head,
)

SHARED, VIEW = "shared", "view"
MAX_EARLY: Final = 256                   # frames that wait for their key; the largest is MAX_EARLY_BYTES
MAX_EARLY_BYTES: Final = 64 << 10
EARLY_NS: Final = seconds(5)             # so long they wait
ASK_AGAIN_NS: Final = millis(200)        # between two challenges to one sender
PROVE_WITHIN_NS: Final = seconds(5)      # then what is held of it is dropped
MOST_COPIED: Final = 4096
UNSEALED: Final = MAGIC + bytes((VERSION,))        # how a frame begins that is not sealed
TAGGED_KINDS: Final = {"none": (Kind.CONTROL,), "pair": (Kind.DATA, Kind.CONTROL), "each": ()}
"""`sign` -> the kinds of multicasts that may have tags."""
HANDSHAKES_A_SECOND: Final = 500         # handshake frames sent, at most


@attrs.frozen
class EncryptConfig:
    """Properties of ENCRYPT."""

    keyring: str = text("", doc="File with the keys that all members share: mode 0600, made by `jgroups keys generate "
                        "--keyring FILE`. The keys themselves never stand in a stack file. With mode=\"view\" it may "
                        "be empty: then what members send before they are in a view can be read by others, names "
                        "among it.")
    mode: str = choice("shared", allowed=(SHARED, VIEW), doc="shared: one keyring for all members. It proves that a "
                       "frame is of a member, not of which one. view: a new key for each view, and one for each two "
                       "members; it needs AUTH. A member that leaves or is excluded reads nothing that is sent later.")
    sign: str = choice("none", allowed=("none", "pair", "each"), doc="With mode=\"view\", how multicasts of the "
                       "application prove which member sent them: not at all, by a tag for each member (32 at most, "
                       "then as each), or by a signature. Those of protocols always are, by tags once all members have "
                       "proven themselves, else by a signature; with each by a signature.")
    reread_ns: int = duration("1s", least="100ms", doc="How often to look whether the file of the keyring has changed.")
    accept_clear_ns: int = duration("0s", most="1h", doc="For the upgrade of a running group: so long after it "
                                    "connected a member also takes and sends frames in clear, if other members need "
                                    "that. Take it out when all members are upgraded: until then others can forge.")
    announce_ns: int = duration("10s", least="100ms", doc="How often a member reports to the others which keys it "
                                "holds. Lower shows the state of a rotation sooner and sends more.")

    def __attrs_post_init__(self) -> None:
        if not self.keyring and self.mode == SHARED:
            raise ConfigError("keyring is empty: give the path of a file (jgroups keys generate --keyring PATH makes "
                              "one)")
        if self.accept_clear_ns and self.mode == VIEW:
            raise ConfigError("accept_clear needs mode='shared': members in clear get no keys of views. Upgrade the "
                              "group to mode='shared' first")
        if self.sign != "none" and self.mode == SHARED:
            raise ConfigError(f"sign={self.sign!r} needs mode='view': with a shared key members are not told apart")


class Encrypt(Protocol, FrameSealer, KeyReporter, ViewKeys):
    """See the module."""

    control_only = True
    needs = {"room": FrameRoom}
    room: FrameRoom
    Config = EncryptConfig
    config: EncryptConfig
    COUNTERS = declare(
        counter("challenges_sent", "Challenges to senders that are not known."),
        counter("senders_proven", "Senders that answered a challenge."),
        counter("clear_frames_accepted", "Frames in clear that were believed (accept_clear)."),
        counter("clear_frames_sent", "Frames that were also sent in clear (accept_clear)."),
        drop("clear_of_proven_dropped", "Frames in clear that claim to be of a member that has shown to have a key: "
                                        "copies for others, or forged."),
        counter("keyrings_read", "Changes of the keyring's file that were taken over."),
        drop("unsealed_dropped", "Frames that are not sealed: of members without ENCRYPT, or forged."),
        drop("malformed_dropped", "Frames that are not of this wire format."),
        drop("foreign_cluster_dropped", "Frames of another cluster."),
        drop("unknown_key_dropped", "Frames sealed with a key that is not in the keyring, or is retired there."),
        drop("not_opened_dropped", "Frames that do not open: damaged, forged, or of another key or network."),
        drop("replayed_dropped", "Frames that were accepted before, or are too old to know; duplicates of the network "
                                 "are among them."),
        drop("unproven_dropped", "Frames of senders that did not answer a challenge in time, or of which too much is "
                                 "held."),
        drop("unsigned_dropped", "Multicasts whose signature or tag is not their sender's, or that lack one."),
        drop("no_key_dropped", "Frames not sent: their receiver has no key with this member yet, or there is no view."),
        drop("unidentified_dropped", "Frames of senders that AUTH has refused."),
        drop("handshakes_refused_dropped", "Handshake frames with an answer to no challenge, for another member, or "
                                           "malformed."),
        drop("handshakes_limited_dropped", "Challenges and answers not sent: too many in this second, or to an unknown "
                                      "place."),
        drop("keyrings_refused_dropped", "Changes of the keyring's file that cannot be used; the former keys stay."),
        drop("key_reports_of_non_members", "Reports on keys from a source that is not in the view."),
        figure("keys", "Keys with which frames are opened."),
        figure("senders", "Senders that have proven themselves and are remembered."),
        figure("senders_unproven", "Senders that were asked for a proof."),
        figure("held_bytes", "Bytes of their frames that are held."),
        figure("frames_sealed", "Frames sealed."),
        figure("frames_opened", "Frames opened and passed on."),
    )

    def start(self) -> None:
        require_library("ENCRYPT")
        self.by_view = self.config.mode == VIEW
        self.keyring: GroupKeyring | None = None
        self.usable: dict[bytes, GroupKey] = {}              # of frames that are not for members alone
        if self.config.keyring:
            self.use_keyring(self.stack.secrets.keyring(self.config.keyring))
        self.cluster = b""
        self.writer: FrameWriter | None = None               # from Connect on
        self.senders = Senders()
        self.members: tuple[Address, ...] = ()
        self.tag_places: dict[bytes, tuple[int, int]] = {}   # address -> `tag_place`, in this view
        self.reports: dict[Address, tuple[bytes, ...]] = {}  # member of the view -> the keys that it holds
        self.frames_sealed = self.frames_opened = 0
        self.handshake_second = self.handshakes_sent = 0
        self.auth: Authenticator | None = self.stack.find(Authenticator)
        if self.by_view and self.auth is None:
            raise ConfigError("ENCRYPT: mode='view' needs AUTH directly above it: a key is given to those that AUTH "
                              "lets in")
        if self.auth is not None and self.config.accept_clear_ns:
            raise ConfigError("ENCRYPT: accept_clear cannot be used with AUTH: members in clear cannot prove who they "
                              "are. Upgrade the group to ENCRYPT first, then add AUTH")
        self.clear: ClearWindow | None = None                # while a group is upgraded, from Connect on
        self.view_key: GroupKey | None = None
        self.pairs: dict[bytes, SealedSender] = {}           # address -> the sender that has proven itself last
        self.outbox = WaitingUnicasts()
        self.early: dict[bytes, tuple[HeldFrame, int]] = {}  # head -> frame whose key may come, and since when
        self.book: AddressBook | None = self.stack.find(AddressBook)
        self.address_challenges: dict[bytes, AddressChallenge] = {}      # address -> how it was challenged

    def stats(self) -> dict[str, float]:
        return {**super().stats(), "keys": len(self.usable), "senders": len(self.senders.proven),
                "senders_unproven": len(self.senders.unproven), "held_bytes": self.senders.held_bytes,
                "frames_sealed": self.frames_sealed, "frames_opened": self.frames_opened}

    @on(Connect)
    def connecting(self, event: Connect) -> None:
        self.cluster = cluster_id(event.cluster)
        if self.keyring is None:
            # Not secret, as the cluster's name is not: these frames are believed because they are signed.
            self.use_keyring(new_keyring(derive(event.cluster.encode(), b"jgroups_py open door")))
        assert self.keyring is not None
        self.writer = FrameWriter(self.stack.secrets, self.me.raw, self.stack.net, self.cluster, self.keyring.active,
                                  exchanges=self.auth is not None)
        if self.config.keyring:
            self.set_timer("reread", self.config.reread_ns)
            self.set_timer("announce", self.config.announce_ns)
        if self.config.accept_clear_ns:
            self.clear = ClearWindow(self.now_ns + self.config.accept_clear_ns)
            self.copies_clear = True
            self.tell_clear()

    def use_keyring(self, keyring: GroupKeyring) -> None:
        """Seal and open with these keys from now on."""
        self.keyring = keyring
        self.usable = keyring.usable()

    @on(ViewChange)
    def view_changed(self, event: ViewChange) -> None:
        self.members = event.view.members
        self.tag_places = {}
        self.senders.members = frozenset(member.raw for member in self.members)
        self.reports = {member: held for member, held in self.reports.items() if member in self.members}
        if self.clear is not None:
            self.clear.installed(self.members, self.me)
        if self.by_view or self.clear is not None:
            for member in self.members:
                physical = self.book.physical_of(member) if self.book is not None else None
                if member != self.me and member.raw not in self.pairs and physical is not None:
                    self.challenge_member(ChallengeMember(member, physical))
        if self.writer is not None and (self.config.keyring or self.by_view):
            # Spread: members that install a view together must not report together.
            self.set_timer("announce", self.rng.randrange(seconds(1)))

    # --- out --------------------------------------------------------------------------------------------------------

    def overhead(self) -> int:
        trailer = MOST_TAGS * TAG_BYTES if self.config.sign == "pair" else SIGNATURE_BYTES
        return SEAL_BYTES + (trailer if self.config.mode == VIEW else 0)

    def seal(
        self, text: Parts, dest: Address | None, physical: PhysicalAddress | None,
    ) -> Parts | None:
        writer, now_ns = self.writer, self.stack.now_ns
        assert writer is not None, "nothing is sent before Connect"
        if now_ns >= writer.note_at_ns:
            writer.note(now_ns)
        if not self.by_view:
            self.frames_sealed += 1
            return writer.seal(MULTICAST_STREAM if dest is None else UNICAST_STREAM, text)
        if dest is None:
            return self.seal_multicast(writer, text)
        to = self.pairs.get(dest.raw)
        if to is None or to.pair is None:
            self.wait_for_pair(dest, b"".join(text), physical)
            return None
        self.frames_sealed += 1
        return writer.seal(UNICAST_STREAM, text, to.pair)

    def seal_multicast(self, writer: FrameWriter, parts: Parts) -> Parts | None:
        """In mode "view": for members under the view's key, signed or tagged as the kind of the text demands."""
        kind = kind_of(parts[0])                             # it has all headers
        if kind is Kind.DISCOVERY:
            self.frames_sealed += 1
            return writer.seal(DISCOVERY_STREAM, parts, None, self.signed)
        if self.view_key is None:
            self.drop("no_key_dropped", None, "this member is in no view", number=1)
            return None
        self.frames_sealed += 1
        if kind is Kind.DATA and self.config.sign == "none":
            return writer.seal(MULTICAST_STREAM, parts, self.view_key)
        if self.config.sign == "pair" or (self.config.sign == "none" and self.has_room_for_tags(parts)):
            ciphers = self.tag_ciphers(writer)
            # A member that has not proven itself gets no tag, so it drops the frame. Data comes again then; what
            # protocols multicast may not, so that is signed: the member can verify it as soon as it knows this one.
            if ciphers is not None and (kind is Kind.DATA or None not in ciphers):
                return writer.seal(TAGGED_STREAM, parts, self.view_key, partial(tagged, ciphers))
        return writer.seal(SIGNED_STREAM, parts, self.view_key, self.signed)

    def has_room_for_tags(self, parts: Parts) -> bool:
        """Whether a text with a tag for each other member fits a frame: with sign="none" `overhead` has room for a
        signature only, so that messages, which are not tagged then, fill their frames."""
        tags = TAG_BYTES * (len(self.members) - 1)
        return SEAL_BYTES + sum(map(len, parts)) + tags <= self.room.max_frame_bytes()

    def signed(self, stream: int, count: int, head: bytes, parts: Parts) -> bytes:
        """The text of a multicast with a signature."""
        assert self.writer is not None
        assert self.writer.signer is not None, "there is AUTH"
        return signed(self.writer.signer, head, parts)

    def tag_ciphers(self, writer: FrameWriter) -> list[Cipher | None] | None:
        """What makes the tags for the other members, in the order of the view; None instead of one that has not proven
        itself. None: there are too many members for tags."""
        if len(self.members) > MOST_TAGS + 1:
            return None
        ciphers: list[Cipher | None] = []
        for member in self.members:
            if member != self.me:
                to = self.pairs.get(member.raw)
                if to is not None and to.tag_out is None and to.pair is not None:
                    to.tag_out = tag_cipher(to.pair.secret, writer.sender)
                ciphers.append(None if to is None else to.tag_out)
        return ciphers

    def wait_for_pair(self, dest: Address, text: bytes, physical: PhysicalAddress | None) -> None:
        """There is no key yet with the receiver of a unicast: it waits until both have proven themselves."""
        if physical is None:
            return self.drop("no_key_dropped", None, f"{dest} has no key yet, and its place is unknown", number=1)
        if not self.outbox.add(dest.raw, text, physical):
            self.drop("no_key_dropped", None, f"{dest} has not proven itself, and too much waits", number=1)
        self.challenge_member(ChallengeMember(dest, physical))
        return None

    # --- the upgrade of a group in clear ------------------------------------------------------------------------------

    def clear_copy(self, text: list[bytes | bytearray], dest: Address | None) -> list[bytes | bytearray] | None:
        if self.clear is None or not self.clear.sends_clear(None if dest is None else dest.raw, self.now_ns):
            return None
        self.count("clear_frames_sent")
        return clear_frame(self.cluster, self.me.raw, text)

    def open_clear(self, window: ClearWindow, data: bytes, physical: PhysicalAddress | None) -> bytes | None:
        """The text of a frame in clear, if one of its source is believed; it is challenged, as it may have a key."""
        source = data[SOURCE_OFFSET:SOURCE_OFFSET + ADDRESS_BYTES]
        try:
            text = clear_text(data, self.cluster)
        except WireError as error:
            self.refuse("foreign_cluster_dropped" if str(error) == "foreign cluster" else "malformed_dropped", data)
            return None
        if not window.takes(source, self.now_ns):
            self.refuse("clear_of_proven_dropped" if window.is_open(self.now_ns) else "unsealed_dropped", data)
            return None
        self.count("clear_frames_accepted")
        if physical is not None and window.asks(source, self.now_ns):
            self.challenge_member(ChallengeMember(Address(source), physical))
        return text

    @timer("clear")
    def tell_clear(self) -> None:
        """Each minute: how long frames in clear still count, and for which members; at the end: that they do not."""
        window = self.clear
        if window is None:
            return
        left_ns = window.until_ns - self.now_ns
        if left_ns <= 0:
            self.clear = None
            self.copies_clear = False
            return self.emit(LogEntry("warning", "ENCRYPT takes and sends nothing in clear any more: accept_clear is "
                                      "over"))
        unproven = dict.fromkeys(window.unproven())
        names = ", ".join(str(member) for member in self.members if member.raw in unproven) or "none"
        minutes = left_ns / seconds(60)
        self.emit(LogEntry("warning", f"ENCRYPT takes and sends frames in clear for another {minutes:.1f} minutes "
                           f"(accept_clear): anybody can forge; members without ENCRYPT: {names}"))
        self.set_timer("clear", min(left_ns, seconds(60)))
        return None

    # --- in ---------------------------------------------------------------------------------------------------------

    def open(self, data: bytes, physical: PhysicalAddress | None) -> tuple[bytes, int] | None:
        if len(data) < SEAL_BYTES:
            return self.unfit(data, physical)
        magic, version, stream, key_id, cluster, name, count = read_head(data)
        if magic != MAGIC or version != SEALED_VERSION or stream >= STREAMS:
            return self.unfit(data, physical)
        if cluster != self.cluster:
            self.refuse("foreign_cluster_dropped", data)
            return None
        sender = self.senders.proven.get(name)
        key = self.key_of(stream, key_id, sender) if self.by_view else self.usable.get(key_id)
        if key is None:
            self.key_missing(data, stream, name, physical)
            return None
        if sender is not None:
            window = sender.windows[COUNTED_AS[stream]]
            if count <= window.top and not window.accepts(count):
                self.refuse("replayed_dropped", data)
                return None
            found = sender
        else:
            waiting = self.senders.unproven.get(name)
            found = waiting.sender if waiting is not None else SealedSender()
        try:
            text = self.opened(found, data, stream, key, name, count)
            end = len(text)
            if self.by_view and sender is not None:
                end = self.authentic(sender, data[:HEAD_BYTES], stream, name, count, text)
        except WireError as error:
            self.refuse("not_opened_dropped" if str(error) == NOT_OPENED else "unsigned_dropped", data)
            return None
        if stream == HANDSHAKE_STREAM:
            self.handshake_arrived(name, found, text, count, physical)
        elif sender is not None:
            window.accept(count)
            self.frames_opened += 1
            return text, end
        else:
            self.hold(name, found, data, stream, count, physical)
        return None

    def key_of(self, stream: int, key_id: bytes, sender: SealedSender | None) -> GroupKey | None:
        """The key of a frame, if it is one that may seal this stream."""
        if not self.by_view or stream in (HANDSHAKE_STREAM, DISCOVERY_STREAM):
            return self.usable.get(key_id)
        key = self.view_key if stream != UNICAST_STREAM else None if sender is None else sender.pair
        return key if key is not None and key.id == key_id else None

    def key_missing(self, data: bytes, stream: int, name: bytes, physical: PhysicalAddress | None) -> None:
        """A frame of a key that is not here. In mode "view" it may come: with the next view, or with the sender's
        proof, which is asked for."""
        if not self.by_view or stream in (HANDSHAKE_STREAM, DISCOVERY_STREAM) or len(data) > MAX_EARLY_BYTES:
            return self.refuse("unknown_key_dropped", data)
        head = data[:HEAD_BYTES]
        if head in self.early:
            return self.refuse("unknown_key_dropped", data)
        if len(self.early) >= MAX_EARLY:
            self.drop_early(next(iter(self.early)))
        if not self.early:
            self.set_timer("early", EARLY_NS)
        self.early[head] = (bytes(data), physical), self.now_ns
        if stream == UNICAST_STREAM and name not in self.senders.proven and physical is not None:
            self.challenge_member(ChallengeMember(Address(name[:ADDRESS_BYTES]), physical))
        return None

    def drop_early(self, head: bytes) -> None:
        """The key of this frame has not come."""
        (data, _), _ = self.early.pop(head)
        self.refuse("unknown_key_dropped", data)

    @timer("early")
    def drop_late(self) -> None:
        """Drop the frames whose key has not come in time: a process without keys can send as many as it likes."""
        for head in [head for head, (_, at_ns) in self.early.items() if self.now_ns - at_ns >= EARLY_NS]:
            self.drop_early(head)
        if self.early:
            _, oldest_ns = next(iter(self.early.values()))
            self.set_timer("early", oldest_ns + EARLY_NS - self.now_ns)

    def release_early(self) -> None:
        """Pass on the frames whose key has come."""
        ready = []
        for head, (held, _) in list(self.early.items()):
            _, _, stream, key_id, _, name, _ = read_head(head)
            if self.key_of(stream, key_id, self.senders.proven.get(name)) is not None:
                del self.early[head]
                ready.append(held)
        if ready:
            frames = tuple(ready)
            self.later(lambda: self.pass_down(SenderProven(frames)))

    def authentic(
        self, sender: SealedSender, head: bytes, stream: int, name: bytes, count: int, text: bytes,
    ) -> int:
        """Where the text of a frame ends, before its signature or tags. Raises WireError: they are not its sender's, or
        missing."""
        if stream in (UNICAST_STREAM, HANDSHAKE_STREAM):
            return len(text)
        kind = kind_of(text)
        if stream in (DISCOVERY_STREAM, SIGNED_STREAM):
            if (kind is Kind.DISCOVERY) != (stream == DISCOVERY_STREAM) or kind is Kind.UNICAST:
                raise WireError("it is of another kind than its stream")
            return end_before_signature(sender, head, text)
        if stream == MULTICAST_STREAM:
            if kind is not Kind.DATA:
                raise WireError("control messages are signed")
            if self.config.sign != "none":
                raise WireError("messages are signed here")
            return len(text)
        if kind not in TAGGED_KINDS[self.config.sign]:
            raise WireError("it is of another kind than its stream")
        number, mine = self.tag_places.get(name[:ADDRESS_BYTES]) or self.tag_place(name[:ADDRESS_BYTES])
        if sender.pair is None or mine < 0:
            raise WireError("no tag is for this member")
        if sender.tag_in is None:
            sender.tag_in = tag_cipher(sender.pair.secret, name)
        return end_before_tags(sender.tag_in, stream, count, head, text, number, mine)

    def tag_place(self, address: bytes) -> tuple[int, int]:
        """How many tags a member's multicasts have in this view, and which one is for this member; -1: none."""
        others = [member.raw for member in self.members if member.raw != address]
        place = len(others), others.index(self.me.raw) if self.me.raw in others else -1
        if len(others) < len(self.members):                  # it is in the view: what others claim is not kept
            self.tag_places[address] = place
        return place

    def unfit(self, data: bytes, physical: PhysicalAddress | None) -> tuple[bytes, int] | None:
        """A frame that is not a sealed one: dropped, but for one in clear while a group is upgraded."""
        if data[:3] != UNSEALED:
            self.refuse("malformed_dropped", data)
        elif self.clear is not None:
            text = self.open_clear(self.clear, data, physical)
            return None if text is None else (text, len(text))
        else:
            self.refuse("unsealed_dropped", data)
        return None

    def opened(self, sender: SealedSender, data: bytes, stream: int, key: GroupKey, name: bytes, count: int) -> bytes:
        """The text of a frame. Raises WireError."""
        which, head = (key.id, count >> EPOCH_BITS), data[:HEAD_BYTES]
        # A view costs as much as copying some kilobytes.
        sealed = data[HEAD_BYTES:] if len(data) < MOST_COPIED else memoryview(data)[HEAD_BYTES:]
        nonce = NONCE_STARTS[stream] + data[COUNTER_OFFSET:HEAD_BYTES]
        cipher = sender.ciphers.get(which)
        if cipher is not None:
            return cipher.open(nonce, sealed, head)
        cipher = frame_cipher(key, self.stack.net, self.cluster, name, which[1])
        text = cipher.open(nonce, sealed, head)
        sender.keep(which, cipher)                           # only now: a forged frame reserves nothing
        return text

    def refuse(self, reason: str, data: bytes) -> None:
        """Count a frame under a reason; nothing is answered."""
        batch = None
        if self.stack.explains:                              # only the log needs it: forged frames come by thousands
            claimed = data[SOURCE_OFFSET:SOURCE_OFFSET + ADDRESS_BYTES].ljust(ADDRESS_BYTES, b"\0")
            batch = Batch(Address(claimed), None)
        self.drop(reason, batch, "it was not believed", number=1)
        if reason == "unsealed_dropped":
            self.warn("dropped a frame that is not sealed: a member without ENCRYPT, or a forgery")
        elif reason == "unknown_key_dropped":
            self.warn("dropped a frame sealed with a key that is not in the keyring, or is retired there")

    # --- senders that are not known ---------------------------------------------------------------------------------

    def hold(
        self, name: bytes, sender: SealedSender, data: bytes, stream: int, count: int, physical: PhysicalAddress | None,
    ) -> None:
        """A frame opens, but may be old: keep it and ask its sender."""
        waiting = self.senders.unproven.get(name)
        ask = waiting is None or self.now_ns - waiting.asked_ns >= ASK_AGAIN_NS
        waiting = self.expect(name, sender)
        if waiting.refused:
            return self.refuse("unidentified_dropped", data)
        if not self.senders.hold(name, stream, count, data, physical):
            self.refuse("unproven_dropped", data)
        if ask:
            waiting.asked_ns = self.now_ns
            self.later(lambda: self.send_handshake(name, waiting.challenge, None, physical))
        return None

    def expect(self, name: bytes, sender: SealedSender) -> Unproven:
        """The entry of a sender that has to prove itself; made if there is none."""
        found = self.senders.unproven.get(name)
        if found is None:
            pending = self.address_challenges.get(name[:ADDRESS_BYTES])
            challenge = pending.challenge if pending is not None else self.stack.secrets.draw(CHALLENGE_BYTES)
            for displaced in self.senders.expect(name, sender, challenge, self.now_ns):
                self.drop_held(displaced, "other senders need the room")
            self.drop_overdue_later()
            found = self.senders.unproven[name]
        return found

    def handshake_arrived(
        self, name: bytes, sender: SealedSender, text: bytes, count: int, physical: PhysicalAddress | None,
    ) -> None:
        """A handshake frame opens: it asks, or answers, or both."""
        try:
            handshake = decode_handshake(text)
        except WireError as error:
            return self.drop("handshakes_refused_dropped", None, str(error))
        if handshake.dest != self.me.raw:
            return self.drop("handshakes_refused_dropped", None, "it is for another member, or an earlier incarnation")
        if sender.windows:
            sender.windows[HANDSHAKE_STREAM].accept(count)
            pending = self.address_challenges.get(name[:ADDRESS_BYTES])
            if pending is not None and handshake.answer == pending.challenge:
                # AUTH had forgotten it, or sees whether its identity was renewed. Answered once, whatever AUTH says: a
                # recording of the answer must not prove it again with old counters, should it be forgotten here.
                del self.address_challenges[name[:ADDRESS_BYTES]]
                self.believes(name, handshake)
        elif handshake.answer != NONE:
            if not self.answers(name, sender, handshake):
                return self.drop("handshakes_refused_dropped", None, "it answers no present challenge")
            if self.believes(name, handshake):
                self.prove(name, handshake, count, physical)
            elif name in self.senders.unproven:
                self.senders.unproven[name].physical = physical
            return None
        if handshake.challenge != NONE:
            if sender.windows:
                self.later(lambda: self.send_handshake(name, NONE, handshake, physical))
            else:
                # The sender is new here too: then one frame answers and asks.
                waiting = self.expect(name, sender)
                if not waiting.refused:
                    self.later(lambda: self.send_handshake(name, waiting.challenge, handshake, physical))
        return None

    def answers(self, name: bytes, sender: SealedSender, handshake: Handshake) -> bool:
        """Whether a handshake frame answers a present challenge to its sender, or to its address."""
        waiting = self.senders.unproven.get(name)
        if waiting is not None:
            if handshake.answer == waiting.challenge:
                return not waiting.refused
            pending = self.address_challenges.get(name[:ADDRESS_BYTES])
            if pending is None or waiting.refused or handshake.answer != pending.challenge:
                return False
            waiting.challenge = pending.challenge
            return True
        pending = self.address_challenges.get(name[:ADDRESS_BYTES])
        if pending is None or handshake.answer != pending.challenge:
            return False
        self.expect(name, sender)
        return True

    def believes(self, name: bytes, handshake: Handshake) -> bool:
        """Whether the sender of an answer is one that AUTH lets in. If not, that is remembered for a while: each
        refusal costs a verification, and a sender that is refused goes on sending."""
        if self.auth is None:
            return True
        assert self.writer is not None
        reason = "its answer has no proof of who it is"
        if self.displaces(name[:ADDRESS_BYTES], handshake):
            reason = "a member of the view has this address, and other keys"
        elif handshake.keys != NO_KEYS:
            proven = transcript(self.stack.net, self.cluster, Side(name, handshake.keys), self.writer.side(), handshake)
            reason = self.auth.refusal(name, handshake.credential, handshake.proof, proven)
        if reason == WAITING:
            return False                                     # what is held of it stays, as long as for any challenge
        if reason:
            number = self.senders.refuse(name)
            self.drop("unidentified_dropped", None, reason, number=1 + number)
        return not reason

    def displaces(self, address: bytes, handshake: Handshake) -> bool:
        """Whether an answer, if it was believed, would put another process in a member's place. With a secret that all
        share (AUTH, psk) its name would not tell. In mode "shared" all members have all keys in any case."""
        present = self.pairs.get(address)
        return (self.by_view and present is not None and present.signing != handshake.keys[PUBLIC_BYTES:]
                and address in self.senders.members)

    @on(ChallengeMember)
    def challenge_member(self, event: ChallengeMember) -> None:
        """Challenge a process of which no frame has come. It answers whether it knows this sender or not."""
        address = event.member.raw
        pending = self.address_challenges.get(address)
        if pending is None:
            if len(self.address_challenges) >= MAX_UNPROVEN:
                del self.address_challenges[next(iter(self.address_challenges))]
            pending = self.address_challenges[address] = AddressChallenge(
                self.stack.secrets.draw(CHALLENGE_BYTES), event.physical, self.now_ns - ASK_AGAIN_NS)
            self.drop_overdue_later()
        if self.now_ns - pending.asked_ns >= ASK_AGAIN_NS:
            pending.asked_ns, pending.physical = self.now_ns, event.physical
            self.later(lambda: self.send_handshake(address, pending.challenge, None, pending.physical))

    @on(IdentityDecided)
    def challenge_again(self, event: IdentityDecided) -> None:
        """AUTH could not decide at once about these senders, and can now."""
        for name in event.senders:
            waiting = self.senders.unproven.get(name)
            if waiting is not None and waiting.physical is not None:
                self.send_handshake(name, waiting.challenge, None, waiting.physical)

    @on(IdentityRevoked)
    def forget(self, event: IdentityRevoked) -> None:
        """AUTH believes these processes no more: neither frames that come nor those that are held."""
        self.senders.forget(frozenset(member.raw for member in event.members))
        for member in event.members:
            self.pairs.pop(member.raw, None)
            self.address_challenges.pop(member.raw, None)    # it may have been answered when the member was believed

    def prove(self, name: bytes, handshake: Handshake, count: int, physical: PhysicalAddress | None) -> None:
        """A sender has answered: what was held of it is passed on, behind the answer to its own challenge."""
        held, old = self.senders.prove(name, handshake, count)
        if old:
            self.drop("replayed_dropped", None, "it was sent long before its sender answered a challenge", number=old)
        if self.clear is not None:
            self.clear.has_proven(name[:ADDRESS_BYTES])
        if self.auth is not None:
            self.pair_with(name, self.senders.proven[name], handshake)
        self.address_challenges.pop(name[:ADDRESS_BYTES], None)
        self.count("senders_proven")
        if handshake.challenge != NONE:
            self.later(lambda: self.send_handshake(name, NONE, handshake, physical))
        if held:
            self.later(lambda: self.pass_down(SenderProven(held)))
        if self.by_view:
            # Behind the answer: the receiver can open unicasts once it has that.
            self.later(lambda: self.send_waiting(name[:ADDRESS_BYTES]))
            self.later(self.release_early)

    def pair_with(self, name: bytes, sender: SealedSender, handshake: Handshake) -> None:
        """AUTH has verified the keys of a sender's exchange: from now on the two have a key that nobody else has."""
        assert self.writer is not None
        assert self.writer.agreement is not None
        sender.signing = handshake.keys[PUBLIC_BYTES:]
        try:
            shared = self.writer.agreement.agree(handshake.keys[:PUBLIC_BYTES])
        except WireError:
            return                                           # a key of low order: it gets no unicasts
        first, second = sorted((self.writer.sender, name))
        info = b"jgroups_py pair" + bytes((self.stack.net,)) + self.cluster + first + second
        sender.pair = group_key(derive(shared, info), ACTIVE)
        self.pairs[name[:ADDRESS_BYTES]] = sender

    def send_waiting(self, address: bytes) -> None:
        """Send the unicasts that waited for a key with their receiver."""
        to = self.pairs.get(address)
        for waiting, physical in self.outbox.take(address):
            if to is not None and to.pair is not None and self.writer is not None:
                self.frames_sealed += 1
                self.emit(Frame(self.stack.net, physical, self.writer.seal(UNICAST_STREAM, [waiting], to.pair)))

    @on(ViewKeyChosen)
    def view_key_chosen(self, event: ViewKeyChosen) -> None:
        """The next view's key. The former one opens nothing from now on: all that was numbered in its view has been
        delivered, and a member that was excluded must not be believed under it."""
        self.view_key = group_key(event.secret, ACTIVE)
        self.forget_ciphers()
        self.later(self.release_early)

    def forget_ciphers(self) -> None:
        """Keep no cipher of a key that is not used any more."""
        if self.writer is not None:
            self.writer.forget_ciphers()
        view = {self.view_key.id: None} if self.view_key is not None else {}
        self.senders.forget_keys({**dict.fromkeys(self.usable), **view})
        if len(self.pairs) > len(self.senders.proven):
            proven = {name[:ADDRESS_BYTES]: None for name in self.senders.proven}
            self.pairs = {address: sender for address, sender in self.pairs.items() if address in proven}

    @on(Left)
    def left(self, event: Left) -> None:
        """Out of the group: its keys are erased."""
        self.view_key = None
        self.pairs = {}
        self.early = {}

    def has_view_keys(self) -> bool:
        return self.config.mode == VIEW

    def new_view_key(self) -> bytes:
        return self.stack.secrets.draw(KEY_BYTES)

    def send_handshake(
        self, name: bytes, challenge: bytes, asked: Handshake | None, physical: PhysicalAddress | None,
    ) -> None:
        """Send a handshake frame to where a frame of the sender came from. At most one for each frame that opened.

        name: of the sender, or its address alone; asked: the handshake frame with the challenge that is answered.
        """
        second = self.now_ns // seconds(1)
        if second != self.handshake_second:
            self.handshake_second, self.handshakes_sent = second, 0
        if physical is None or self.writer is None or self.handshakes_sent >= HANDSHAKES_A_SECOND:
            return self.drop("handshakes_limited_dropped", None, "too many in this second, or its place is not known")
        self.handshakes_sent += 1
        if challenge != NONE:
            self.count("challenges_sent")
        me, counters = self.writer.side(), self.writer.counters
        handshake = Handshake(
            name[:ADDRESS_BYTES], challenge, NONE if asked is None else asked.challenge, counters[MULTICAST_STREAM],
            counters[UNICAST_STREAM], *self.writer.recent(self.now_ns), me.keys)
        if asked is not None and self.auth is not None:
            handshake = attrs.evolve(handshake, credential=self.auth.credential())
            proven = transcript(self.stack.net, self.cluster, me, Side(name, asked.keys), handshake)
            handshake = attrs.evolve(handshake, proof=self.auth.prove(proven))
        self.emit(Frame(self.stack.net, physical, self.writer.seal(HANDSHAKE_STREAM, [handshake.encode()])))
        return None

    def drop_held(self, dropped: Unproven, why: str) -> None:
        """Count what was held of a sender that is forgotten."""
        self.drop("unproven_dropped", None, why, number=len(dropped.held))

    def drop_overdue_later(self) -> None:
        """Begin the timer, unless it runs: others that come meanwhile must not put it off without end."""
        if not self.timer_is_set("unproven"):
            self.set_timer("unproven", PROVE_WITHIN_NS)

    @timer("unproven")
    def drop_overdue(self) -> None:
        """Drop what is held of senders that do not answer."""
        for name in self.senders.overdue(self.now_ns - PROVE_WITHIN_NS + 1):
            self.drop_held(self.senders.drop(name), "its sender did not answer a challenge in time")
        for address in [address for address, pending in self.address_challenges.items()
                        if self.now_ns - pending.asked_ns >= PROVE_WITHIN_NS]:
            del self.address_challenges[address]
        for address in self.outbox.without(self.address_challenges):
            self.drop("no_key_dropped", None, "its receiver did not prove itself in time",
                      number=len(self.outbox.take(address)))
        if self.senders.unproven or self.address_challenges:
            self.set_timer("unproven", ASK_AGAIN_NS)

    # --- keys -------------------------------------------------------------------------------------------------------

    @timer("reread")
    def reread(self) -> None:
        self.emit(ReadKeyring(self.stack.net, self.config.keyring))
        self.set_timer("reread", self.config.reread_ns)

    @on(KeyringRead)
    def keyring_read(self, event: KeyringRead) -> None:
        """The file has changed: from now on its keys count. If it cannot be used the former ones do."""
        if event.path != self.config.keyring:
            return
        if event.keyring is None:
            self.drop("keyrings_refused_dropped", None, event.problem)
            self.emit(LogEntry("error", f"ENCRYPT goes on with its former keys: {event.problem}"))
            return
        if event.keyring == self.keyring:
            return
        self.use_keyring(event.keyring)
        self.forget_ciphers()
        self.count("keyrings_read")
        active = event.keyring.active
        self.emit(LogEntry("info", f"ENCRYPT seals with key {active.name} and opens with {len(self.usable)} keys"))
        if self.writer is not None:
            self.writer.use(active)
            self.announce()

    @timer("announce")
    def announce(self) -> None:
        if self.keyring is None or (self.by_view and self.view_key is None):
            return self.set_timer("announce", self.config.announce_ns)
        held = self.held_keys(self.keyring)
        self.reports[self.me] = held
        # Members without ENCRYPT do not know this header.
        if len(self.members) > 1 and not (self.clear is not None and self.clear.sends_clear(None, self.now_ns)):
            self.pass_down(Batch(self.me, None, (), (KeysHeld(held),), CONTROL))
        self.set_timer("announce", self.config.announce_ns)
        return None

    @receives(KeysHeld)
    def keys_held(self, header: KeysHeld, batch: Batch) -> None:
        if batch.src in self.members and 0 < len(header.key_ids) <= MAX_KEYS + 1:
            self.reports[batch.src] = header.key_ids
        else:
            self.drop("key_reports_of_non_members", batch, "its source is not in the view", header, number=1)

    def held_keys(self, keyring: GroupKeyring) -> tuple[bytes, ...]:
        """The ids that this member reports: the active key, others of the keyring, and that of the view if it has
        one."""
        active = keyring.active.id
        view = () if self.view_key is None else (self.view_key.id,)
        return (active, *(key for key in self.usable if key != active), *view)

    def key_report(self) -> dict[str, Any]:
        if self.keyring is None:
            return {"keyring": "", "members": len(self.members), "keys": [], "view_key": None, "refused": {}}
        self.reports[self.me] = self.held_keys(self.keyring)
        members = self.members or (self.me,)

        def holders(key: GroupKey) -> list[Address]:
            return [member for member in members if key.id in self.reports.get(member, ())]

        keys = []
        # Without a file there is only the key of the open door, which is no secret and is never changed.
        for key in self.keyring.keys if self.config.keyring else ():
            held = holders(key)
            seal = [member for member in held if self.reports[member][0] == key.id]
            keys.append({"id": key.name, "state": key.state, "held_by": len(held), "active_at": len(seal),
                         "not_held_by": [] if key.state == RETIRED else [str(m) for m in members if m not in held],
                         "not_active_at": [str(member) for member in members if member not in seal]})
        view_key = None
        if self.view_key is not None:
            held = holders(self.view_key)
            view_key = {"id": self.view_key.name, "held_by": len(held),
                        "not_held_by": [str(member) for member in members if member not in held]}
        refused = {name: number for name, number in self.counters.items() if name.endswith("_dropped") and number}
        return {"keyring": self.config.keyring, "members": len(members), "keys": keys, "view_key": view_key,
                "refused": refused}
