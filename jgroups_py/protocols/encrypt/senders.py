"""Whose frames are believed: the senders that have proven to be alive, and those that have yet to do so. Bounded.

A frame that opens was made by a holder of the key, but perhaps long ago. So frames of a sender that is not known are
held until it has answered a challenge. Its answer has its counters, from which its windows begin: what it sent before,
but for what is held, is a replay. It also has those of a few seconds ago: what is held and older is one too.
"""
from __future__ import annotations

from typing import Final

from jgroups_py.model.address import ADDRESS_BYTES, PhysicalAddress
from jgroups_py.protocols.encrypt.headers import Handshake
from jgroups_py.sealing.keyring import GroupKey
from jgroups_py.sealing.primitives import Cipher
from jgroups_py.windows.replay import ReplayWindow
from jgroups_py.wire.sealed_head import COUNTED_AS, HANDSHAKE_STREAM, MULTICAST_STREAM, UNICAST_STREAM

MAX_CIPHERS: Final = 6                   # of one sender: keys in use during a rotation, epochs of its streams
MAX_UNPROVEN: Final = 128
MAX_NON_MEMBERS: Final = 1000            # proven senders that are not in the view
MAX_TOPS: Final = 2000                   # forgotten senders of which the counters are remembered
HELD_FRAMES: Final = 16                  # of one sender
HELD_BYTES: Final = 4 << 20              # of all

HeldFrame = tuple[bytes, PhysicalAddress | None]


class SealedSender:
    """One sender: address and salt. windows: stream -> counters accepted; none until it has proven itself.

    pair: the key that it has with this member alone; signing: its public key of Ed25519; b"", None: without AUTH.
    """

    __slots__ = ("ciphers", "pair", "signing", "tag_in", "tag_out", "windows")

    def __init__(self) -> None:
        self.pair: GroupKey | None = None
        self.signing = b""
        self.tag_in: Cipher | None = None                    # of its tags (signatures.py), and of ours for it
        self.tag_out: Cipher | None = None
        self.ciphers: dict[tuple[bytes, int], Cipher] = {}   # (key id, epoch) -> cipher
        self.windows: tuple[ReplayWindow, ...] = ()

    def keep(self, key: tuple[bytes, int], cipher: Cipher) -> None:
        """Keep a cipher that has opened a frame."""
        if len(self.ciphers) >= MAX_CIPHERS:
            del self.ciphers[next(iter(self.ciphers))]
        self.ciphers[key] = cipher


class Unproven:
    """A sender that was asked for a proof. held: (stream, counter) -> its frame; refused: AUTH did not believe it, so
    it is asked again only when this entry is overdue; physical: where its last answer came from that AUTH could not
    judge at once."""

    __slots__ = ("asked_ns", "challenge", "held", "held_bytes", "physical", "refused", "sender", "since_ns")

    def __init__(self, sender: SealedSender, challenge: bytes, now_ns: int) -> None:
        self.sender = sender
        self.challenge = challenge
        self.since_ns = self.asked_ns = now_ns
        self.held: dict[tuple[int, int], HeldFrame] = {}
        self.held_bytes = 0
        self.refused = False
        self.physical: PhysicalAddress | None = None


