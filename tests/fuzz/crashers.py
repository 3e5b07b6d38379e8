"""Frames that ended or stalled whole groups once, against a group of three: each is a function of a `Siege`."""
from __future__ import annotations

from collections.abc import Callable
from random import Random

from jgroups_py.model.address import Address
from jgroups_py.model.batch import Header
from jgroups_py.model.outputs import LOCAL
from jgroups_py.model.ports import DigestSource
from jgroups_py.model.units import millis, seconds
from jgroups_py.protocols.discovery.base import DiscoveryRequest
from jgroups_py.protocols.frag.headers import Fragment
from jgroups_py.protocols.gms.headers import Ballot, CoordinatorHint, CutHeader, FlushId, LeaveRequest, Prepare
from jgroups_py.protocols.nakack.headers import LastSeqno, MulticastData, Retransmission, RetransmitRequest
from jgroups_py.protocols.unicast.headers import UnicastData
from jgroups_py.simulator.attack.attacker import join_of
from jgroups_py.simulator.attack.frame_writer import header_writer, write_frame
from jgroups_py.simulator.attack.value_pool import ValuePool
from jgroups_py.stack.protocol import CONTROL
from tests.fuzz.frames import ATTACKER
from tests.fuzz.worlds import Groups

EVIL = Address(b"evil" * 4, "evil")
HOSTS = ("\0", "xn--\u0130\u2603", "no such host;:", "x" * 70, "a..b", "", "255.255.255.255 ", "x" * 65_000, "\u202e")
MOST = (1 << 64) - 1


class Exact(ValuePool):
    """Writes what it is given."""

    def __init__(self) -> None:
        super().__init__(Random(0))
        self.edge_ratio = 0.0
        self.random = lambda: 0.9


class Siege:
    """A group of A, B and C in one view, and an attacker that sends it frames."""

    def __init__(self, stack: str = "udp", seed: str = "siege") -> None:
        self.groups = Groups(stack, seed)
        self.world = self.groups.world
        self.pool = Exact()
        for name in self.groups.site_of:
            self.groups.start(name)
        assert self.world.run_while(lambda: not self.world.agreed("ABC"), seconds(20)), "the group forms"
        self.view = self.world.process("A").view

    def me(self, name: str) -> Address:
        """The address of a member."""
        return self.world.address(name)

    def hit(
        self, name: str, *headers: Header, src: Address = EVIL, multicast: bool = False,
        payloads: tuple[bytes, ...] = (), flags: int | None = None,
    ) -> None:
        """A frame to one member; with payloads of messages unless `flags` say otherwise, else of control."""
        batch_flags = flags if flags is not None else 0 if payloads else CONTROL
        process = self.world.process(name)
        stack = process.stack(LOCAL)
        if stack is None:
            return
        out = bytearray()
        for header in headers:
            header_writer(header.__class__)(self.pool, header, out)
        frame = write_frame(
            stack.transport.cluster,                         # type: ignore[attr-defined]
            src.raw, None if multicast else process.me.raw, batch_flags, len(headers), bytes(out), payloads)
        socket = process.sockets[LOCAL]
        process.node.receive(((frame, None if socket.stream else ATTACKER),), self.world.now_ns)
        self.world._settle(process)

    def hit_all(self, *headers: Header, **how: object) -> None:
        """The same frame to all."""
        for name in "ABC":
            self.hit(name, *headers, **how)                                # type: ignore[arg-type]

    def pause(self, duration_ns: int = millis(20)) -> None:
        """Let time pass."""
        self.world.run_for(duration_ns)

    def following(self, name: str, sender: str) -> int:
        """The next multicast that `name` expects of `sender`."""
        source = self.world.node(name).local.find(DigestSource)
        return int(source.digest()[self.me(sender)])

    def flush(self, round_: int = 9, owner: Address = EVIL) -> FlushId:
        """A flush of the current view."""
        assert self.view is not None
        return FlushId(self.view.id, Ballot(round_, owner))

    def harm(self) -> list[str]:
        """What has come of it so far."""
        ended = [f"{process.incarnation} ended: {process.closed_reason}" for process in self.world.processes.values()
                 if process.node.closed]
        return ended + self.world.refused


def host_in_a_question(siege: Siege) -> None:
    """K-a, K-b: a discovery question from a place that no socket sends to."""
    for host in HOSTS:
        siege.hit_all(DiscoveryRequest(EVIL, (host, 7800), None, None, None, True), multicast=True)
        siege.hit_all(DiscoveryRequest(EVIL, (host, 0), None, None, (host, 0), True), multicast=True)
        siege.pause()


def host_in_a_join(siege: Siege) -> None:
    """The same in questions of GMS."""
    for host in HOSTS:
        siege.hit_all(join_of(EVIL, (host, 7800)))
        siege.hit_all(CoordinatorHint(EVIL, (host, 1)))
        siege.pause()


