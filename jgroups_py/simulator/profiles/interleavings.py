"""Profile interleavings: orders of events, each of which a single safeguard of RELAY is for.

Profiles that draw everything at random rarely reach them; here each seed has one of them, at random times. Each was
derived from a rule of RELAY, and is verified by the safeguards table: without the rule, the profile finds a violation.
"""
from __future__ import annotations

from jgroups_py.model.outputs import BRIDGE, LOCAL
from jgroups_py.model.units import NS_PER_MS, millis, seconds
from jgroups_py.simulator.faults.actions import (
    Action,
    Begin,
    CrashOf,
    CrashOfCoordinator,
    LeaveOf,
    PauseOf,
    SendMessages,
    Split,
    Storm,
)
from jgroups_py.simulator.faults.relay_faults import LateOrder, LeaveOfRelay, MuteRelay
from jgroups_py.simulator.network import Weather
from jgroups_py.simulator.profiles.base import Plan, span
from jgroups_py.simulator.profiles.sites import SitesProfile

PATTERNS = ("rolling restart", "mute relay", "leave under load", "half without a relay", "back from a pause")
SPECIAL, SPECIAL_SEED = ("relay that was alone", "late order", "inherited grace", "known only from disk"), 7
"""Seeds with seed % 8 == SPECIAL_SEED have one of these in turn. They were added later, so the other seeds kept their
plans."""
GRACE_NS = seconds(6)                    # for "half without a relay": longer than a half takes to join the bridge
HALVES_NS = seconds(15)                  # then both halves relay, and the grace of their split is over