class Senders:
    """All senders, by address and salt."""

    def __init__(self) -> None:
        self.proven: dict[bytes, SealedSender] = {}
        self.unproven: dict[bytes, Unproven] = {}
        self.held_bytes = 0
        self.tops: dict[bytes, tuple[int, ...]] = {}         # of senders that were forgotten, the oldest first
        self.members: frozenset[bytes] = frozenset()         # addresses of the view

    def expect(self, name: bytes, sender: SealedSender, challenge: bytes, now_ns: int) -> list[Unproven]:
        """A sender was asked for a proof. Returns the one that it displaces, if there are too many."""
        displaced = [self.drop(next(iter(self.unproven)))] if len(self.unproven) >= MAX_UNPROVEN else []
        self.unproven[name] = Unproven(sender, challenge, now_ns)
        return displaced

    def drop(self, name: bytes) -> Unproven:
        """Forget a sender that has not proven itself, and what was held of it."""
        dropped = self.unproven.pop(name)
        self.held_bytes -= dropped.held_bytes
        return dropped

    def hold(self, name: bytes, stream: int, counter: int, data: bytes, physical: PhysicalAddress | None) -> bool:
        """Hold a frame of an unproven sender; False: there is no room, or it is held."""
        waiting = self.unproven[name]
        if (len(waiting.held) >= HELD_FRAMES or self.held_bytes + len(data) > HELD_BYTES
                or (stream, counter) in waiting.held):
            return False
        waiting.held[stream, counter] = bytes(data), physical
        waiting.held_bytes += len(data)
        self.held_bytes += len(data)
        return True

    def refuse(self, name: bytes) -> int:
        """AUTH did not believe a sender: forget what is held of it. Returns how many frames that are."""
        waiting = self.unproven.get(name)
        if waiting is None:
            self.remove(name)
            return 0
        number = len(waiting.held)
        self.held_bytes -= waiting.held_bytes
        waiting.held, waiting.held_bytes, waiting.refused = {}, 0, True
        return number

    def forget(self, addresses: frozenset[bytes]) -> None:
        """Forget the senders of these addresses: they have to prove themselves anew."""
        for name in [name for name in self.proven if name[:ADDRESS_BYTES] in addresses]:
            self.remove(name)

    def remove(self, name: bytes) -> None:
        """Forget a proven sender, but for the highest counters of it that were accepted: it may prove itself again at
        once, and what was accepted of it before is a replay then, too."""
        if len(self.tops) >= MAX_TOPS:
            del self.tops[next(iter(self.tops))]
        windows = self.proven.pop(name).windows
        self.tops[name] = tuple(window.top for window in windows)

    def prove(self, name: bytes, handshake: Handshake, counter: int) -> tuple[tuple[HeldFrame, ...], int]:
        """A sender has answered by `handshake`, frame `counter` of its stream. Returns what was held of it, in order,
        and how many frames were older than what it sent of late: recordings, which somebody has sent again."""
        waiting = self.drop(name)
        windows = {MULTICAST_STREAM: ReplayWindow(handshake.multicasts),
                   UNICAST_STREAM: ReplayWindow(handshake.unicasts),
                   HANDSHAKE_STREAM: ReplayWindow(counter + 1)}
        multicasts, unicasts = self.tops.pop(name, (0, 0))[:2]
        recent = {MULTICAST_STREAM: max(handshake.recent_multicasts, multicasts + 1),
                  UNICAST_STREAM: max(handshake.recent_unicasts, unicasts + 1)}
        held = []
        for (stream, number), frame in waiting.held.items():
            if number >= recent[COUNTED_AS[stream]]:
                windows[COUNTED_AS[stream]].reopen(number)
                held.append(frame)
        sender = self.proven[name] = waiting.sender
        sender.windows = tuple(windows[stream] for stream in sorted(windows))
        self._bound()
        return tuple(held), len(waiting.held) - len(held)

    def _bound(self) -> None:
        """Forget the senders that proved themselves first, but for members; each may prove itself again."""
        if len(self.proven) > len(self.members) + MAX_NON_MEMBERS:
            excess = [name for name in self.proven if name[:ADDRESS_BYTES] not in self.members][:-MAX_NON_MEMBERS]
            for name in excess:
                self.remove(name)

    def forget_keys(self, usable: dict[bytes, object]) -> None:
        """Drop the ciphers of keys that are no longer usable."""
        for sender in [*self.proven.values(), *(waiting.sender for waiting in self.unproven.values())]:
            own = sender.pair.id if sender.pair is not None else b""
            sender.ciphers = {key: cipher for key, cipher in sender.ciphers.items()
                              if key[0] in usable or key[0] == own}

    def overdue(self, oldest_ns: int) -> list[bytes]:
        """The unproven senders that were asked first before `oldest_ns`."""
        return [name for name, waiting in self.unproven.items() if waiting.since_ns < oldest_ns]