def highest_round(siege: Siege) -> None:
    """K-c: a ballot of round 2^64-1."""
    for owner in (EVIL, siege.me("B")):
        siege.hit_all(Prepare(siege.flush(MOST, owner), (siege.me("A"), siege.me("B")), ()), src=owner)
        siege.pause(seconds(3))


def highest_counter(siege: Siege) -> None:
    """K-d: a cut whose view would have counter 2^64-1."""
    members = (siege.me("B"), EVIL)
    siege.hit("B", Prepare(siege.flush(), members, ()))
    siege.hit("B", CutHeader(siege.flush(), members, (), MOST, {siege.me("B"): 1, EVIL: 1}, {}))
    siege.pause(seconds(3))


def time_bomb(siege: Siege) -> None:
    """K-e: a counter that overflows only with the view after the next."""
    members = tuple(map(siege.me, "ABC"))
    for owner in (EVIL, siege.me("C")):
        for counter in (MOST - 2, (1 << 62) - 1, 1 << 62, 1 << 63):
            flush = siege.flush(11, owner)
            siege.hit_all(Prepare(flush, members, ()), src=owner)
            siege.hit_all(CutHeader(flush, members, (), counter, dict.fromkeys(members, 1), {}), src=owner)
            siege.pause(millis(200))
    siege.pause(seconds(5))
    siege.world.crash("C")
    siege.pause(seconds(5))


def forged_leave(siege: Siege) -> None:
    """K-f: a LEAVE as C. It leaves the view, perhaps, but its process goes on."""
    assert siege.view is not None
    siege.hit_all(LeaveRequest(siege.view.id), src=siege.me("C"))
    siege.pause(seconds(5))


def forged_end(siege: Siege) -> None:
    """The same, with a Cut that does not wait for promises."""
    siege.hit_all(LeaveRequest(None), src=siege.me("C"))
    siege.pause(seconds(5))


def announced_fragments(siege: Siege) -> None:
    """E2: first fragments of messages of 256 MB, from non-members; what was reserved for them has to be there again."""
    for number in range(20):
        non_member = Address(bytes((66, number)) * 8)
        fragment = Fragment(number, 0, 4096, 256 << 20, 0)
        for name in "ABC":
            siege.hit(name, fragment, UnicastData(1, 1, 1), src=non_member, payloads=(b"x" * 20,))
            siege.hit(name, fragment, src=non_member, payloads=(b"x" * 20,), flags=16)
    siege.pause()


def numbers_far_ahead(siege: Siege) -> None:
    """E1: frames of 60 KB as A with holes between them."""
    assert siege.view is not None
    first = siege.following("B", "A")
    for ahead in range(2, 1600, 2):
        siege.hit("B", MulticastData(siege.view.id.raw, first + ahead), src=siege.me("A"), multicast=True,
                  payloads=(ahead.to_bytes(2, "big") * 30_000,))
    siege.pause()


def edge_numbers(siege: Siege) -> None:
    """NAKACK with numbers at the edge."""
    assert siege.view is not None
    view = siege.view.id.raw
    for number in (0, 1 << 31, 1 << 32, 1 << 62, 1 << 63, MOST - 1, MOST):
        for src in (EVIL, siege.me("A")):
            for header in (MulticastData(view, number), LastSeqno(view, number),
                           Retransmission(view, siege.me("B"), number),
                           RetransmitRequest(view, siege.me("A"), ((1, number), (number, MOST)))):
                siege.hit("C", header, src=src, multicast=True, payloads=(b"edge",))
                siege.hit("C", header, src=src, payloads=(b"edge", b"edge"))
        siege.pause()


def strangers_unicasts(siege: Siege) -> None:
    """E3: a unicast from each of many non-members."""
    for number in range(6000):
        non_member = Address(number.to_bytes(16, "big"))
        siege.hit("B", UnicastData(1, 2, 1), src=non_member, payloads=(number.to_bytes(2, "big") * 500,))
    siege.pause()


def strangers_joins(siege: Siege) -> None:
    """E4: 230 requests a second to be let in, of members that do not exist, for three seconds."""
    for number in range(690):
        non_member = Address(number.to_bytes(16, "big"), f"n{number}")
        siege.hit("A", join_of(non_member, ("10.9.9.9", 7800)), src=non_member)
        siege.pause(seconds(1) // 230)


CRASHERS: dict[str, Callable[[Siege], None]] = {attack.__name__: attack for attack in (
    host_in_a_question, host_in_a_join, highest_round, highest_counter, time_bomb, forged_leave, forged_end,
    announced_fragments, numbers_far_ahead, edge_numbers, strangers_unicasts, strangers_joins)}
