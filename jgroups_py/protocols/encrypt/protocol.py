"""ENCRYPT: every frame of the stack is sealed, headers included, and nothing is believed that was not opened.

Problem: who reaches a port can read, forge and replay. Idea: the transport, below, gives each frame to this layer
before it is sent and after it arrived (the port FrameSealer). So all layers are covered without knowing it, discovery
and failure detection too, and a frame is sealed once, whatever it holds and however many receive it. Members share a
keyring (mode "shared"); sub-keys, nonces and the renewal of salts are in ciphers.py. What was recorded is of no use: a
counter is accepted once, and a sender that is not known proves that it is alive by answering a challenge (senders.py),
in door frames, which are sealed too.

The keyring is read again when its file changes. Members report to each other which keys they hold, so that an operator
sees when the next phase of a rotation may begin (sealing/keyring.py).

Place: directly above the transport; any other place is a ConfigError. Source: JGroups SYM_ENCRYPT.java. Deviations: the
whole frame is sealed, not payloads; nonces are counted, not drawn; frames cannot be replayed; keys are changed without
a pause. What is not protected against: design/encrypt.md.
"""
from __future__ import annotations

from typing import Any, Final

import attrs

from jgroups_py.model.address import ADDRESS_BYTES, Address, PhysicalAddress
from jgroups_py.model.batch import Batch
from jgroups_py.model.counters import counter, declare, drop, figure
from jgroups_py.model.errors import ConfigError, WireError
from jgroups_py.model.events import Connect, IdentityRevoked, KeyringRead, MeetMember, SenderProven, ViewChange
from jgroups_py.model.outputs import Frame, LogEntry, ReadKeyring
from jgroups_py.model.ports import Authenticator, FrameSealer, KeyReporter
from jgroups_py.model.units import choice, duration, millis, seconds, text
from jgroups_py.protocols.encrypt.ciphers import EPOCH_BITS, FrameWriter, frame_cipher, nonce_of
from jgroups_py.protocols.encrypt.handshake import Greeting, Side, transcript
from jgroups_py.protocols.encrypt.headers import CHALLENGE_BYTES, NO_KEYS, NONE, Door, KeysHeld, decode_door
from jgroups_py.protocols.encrypt.senders import MAX_UNPROVEN, SealedSender, Senders, Unproven
from jgroups_py.sealing.keyring import MAX_KEYS, RETIRED, GroupKeyring
from jgroups_py.sealing.primitives import require_library
from jgroups_py.stack.protocol import CONTROL, Protocol, on, receives, timer
from jgroups_py.wire import SOURCE_OFFSET, VERSION, cluster_id
from jgroups_py.wire.frame import MAGIC
from jgroups_py.wire.sealed_head import (
    DOOR_STREAM,
    HEAD_BYTES,
    MULTICAST_STREAM,
    SEAL_BYTES,
    SEALED_VERSION,
    STREAMS,
    UNICAST_STREAM,
    read_head,
)

ASK_AGAIN_NS: Final = millis(200)        # between two challenges to one sender
PROVE_WITHIN_NS: Final = seconds(5)      # then what is held of it is dropped
UNSEALED: Final = MAGIC + bytes((VERSION,))        # how a frame begins that is not sealed
DOORS_A_SECOND: Final = 500              # door frames sent, at most


@attrs.frozen
class EncryptConfig:
    """Properties of ENCRYPT."""

    keyring: str = text(doc="File with the keys that all members share: mode 0600, made by `jgroups key new`. The "
                        "keys themselves never stand in a stack file.")
    mode: str = choice("shared", allowed=("shared",), doc="shared: one keyring for all members. It proves that a frame "
                       "is of a member, not of which one.")
    reread_ns: int = duration("1s", least="100ms", doc="How often to look whether the file of the keyring has changed.")
    announce_ns: int = duration("10s", least="100ms", doc="How often a member reports to the others which keys it "
                                "holds. Lower shows the state of a rotation sooner and sends more.")

    def __attrs_post_init__(self) -> None:
        if not self.keyring:
            raise ConfigError("keyring is empty: give the path of a file (jgroups key new PATH makes one)")


