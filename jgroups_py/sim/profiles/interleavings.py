"""Profile interleavings: the few orders of events that single safeguards are for, again and again.

Profiles that draw everything at random meet these now and then; here each seed is one of them, at random times. Each
came from thinking about what a rule of RELAY would be needed for, and the planted bugs keep the profile to it.
"""
from __future__ import annotations

from jgroups_py.outputs import BRIDGE, LOCAL
from jgroups_py.sim.faults import Action, Begin, CrashOf, CrashOfFirst, LeaveOf, PauseOf, Split, Storm, Talk
from jgroups_py.sim.network import Weather
from jgroups_py.sim.profiles.base import Plan, span
from jgroups_py.sim.profiles.sites import SitesProfile
from jgroups_py.sim.relay_faults import LeaveOfFirst, MuteFirst
from jgroups_py.units import NS_PER_MS, millis, seconds

PATTERNS = ("rolling restart", "mute relay", "leave under load", "half without a relay", "back from a pause")
GRACE_NS = seconds(6)                    # of "half without a relay"; a half is on the bridge before it is over
HALVES_NS = seconds(15)                  # after which both halves relay and the grace of their split is over


class Interleavings(SitesProfile):
    """Two or three sites of three or four members; something befalls one of them while the others send to it, or while
    it holds for them. Nothing may be lost, declared or not."""

    name = "interleavings"
    lossless = True
    reaches = ("failovers", "sites DOWN", "halves that both relayed", "failovers in a half",
               "excluded members merged back")

    def make_plan(self) -> Plan:
        rng = self.rng
        sites = self.draw_sites(rng.choice((2, 2, 3)), 3, 4)
        self.troubled = rng.choice(list(sites))
        begins = [Begin(rng.randrange(millis(500)), name) for name in self.members]
        at_ns = span(rng, 4, 6)
        match rng.choice(PATTERNS):
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
        early = self.talk([], at_ns, rng.randint(5, 15), far_ratio=0.2)
        return Plan(sites, tuple(faults), (*begins, *sorted([*early, *stream], key=lambda talk: talk.at_ns)), stop_ns)

    def stream(self, names: tuple[str, ...], first_ns: int, stop_ns: int, every_ns: int, *until: str) -> list[Talk]:
        """Short runs to all, one after the other, by any of the names; with receipts of the sites in `until`."""
        return [Talk(at_ns, self.rng.choice(names), "", self.rng.choice((1, 1, 3)), 0, until=until)
                for at_ns in range(first_ns, stop_ns, every_ns)]

    # --- the patterns -----------------------------------------------------------------------------------------------

    def rolling_restart(self, at_ns: int) -> tuple[list[Action], list[Talk]]:
        """A site that holds what it cannot send is restarted, one member after the other: what is held is handed from
        backup to backup, and so is word of the site that it is held for."""
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

    def mute_relay(self, at_ns: int) -> tuple[list[Action], list[Talk]]:
        """The relay gets what its site does not hear from it any more, and dies: others must still have that."""
        rng, names = self.rng, self.sites[self.troubled]
        for_ns = span(rng, 0.1, 1.5)
        stream = self.stream(self.elsewhere(self.troubled), at_ns, at_ns + for_ns, millis(20))
        return [MuteFirst(at_ns, names[0], for_ns), CrashOfFirst(at_ns + for_ns - NS_PER_MS, names[0]),
                *(Begin(at_ns + for_ns + span(rng, 1, 5), name) for name in names)], stream

    def leave_under_load(self, at_ns: int) -> tuple[list[Action], list[Talk]]:
        """A relay leaves gracefully while much is on its way to it."""
        rng, names = self.rng, self.sites[self.troubled]
        slow = Weather(latency_ns=span(rng, 0.005, 0.05), jitter_ns=5 * NS_PER_MS)
        stream = self.stream(self.elsewhere(self.troubled), at_ns - millis(200), at_ns + seconds(1), millis(7))
        return [Storm(at_ns - millis(300), slow, seconds(2), BRIDGE), LeaveOfFirst(at_ns, rng.choice(names)),
                *(Begin(at_ns + seconds(4), name) for name in names)], stream

    def half_without_a_relay(self, at_ns: int) -> tuple[list[Action], list[Talk]]:
        """Of a site split for long, both halves relay; one is cut off from the bridge for a moment, and its relay dies,
        while the other acknowledges."""
        rng, names = self.rng, self.sites[self.troubled]
        self.settings, self.splits = (("split_grace_ns", GRACE_NS),), True
        mixed = rng.sample(names, len(names))
        half, others = tuple(mixed[:2]), self.elsewhere(self.troubled)
        cut_ns = at_ns + HALVES_NS
        for_ns = span(rng, 0.5, 2)
        stream = self.stream(others, cut_ns + millis(50), cut_ns + for_ns, millis(40))
        return [Split(at_ns, (half, tuple(mixed[2:])), HALVES_NS + seconds(8), (LOCAL,)),
                Split(cut_ns, (half, others), for_ns, (BRIDGE,)),
                CrashOfFirst(cut_ns + for_ns - span(rng, 0, 0.3), half[0])], stream

    def back_from_a_pause(self, at_ns: int) -> tuple[list[Action], list[Talk]]:
        """A member is paused until it is excluded and merges back, while others send to its site and want receipts."""
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
