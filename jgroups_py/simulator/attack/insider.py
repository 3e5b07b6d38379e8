"""What an insider of a group with keys of views can try: to speak as another member. And what a former member can.

An insider has the key of the view, the keyring, its own key with each member, its own identity, and all frames. It

    forges     a frame of another member under the key of the view, on any stream, with a signature of zeros
    reseals    a frame of another member under another counter, the text changed or not, signature or tags as they were
    borrows    a unicast of another member under the key that it has itself with the receiver
    claims     shows its own identity under the address of another member, and then signs as that one
    crowds     asks as many senders that do not exist

A former member *remembers* the keys of the views that it was in, and speaks on under them. No frame that is made here
may open.
"""
from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Protocol

import attrs

from jgroups_py import wire
from jgroups_py.model.address import ADDRESS_BYTES
from jgroups_py.model.batch import NO_RELIABILITY, Batch
from jgroups_py.model.errors import WireError
from jgroups_py.protocols.auth import Auth
from jgroups_py.protocols.encrypt.ciphers import EPOCH_BITS, FrameWriter, frame_cipher, nonce_of
from jgroups_py.protocols.encrypt.handshake import Side, transcript
from jgroups_py.protocols.encrypt.headers import CHALLENGE_BYTES, NONE, Handshake, decode_handshake
from jgroups_py.protocols.encrypt.protocol import Encrypt
from jgroups_py.protocols.encrypt.signatures import signed
from jgroups_py.protocols.gms.headers import LeaveRequest
from jgroups_py.sealing.keyring import ACTIVE, GroupKey, group_key
from jgroups_py.sealing.primitives import KEY_BYTES, SIGNATURE_BYTES, TAG_BYTES, SigningKey
from jgroups_py.simulator.secrets import VirtualSecrets
from jgroups_py.stack.protocol import CONTROL, StackPort
from jgroups_py.stack.stack import Stack
from jgroups_py.wire.sealed_head import (
    COUNTED_AS,
    HANDSHAKE_STREAM,
    HEAD_BYTES,
    MULTICAST_STREAM,
    SENDER_END,
    SENDER_OFFSET,
    SIGNED_STREAM,
    TAGGED_STREAM,
    UNICAST_STREAM,
    read_head,
    sealed_head,
)

if TYPE_CHECKING:
    from jgroups_py.model.address import Address
    from jgroups_py.simulator.world import World

OF_VIEWS = (MULTICAST_STREAM, SIGNED_STREAM, TAGGED_STREAM)
FORGES, RESEALS, BORROWS, CLAIMS, CROWDS = INSIDER_KINDS = "insider", "reseals", "borrows", "claims", "crowds"
REMEMBERS = "remembers"


class Observations(Protocol):
    """What the attacker has seen (view_keys.py, sealed.py). recorded: wire -> frames; ids: key of a view -> its id;
    holders: id of a key -> who had it since when; grace_ns: so long a coordinator that leaves has the next key."""

    world: World
    grace_ns: int
    recorded: dict[tuple[int, str], list[bytes]]
    ids: dict[bytes, bytes]
    holders: dict[bytes, dict[Address, int]]


@attrs.define
class Claim:
    """A sender under the address of `victim` that shows the identity of `insider` to `target`."""

    writer: FrameWriter
    insider: StackPort
    target: StackPort
    proven: bool = False