class Encrypt(Protocol, FrameSealer, KeyReporter):
    """See the module."""

    control_only = True
    Config = EncryptConfig
    config: EncryptConfig
    COUNTERS = declare(
        counter("challenges_sent", "Challenges to senders that are not known."),
        counter("senders_proven", "Senders that answered a challenge."),
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
        drop("unidentified_dropped", "Frames of senders that AUTH has refused."),
        drop("doors_refused_dropped", "Door frames with an answer to no challenge, for another member, or malformed."),
        drop("doors_limited_dropped", "Challenges and answers not sent: too many in this second, or to an unknown "
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
        self.keyring: GroupKeyring = self.stack.secrets.keyring(self.config.keyring)
        self.usable = self.keyring.usable()
        self.cluster = b""
        self.writer: FrameWriter | None = None               # from Connect on
        self.senders = Senders()
        self.members: tuple[Address, ...] = ()
        self.reports: dict[Address, tuple[bytes, ...]] = {}  # member of the view -> the keys that it holds
        self.frames_sealed = self.frames_opened = 0
        self.door_second = self.doors_sent = 0
        self.auth: Authenticator | None = self.stack.find(Authenticator)
        self.greetings: dict[bytes, Greeting] = {}           # address -> how it was challenged

    def stats(self) -> dict[str, float]:
        return {**super().stats(), "keys": len(self.usable), "senders": len(self.senders.proven),
                "senders_unproven": len(self.senders.unproven), "held_bytes": self.senders.held_bytes,
                "frames_sealed": self.frames_sealed, "frames_opened": self.frames_opened}

    @on(Connect)
    def connecting(self, event: Connect) -> None:
        self.cluster = cluster_id(event.cluster)
        self.writer = FrameWriter(self.stack.secrets, self.me.raw, self.stack.net, self.cluster, self.keyring.active,
                                  exchanges=self.auth is not None)
        self.set_timer("reread", self.config.reread_ns)
        self.set_timer("announce", self.config.announce_ns)

    @on(ViewChange)
    def view_changed(self, event: ViewChange) -> None:
        self.members = event.view.members
        self.senders.members = frozenset(member.raw for member in self.members)
        self.reports = {member: held for member, held in self.reports.items() if member in self.members}
        if self.writer is not None:
            # Spread: members that install a view together must not report together.
            self.set_timer("announce", self.rng.randrange(seconds(1)))

    # --- out --------------------------------------------------------------------------------------------------------

    def seal(self, text: list[bytes | bytearray], multicast: bool) -> list[bytes | bytearray]:
        assert self.writer is not None, "nothing is sent before Connect"
        self.frames_sealed += 1
        return self.writer.seal(MULTICAST_STREAM if multicast else UNICAST_STREAM, b"".join(text))

    # --- in ---------------------------------------------------------------------------------------------------------

    def open(self, data: bytes, physical: PhysicalAddress | None) -> bytes | None:
        reason = self.unfit(data)
        if reason:
            self.refuse(reason, data)
            return None
        _, _, stream, key_id, _, name, count = read_head(data)
        sender = self.senders.proven.get(name)
        if sender is not None and not sender.windows[stream].accepts(count):
            self.refuse("replayed_dropped", data)
            return None
        waiting = self.senders.unproven.get(name) if sender is None else None
        found = sender or (waiting.sender if waiting is not None else SealedSender())
        try:
            text = self.opened(found, data, stream, key_id, name, count)
        except WireError:
            self.refuse("not_opened_dropped", data)
            return None
        if stream == DOOR_STREAM:
            self.door(name, found, text, count, physical)
        elif sender is not None:
            sender.windows[stream].accept(count)
            self.frames_opened += 1
            return text
        else:
            self.hold(name, found, data, stream, count, physical)
        return None

    def unfit(self, data: bytes) -> str:
        """Why a frame is dropped before it is opened; "": it is to be opened."""
        if len(data) < SEAL_BYTES:
            return "unsealed_dropped" if data[:3] == UNSEALED else "malformed_dropped"
        magic, version, stream, key_id, cluster, _, _ = read_head(data)
        if magic != MAGIC or version != SEALED_VERSION or stream >= STREAMS:
            return "unsealed_dropped" if data[:3] == UNSEALED else "malformed_dropped"
        if cluster != self.cluster:
            return "foreign_cluster_dropped"
        return "" if key_id in self.usable else "unknown_key_dropped"

    def opened(self, sender: SealedSender, data: bytes, stream: int, key_id: bytes, name: bytes, count: int) -> bytes:
        """The text of a frame. Raises WireError."""
        which = key_id, count >> EPOCH_BITS
        nonce, sealed, head = nonce_of(stream, count), memoryview(data)[HEAD_BYTES:], data[:HEAD_BYTES]
        cipher = sender.ciphers.get(which)
        if cipher is None:
            cipher = frame_cipher(self.usable[key_id], self.stack.net, self.cluster, name, which[1])
            text = cipher.open(nonce, sealed, head)
            sender.keep(which, cipher)                       # only now: a forged frame reserves nothing
            return text
        return cipher.open(nonce, sealed, head)

    def refuse(self, reason: str, data: bytes) -> None:
        """Count a frame under a reason; nothing is answered."""
        claimed = data[SOURCE_OFFSET:SOURCE_OFFSET + ADDRESS_BYTES].ljust(ADDRESS_BYTES, b"\0")
        self.drop(reason, Batch(Address(claimed), None), "it was not believed", number=1)
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
            self.later(lambda: self.send_door(name, waiting.challenge, None, physical))
        return None

    def expect(self, name: bytes, sender: SealedSender) -> Unproven:
        """The entry of a sender that has to prove itself; made if there is none."""
        found = self.senders.unproven.get(name)
        if found is None:
            greeting = self.greetings.get(name[:ADDRESS_BYTES])
            challenge = greeting.challenge if greeting is not None else self.stack.secrets.draw(CHALLENGE_BYTES)
            for displaced in self.senders.expect(name, sender, challenge, self.now_ns):
                self.drop_held(displaced, "other senders need the room")
            self.set_timer("unproven", PROVE_WITHIN_NS)
            found = self.senders.unproven[name]
        return found

    def door(
        self, name: bytes, sender: SealedSender, text: bytes, count: int, physical: PhysicalAddress | None,
    ) -> None:
        """A door frame opens: it asks, or answers, or both."""
        try:
            door = decode_door(text)
        except WireError as error:
            return self.drop("doors_refused_dropped", None, str(error))
        if door.dest != self.me.raw:
            return self.drop("doors_refused_dropped", None, "it is for another member, or an earlier incarnation")
        if sender.windows:
            sender.windows[DOOR_STREAM].accept(count)
            greeting = self.greetings.get(name[:ADDRESS_BYTES])
            if greeting is not None and door.answer == greeting.challenge and self.believes(name, door):
                del self.greetings[name[:ADDRESS_BYTES]]     # AUTH had forgotten it
        elif door.answer != NONE:
            if not self.answers(name, sender, door):
                return self.drop("doors_refused_dropped", None, "it answers no present challenge")
            if self.believes(name, door):
                self.prove(name, door, count, physical)
            return None
        if door.challenge != NONE:
            if sender.windows:
                self.later(lambda: self.send_door(name, NONE, door, physical))
            else:
                # The sender is new here too: then one frame answers and asks.
                waiting = self.expect(name, sender)
                if not waiting.refused:
                    self.later(lambda: self.send_door(name, waiting.challenge, door, physical))
        return None

    def answers(self, name: bytes, sender: SealedSender, door: Door) -> bool:
        """Whether a door frame answers a present challenge to its sender, or to its address."""
        waiting = self.senders.unproven.get(name)
        if waiting is not None:
            if door.answer == waiting.challenge:
                return not waiting.refused
            greeting = self.greetings.get(name[:ADDRESS_BYTES])
            if greeting is None or waiting.refused or door.answer != greeting.challenge:
                return False
            waiting.challenge = greeting.challenge
            return True
        greeting = self.greetings.get(name[:ADDRESS_BYTES])
        if greeting is None or door.answer != greeting.challenge:
            return False
        self.expect(name, sender)
        return True

    def believes(self, name: bytes, door: Door) -> bool:
        """Whether the sender of an answer is one that AUTH lets in. If not, that is remembered for a while: each
        refusal costs a verification, and a sender that is refused goes on sending."""
        if self.auth is None:
            return True
        assert self.writer is not None
        reason = "its answer has no proof of who it is"
        if door.keys != NO_KEYS:
            proven = transcript(self.stack.net, self.cluster, Side(name, door.keys), self.writer.side(), door)
            reason = self.auth.refusal(name, door.credential, door.proof, proven)
        if reason:
            number = self.senders.refuse(name)
            self.drop("unidentified_dropped", None, reason, number=1 + number)
        return not reason

    @on(MeetMember)
    def meet(self, event: MeetMember) -> None:
        """Challenge a process of which no frame has come. It answers whether it knows this sender or not."""
        address = event.member.raw
        greeting = self.greetings.get(address)
        if greeting is None:
            if len(self.greetings) >= MAX_UNPROVEN:
                del self.greetings[next(iter(self.greetings))]
            greeting = self.greetings[address] = Greeting(
                self.stack.secrets.draw(CHALLENGE_BYTES), event.physical, self.now_ns - ASK_AGAIN_NS)
            self.set_timer("unproven", PROVE_WITHIN_NS)
        if self.now_ns - greeting.asked_ns >= ASK_AGAIN_NS:
            greeting.asked_ns, greeting.physical = self.now_ns, event.physical
            self.later(lambda: self.send_door(address, greeting.challenge, None, greeting.physical))

    @on(IdentityRevoked)
    def forget(self, event: IdentityRevoked) -> None:
        """AUTH believes these processes no more: neither frames that come nor those that are held."""
        self.senders.forget(frozenset(member.raw for member in event.members))

    def prove(self, name: bytes, door: Door, count: int, physical: PhysicalAddress | None) -> None:
        """A sender has answered: what was held of it is passed on, behind the answer to its own challenge."""
        held = self.senders.prove(name, door, count)
        self.greetings.pop(name[:ADDRESS_BYTES], None)
        self.count("senders_proven")
        if door.challenge != NONE:
            self.later(lambda: self.send_door(name, NONE, door, physical))
        if held:
            self.later(lambda: self.pass_down(SenderProven(held)))

    def send_door(
        self, name: bytes, challenge: bytes, asked: Door | None, physical: PhysicalAddress | None,
    ) -> None:
        """Send a door frame to where a frame of the sender came from. At most one for each frame that opened.

        name: of the sender, or its address alone; asked: the door frame with the challenge that is answered.
        """
        second = self.now_ns // seconds(1)
        if second != self.door_second:
            self.door_second, self.doors_sent = second, 0
        if physical is None or self.writer is None or self.doors_sent >= DOORS_A_SECOND:
            return self.drop("doors_limited_dropped", None, "too many in this second, or its place is not known")
        self.doors_sent += 1
        if challenge != NONE:
            self.count("challenges_sent")
        me, counters = self.writer.side(), self.writer.counters
        door = Door(name[:ADDRESS_BYTES], challenge, NONE if asked is None else asked.challenge,
                    counters[MULTICAST_STREAM], counters[UNICAST_STREAM], me.keys)
        if asked is not None and self.auth is not None:
            door = attrs.evolve(door, credential=self.auth.credential())
            proven = transcript(self.stack.net, self.cluster, me, Side(name, asked.keys), door)
            door = attrs.evolve(door, proof=self.auth.prove(proven))
        self.emit(Frame(self.stack.net, physical, self.writer.seal(DOOR_STREAM, door.encode())))
        return None

    def drop_held(self, dropped: Unproven, why: str) -> None:
        """Count what was held of a sender that is forgotten."""
        self.drop("unproven_dropped", None, why, number=len(dropped.held))

    @timer("unproven")
    def drop_overdue(self) -> None:
        """Drop what is held of senders that do not answer."""
        for name in self.senders.overdue(self.now_ns - PROVE_WITHIN_NS + 1):
            self.drop_held(self.senders.drop(name), "its sender did not answer a challenge in time")
        for address in [address for address, greeting in self.greetings.items()
                        if self.now_ns - greeting.asked_ns >= PROVE_WITHIN_NS]:
            del self.greetings[address]
        if self.senders.unproven or self.greetings:
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
        self.keyring = event.keyring
        self.usable = self.keyring.usable()
        self.senders.forget_keys(dict.fromkeys(self.usable))
        self.count("keyrings_read")
        active = self.keyring.active
        self.emit(LogEntry("info", f"ENCRYPT seals with key {active.name} and opens with {len(self.usable)} keys"))
        if self.writer is not None:
            self.writer.use(active)
            self.announce()

    @timer("announce")
    def announce(self) -> None:
        active = self.keyring.active.id
        held = (active, *(key for key in self.usable if key != active))
        self.reports[self.me] = held
        if len(self.members) > 1:
            self.pass_down(Batch(self.me, None, (), (KeysHeld(held),), CONTROL))
        self.set_timer("announce", self.config.announce_ns)

    @receives(KeysHeld)
    def keys_held(self, header: KeysHeld, batch: Batch) -> None:
        if batch.src in self.members and 0 < len(header.key_ids) <= MAX_KEYS:
            self.reports[batch.src] = header.key_ids
        else:
            self.drop("key_reports_of_non_members", batch, "its source is not in the view", header, number=1)

    def key_report(self) -> dict[str, Any]:
        self.reports[self.me] = (self.keyring.active.id, *(key for key in self.usable if key != self.keyring.active.id))
        members = self.members or (self.me,)
        keys = []
        for key in self.keyring.keys:
            held = [member for member in members if key.id in self.reports.get(member, ())]
            seal = [member for member in held if self.reports[member][0] == key.id]
            keys.append({"id": key.name, "state": key.state, "held_by": len(held), "active_at": len(seal),
                         "not_held_by": [] if key.state == RETIRED else [str(m) for m in members if m not in held],
                         "not_active_at": [str(member) for member in members if member not in seal]})
        refused = {name: number for name, number in self.counters.items() if name.endswith("_dropped") and number}
        return {"keyring": self.config.keyring, "members": len(members), "keys": keys, "refused": refused}