class InterleavingsProfile(SitesProfile):
    """Two or three sites of three or four members; faults hit one of them while the others send to it, or while it
    holds messages for them. Nothing may be lost, declared or not."""

    name = "interleavings"
    lossless = True
    reaches = ("failovers", "sites DOWN", "halves that both relayed", "failovers in a half",
               "excluded members merged back", "relays by a merge")

    def make_plan(self) -> Plan:
        rng = self.rng
        sites = self.draw_sites(rng.choice((2, 2, 3)), 3, 4)
        self.troubled = rng.choice(list(sites))
        begins = [Begin(rng.randrange(millis(500)), name) for name in self.members]
        at_ns = span(rng, 4, 6)
        pattern = rng.choice(PATTERNS)
        turn, kind = divmod(self.seed, 8)
        match SPECIAL[turn % len(SPECIAL)] if kind == SPECIAL_SEED else pattern:
            case "relay that was alone":
                faults, stream = self.relay_that_was_alone(at_ns)
            case "late order":
                faults, stream = self.late_order(at_ns)
            case "inherited grace":
                faults, stream = self.inherited_grace(at_ns)
            case "known only from disk":
                faults, stream = self.known_only_from_disk(at_ns)
                begins = [begin for begin in begins if begin.name != self.sites[self.troubled][-1]]
            case "rolling restart":
                faults, stream = self.rolling_restart(at_ns)
            case "mute relay":
                faults, stream = self.mute_relay(at_ns)
            case "leave under load":
                faults, stream = self.leave_under_load(at_ns)
            case "half without a relay":
                faults, stream = self.half_without_a_relay(at_ns)
            case _:
                faults, stream = self.back_from_a_pause(at_ns)
        faults.sort(key=lambda fault: fault.at_ns)
        stop_ns = max(action.at_ns for action in (*faults, *stream)) + span(rng, 0.5, 3)
        early = self.draw_messages([], at_ns, rng.randint(5, 15), far_ratio=0.2)
        traffic = (*begins, *sorted([*early, *stream], key=lambda action: action.at_ns))
        return Plan(sites, tuple(faults), traffic, stop_ns)

    def stream(
        self, names: tuple[str, ...], first_ns: int, stop_ns: int, every_ns: int, *until: str,
    ) -> list[SendMessages]:
        """Short batches to all, one after the other, each by any of the names. until: sites that send receipts."""
        return [SendMessages(at_ns, self.rng.choice(names), "", self.rng.choice((1, 1, 3)), 0, until=until)
                for at_ns in range(first_ns, stop_ns, every_ns)]

    # --- the patterns -----------------------------------------------------------------------------------------------

    def rolling_restart(self, at_ns: int) -> tuple[list[Action], list[SendMessages]]:
        """The members of a site that holds messages for an unreachable site restart one after the other: the hold, and
        the row of that site, must pass from backup to backup."""
        rng, names = self.rng, self.sites[self.troubled]
        self.settings = (("site_down_after_ns", span(rng, 1, 3)), ("lost_after_ns", seconds(2)))
        order = rng.sample(names, len(names) - rng.choice((0, 0, 1)))
        stream = self.stream(names, at_ns + millis(100), at_ns + seconds(2), millis(80))
        next_ns = at_ns + seconds(4)
        faults: list[Action] = []
        for name in order:
            leaves = rng.random() < 0.3
            back_ns = next_ns + span(rng, 0.3, 1) + (seconds(3) if leaves else 0)
            faults += [(LeaveOf if leaves else CrashOf)(next_ns, name), Begin(back_ns, name)]
            next_ns = back_ns + span(rng, 3, 4)
        return [Split(at_ns, (names, self.elsewhere(self.troubled)), next_ns - at_ns, (BRIDGE,)), *faults], stream

    def mute_relay(self, at_ns: int) -> tuple[list[Action], list[SendMessages]]:
        """The relay receives messages that it can no longer multicast locally, and crashes: others must get them."""
        rng, names = self.rng, self.sites[self.troubled]
        for_ns = span(rng, 0.1, 1.5)
        stream = self.stream(self.elsewhere(self.troubled), at_ns, at_ns + for_ns, millis(20))
        return [MuteRelay(at_ns, names[0], for_ns), CrashOfCoordinator(at_ns + for_ns - NS_PER_MS, names[0]),
                *(Begin(at_ns + for_ns + span(rng, 1, 5), name) for name in names)], stream

    def leave_under_load(self, at_ns: int) -> tuple[list[Action], list[SendMessages]]:
        """A relay leaves gracefully while many messages are on their way to it."""
        rng, names = self.rng, self.sites[self.troubled]
        slow = Weather(latency_ns=span(rng, 0.005, 0.05), jitter_ns=5 * NS_PER_MS)
        stream = self.stream(self.elsewhere(self.troubled), at_ns - millis(200), at_ns + seconds(1), millis(7))
        return [Storm(at_ns - millis(300), slow, seconds(2), BRIDGE), LeaveOfRelay(at_ns, rng.choice(names)),
                *(Begin(at_ns + seconds(4), name) for name in names)], stream

    def half_without_a_relay(self, at_ns: int) -> tuple[list[Action], list[SendMessages]]:
        """Both halves of a site that is split for long relay; one half loses the bridge for a moment, and its relay
        crashes, while the other half acknowledges."""
        rng, names = self.rng, self.sites[self.troubled]
        self.settings, self.splits = (("split_grace_ns", GRACE_NS),), True
        mixed = rng.sample(names, len(names))
        half, others = tuple(mixed[:2]), self.elsewhere(self.troubled)
        cut_ns = at_ns + HALVES_NS
        for_ns = span(rng, 0.5, 2)
        stream = self.stream(others, cut_ns + millis(50), cut_ns + for_ns, millis(40))
        return [Split(at_ns, (half, tuple(mixed[2:])), HALVES_NS + seconds(8), (LOCAL,)),
                Split(cut_ns, (half, others), for_ns, (BRIDGE,)),
                CrashOfCoordinator(cut_ns + for_ns - span(rng, 0, 0.3), half[0])], stream

    def back_from_a_pause(self, at_ns: int) -> tuple[list[Action], list[SendMessages]]:
        """A member is paused until it is excluded, and merges back while others send to its site with receipts."""
        rng, names, self.splits = self.rng, self.sites[self.troubled], True
        for_ns = span(rng, 7, 9)
        back_ns = at_ns + for_ns
        far = Weather(latency_ns=span(rng, 0.005, 0.1), jitter_ns=5 * NS_PER_MS)
        near = Weather(latency_ns=span(rng, 0.001, 0.005), jitter_ns=NS_PER_MS)
        others = self.elsewhere(self.troubled)
        stream = [*self.stream(others, back_ns - seconds(1), back_ns - millis(200), millis(40)),
                  *self.stream(others, back_ns - millis(200), back_ns + millis(100), millis(4), self.troubled)]
        return [PauseOf(at_ns, rng.choice(names), for_ns), Storm(back_ns - seconds(2), far, seconds(4), BRIDGE),
                Storm(back_ns - seconds(2), near, seconds(4), LOCAL)], stream

    def relay_that_was_alone(self, at_ns: int) -> tuple[list[Action], list[SendMessages]]:
        """A member is paused until it is excluded. If its address is the lowest, it leads the merge and becomes relay;
        it lacks messages that the others multicast meanwhile and hold for a site that the bridge does not reach."""
        rng, names, self.splits = self.rng, self.sites[self.troubled], True
        self.settings = (("lost_after_ns", seconds(2)),)
        paused, for_ns = rng.choice(names), span(rng, 9, 11)
        senders = tuple(name for name in names if name != paused)
        stream = self.stream(senders, at_ns + seconds(7), at_ns + for_ns - seconds(0.5), millis(100))
        return [PauseOf(at_ns, paused, for_ns),
                Split(at_ns + seconds(6), (names, self.elsewhere(self.troubled)), for_ns, (BRIDGE,))], stream

    def late_order(self, at_ns: int) -> tuple[list[Action], list[SendMessages]]:
        """An order reaches the relay after the order that replaced it (relay rule 14). If it is carried out, the relay
        holds messages for ever."""
        rng, names = self.rng, self.sites[self.troubled]
        site = rng.choice([site for site in self.sites if site != self.troubled])
        for_ns = span(rng, 0.3, 1.5)
        stream = self.stream(names, at_ns, at_ns + for_ns + seconds(2), millis(80))
        return [LateOrder(at_ns, names, site, for_ns)], stream

    def inherited_grace(self, at_ns: int) -> tuple[list[Action], list[SendMessages]]:
        """Half of a site has no bridge for a while. The other half acknowledges messages that this half needs later,
        and the relay that began the grace for them crashes (relay rule 7)."""
        rng, names, self.splits = self.rng, self.sites[self.troubled], True
        mixed = rng.sample(names, len(names))
        half, rest = tuple(mixed[:2]), tuple(mixed[2:])
        senders = self.sites[rng.choice([site for site in self.sites if site != self.troubled])]
        apart_ns = span(rng, 14, 16)
        crash_ns = at_ns + span(rng, 8, 10)
        stream = self.stream(self.elsewhere(self.troubled), at_ns + millis(100), at_ns + apart_ns, millis(150))
        return [Split(at_ns, (half, rest), apart_ns + seconds(4), (LOCAL,)),
                Split(at_ns, (half, (*rest, *self.elsewhere(self.troubled))), apart_ns, (BRIDGE,)),
                CrashOfCoordinator(crash_ns, senders[0])], stream

    def known_only_from_disk(self, at_ns: int) -> tuple[list[Action], list[SendMessages]]:
        """A site crashes, and one of its members restarts from a disk that names the other sites. Meanwhile a new
        member, cut off from all, has started the site anew: it drops its messages, as no site is in its table. If the
        restarted member leads the merge, it must not count these messages as owed to the other sites (relay rule 17).
        """
        rng, names, self.splits = self.rng, self.sites[self.troubled], True
        self.settings = (("hold_dir", "/hold"), ("lost_after_ns", seconds(2)))
        restarted, founder = rng.choice(names[:-1]), names[-1]
        apart_ns = span(rng, 7, 9)
        merged_ns = at_ns + apart_ns + seconds(6)
        stream = [*self.stream((founder,), at_ns + seconds(3), at_ns + apart_ns - seconds(1), millis(150)),
                  *self.stream(self.elsewhere(self.troubled), merged_ns - seconds(1), merged_ns, millis(200))]
        return [*(CrashOf(at_ns, name) for name in names[:-1]),
                Split(at_ns, (names[:-1], (founder,)), apart_ns, (LOCAL,)),
                Split(at_ns, (names, self.elsewhere(self.troubled)), merged_ns - at_ns, (BRIDGE,)),
                Begin(at_ns + millis(500), founder), Begin(at_ns + span(rng, 0.5, 2), restarted)], stream