class Insider:
    """Makes the frames. forged: all that were made and may not open; claims: sender -> its claim."""

    def __init__(self, attacker: Observations) -> None:
        self.attacker = attacker
        self.world = attacker.world
        self.forged: dict[bytes, str] = {}                       # frame -> its kind
        self.claims: dict[bytes, Claim] = {}
        self.kinds: dict[str, Callable[[Encrypt, Encrypt, Encrypt, Random], bytes | None]] = {
            FORGES: self.forge, RESEALS: self.reseal, BORROWS: self.borrow, CLAIMS: self.claim,
            CROWDS: self.crowd, REMEMBERS: self.remember}

    def make(self, kind: str, stack: Stack, rng: Random) -> bytes | None:
        """A frame for a member's stack; None: it cannot be made now."""
        target = stack.find(Encrypt)
        others = [found.find(Encrypt) for each in self.world.all_processes
                  if each.running and (found := each.stack(stack.net)) is not None
                  and found.me in target.members and found.me != stack.me]
        if target.view_key is None or len(others) < 2:
            return None
        victim, insider = rng.sample(others, 2)
        if victim.writer is None or insider.writer is None:
            return None
        frame = self.kinds[kind](target, victim, insider, rng)
        if frame is not None and read_head(frame)[2] != HANDSHAKE_STREAM:
            self.forged[frame] = kind
        return frame

    # --- under a key of a view ----------------------------------------------------------------------------------------

    def forge(self, target: Encrypt, victim: Encrypt, insider: Encrypt, rng: Random) -> bytes | None:
        assert target.view_key is not None, "`make` looks"
        return self.multicast(target, victim, target.view_key, rng)

    def remember(self, target: Encrypt, victim: Encrypt, insider: Encrypt, rng: Random) -> bytes | None:
        """A process that is in the view no more speaks on, with its own signature, under a key that it had."""
        gone = [found.find(Encrypt) for each in self.world.all_processes
                if (found := each.stack(target.stack.net)) is not None and found.me not in target.members]
        former = rng.choice(gone) if gone else None
        if former is None or former.writer is None or former.writer.signer is None:
            return None
        # A coordinator that leaves has the key of the view that it decides, which is soon replaced.
        early_ns = self.world.now_ns - self.attacker.grace_ns
        keys = [secret for secret, which in self.attacker.ids.items()
                if self.attacker.holders[which].get(former.me, early_ns) < early_ns
                and group_key(secret, ACTIVE) != target.view_key]
        if not keys:
            return None
        signer, key = former.writer.signer, group_key(rng.choice(keys), ACTIVE)
        text = b"".join(wire.encode_inner(Batch(former.me, None, (b"remembered",), (), NO_RELIABILITY)))
        if target.config.sign == "none":
            return b"".join(former.writer.seal(MULTICAST_STREAM, [text], key))
        return under_signature(former.writer, signer, text, key)

    def multicast(self, target: Encrypt, victim: Encrypt, key: GroupKey, rng: Random) -> bytes:
        """A multicast of the victim: a message of the application, if these are signed, or that it has left."""
        data = rng.random() < 0.5 and target.config.sign != "none"
        batch = Batch(victim.me, None, (b"forged",), (), NO_RELIABILITY) if data else \
            Batch(victim.me, None, (), (LeaveRequest(None),), CONTROL)
        text = b"".join(wire.encode_inner(batch))
        stream = rng.choice(OF_VIEWS)
        if stream != MULTICAST_STREAM:
            text += bytes(SIGNATURE_BYTES) if stream == SIGNED_STREAM else bytes(TAG_BYTES) * (len(target.members) - 1)
        return self.sealed(target, victim, stream, key, text, rng)

    def reseal(self, target: Encrypt, victim: Encrypt, insider: Encrypt, rng: Random) -> bytes | None:
        """A recorded multicast of the victim in this view, under a later counter."""
        assert target.view_key is not None, "`make` looks"
        assert victim.writer is not None, "`make` looks"
        sender, key = victim.writer.sender, target.view_key
        frames = [frame for frames in self.attacker.recorded.values() for frame in frames[-200:]
                  if frame[3] in (SIGNED_STREAM, TAGGED_STREAM) and frame[SENDER_OFFSET:SENDER_END] == sender
                  and frame[4:12] == key.id]
        if not frames:
            return None
        frame = rng.choice(frames)
        _, _, stream, _, _, _, count = read_head(frame)
        cipher = frame_cipher(key, target.stack.net, target.cluster, sender, count >> EPOCH_BITS)
        text = bytearray(cipher.open(nonce_of(stream, count), frame[HEAD_BYTES:], frame[:HEAD_BYTES]))
        if rng.random() < 0.5:
            text[rng.randrange(len(text))] ^= 1 << rng.randrange(8)
        return self.sealed(target, victim, stream, key, bytes(text), rng)

    def borrow(self, target: Encrypt, victim: Encrypt, insider: Encrypt, rng: Random) -> bytes | None:
        pair = insider.pairs.get(target.me.raw)
        if pair is None or pair.pair is None:
            return None
        text = b"".join(wire.encode_inner(Batch(victim.me, target.me, (b"forged",), (), NO_RELIABILITY)))
        return self.sealed(target, victim, UNICAST_STREAM, pair.pair, text, rng)

    def sealed(self, target: Encrypt, victim: Encrypt, stream: int, key: GroupKey, text: bytes, rng: Random) -> bytes:
        """A frame of the victim with a counter that the target has not seen."""
        assert victim.writer is not None, "`make` looks"
        count = victim.writer.counters[COUNTED_AS[stream]] + 1 + rng.randrange(500)
        head = sealed_head(stream, key.id, target.cluster, victim.writer.sender, count)
        cipher = frame_cipher(key, target.stack.net, target.cluster, victim.writer.sender, count >> EPOCH_BITS)
        return head + cipher.seal(nonce_of(stream, count), text, head)

    # --- under its own identity ---------------------------------------------------------------------------------------

    def claim(self, target: Encrypt, victim: Encrypt, insider: Encrypt, rng: Random) -> bytes | None:
        """First a question under the victim's address; once the target has believed the answer, a message."""
        for claim in self.claims.values():
            if claim.target is target.stack and claim.proven and target.view_key is not None:
                batch = Batch(victim.me, None, (b"claimed",), (), NO_RELIABILITY)
                signer = claim.writer.signer
                assert signer is not None, "it has exchanges"
                return under_signature(claim.writer, signer, b"".join(wire.encode_inner(batch)), target.view_key)
        writer = self.new_sender(target, victim.me.raw, rng)
        self.claims[writer.sender] = Claim(writer, insider.stack, target.stack)
        return self.question(target, writer, rng)

    def crowd(self, target: Encrypt, victim: Encrypt, insider: Encrypt, rng: Random) -> bytes | None:
        """The question of a sender that does not exist, and never answers."""
        return self.question(target, self.new_sender(target, rng.randbytes(ADDRESS_BYTES), rng), rng)

    def new_sender(self, target: Encrypt, address: bytes, rng: Random) -> FrameWriter:
        """A sender of its own under some address, with the keyring."""
        assert target.keyring is not None, "it is connected"
        secrets = VirtualSecrets(f"claim {rng.randbytes(KEY_BYTES).hex()}", {}, {}, [])
        return FrameWriter(secrets, address, target.stack.net, target.cluster, target.keyring.active, exchanges=True)

    def question(self, target: Encrypt, writer: FrameWriter, rng: Random) -> bytes:
        """A sender's first handshake frame: it challenges the target."""
        asked = Handshake(target.me.raw, rng.randbytes(CHALLENGE_BYTES), NONE, 1, 1, keys=writer.keys)
        return b"".join(writer.seal(HANDSHAKE_STREAM, [asked.encode()]))

    def answer(self, stack: Stack, data: bytes) -> bytes | None:
        """The answer to a challenge that a member sends to the attacker's place, if it is for a claim."""
        _, _, stream, _, _, name, count = read_head(data)
        target: Encrypt = stack.find(Encrypt)
        if stream != HANDSHAKE_STREAM or target.keyring is None:
            return None
        cipher = frame_cipher(target.keyring.active, stack.net, target.cluster, name, count >> EPOCH_BITS)
        try:
            asked = decode_handshake(cipher.open(nonce_of(stream, count), data[HEAD_BYTES:], data[:HEAD_BYTES]))
        except WireError:
            return None                                      # under the key before
        claim = next((each for sender, each in self.claims.items() if each.target is stack and not each.proven
                      and sender[:ADDRESS_BYTES] == asked.dest), None)
        if claim is None or asked.challenge == NONE:
            return None
        auth: Auth = claim.insider.find(Auth)
        made = Handshake(stack.me.raw, NONE, asked.challenge, 1, 1, 1, 1, claim.writer.keys, auth.credential())
        proof = auth.prove(transcript(stack.net, target.cluster, claim.writer.side(), Side(name, asked.keys), made))
        claim.proven = True
        return b"".join(claim.writer.seal(HANDSHAKE_STREAM, [attrs.evolve(made, proof=proof).encode()]))


def under_signature(writer: FrameWriter, signer: SigningKey, text: bytes, key: GroupKey) -> bytes:
    """A signed multicast of a sender."""
    return b"".join(writer.seal(SIGNED_STREAM, [text], key,
                                lambda stream, count, head, parts: signed(signer, head, parts)))
