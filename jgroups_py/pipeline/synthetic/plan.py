"""The plan of a synthetic archive: the lives of members, the views that follow from them, the planted faults.

By default two sites of three members; a coordinator crashes and returns as a new incarnation, another member leaves in
good order. So there are view changes, a late joiner, and records that end in either way. The same seed makes the same
plan.
"""
from __future__ import annotations

from collections.abc import Iterator
from random import Random

import attrs
from attrs import evolve

from jgroups_py.model.units import NS_PER_S

CRASH, LEAVE, RETURN = 0.40, 0.55, 0.70  # shares of the duration
FAULT_KINDS = ("lost", "doubled", "out_of_order", "declared_lost", "other_set", "r3_lost", "r3_doubled", "r4_order",
               "skipped", "skipped_relayed")
"""r3_, r4_ and declared_lost: at every member of another site, as if a relay did it; the others at one receiver.
skipped: between two rows that record it, FLOW at the receiver skips the multicasts of a member of its site; _relayed:
those of its relay."""
LONGEST_FAULT = 5
APART = 40                               # the fewest messages between two faults of one origin
START_NS = 1_760_000_000 * NS_PER_S


@attrs.frozen
class PlannedLife:
    """One incarnation: from when to when it is a member (true time, ns since the beginning)."""

    number: int
    site: str
    name: str
    incarnation: str
    start_ns: int
    stop_ns: int
    crashed: bool = False


@attrs.frozen
class SiteView:
    """A view of a site, installed at `at_ns`; messages sent before `cut_ns` belong to the view before it."""

    id: str
    cut_ns: int
    at_ns: int
    members: tuple[PlannedLife, ...]


@attrs.frozen
class Fault:
    """A planted fault in the messages `first` to `stop` of an origin, at `receivers`."""

    kind: str
    origin: PlannedLife
    first: int
    stop: int
    receivers: tuple[PlannedLife, ...]


@attrs.frozen
class SyntheticPlan:
    """The plan of an archive. rate: messages a second of all members together; clock_ns: site -> how much the clocks of
    its hosts are ahead."""

    messages: int = 10_000
    rate: int = 5000
    payload_bytes: int = 1000
    seed: int = 1
    faults: int = 0                                         # of each kind
    sites: tuple[tuple[str, tuple[str, ...]], ...] = (("NYC", ("A", "B", "C")), ("SFO", ("D", "E", "F")))
    clock_ns: tuple[tuple[str, int], ...] = ()
    cluster: str = "synthetic"
    segment_rows: int = 262_144
    turnover: bool = True                                   # members crash, leave and come back
    topics: tuple[str, ...] = ("orders", "prices", "audit")
    open_end: bool = False                                  # the members still run, so no record has `stop`
    rows: int | None = None                                 # rows of the archive (rows.plan_of); None: as they come

    @property
    def duration_ns(self) -> int:
        """The time in which the messages are sent."""
        return self.messages * NS_PER_S // self.rate

    @property
    def pause_ns(self) -> int:
        """How long a crash stops deliveries, within a site; between sites three times as long."""
        return min(NS_PER_S // 2, self.duration_ns // 50)

    @property
    def clocks(self) -> dict[str, int]:
        """Site -> how much the clocks of its hosts are ahead (ns)."""
        return dict(self.clock_ns)

    def lives(self) -> list[PlannedLife]:
        """The lives of all incarnations."""
        rng = Random(f"lives/{self.seed}")
        end_ns = self.duration_ns + 20 * self.pause_ns
        found = [PlannedLife(at, site, name, f"{rng.getrandbits(128):032x}", 0, end_ns)
                 for at, (site, name) in enumerate((site, name) for site, names in self.sites for name in names)]
        if not self.turnover:
            return found
        crashed, left = found[0], found[-2]
        found[0] = evolve(crashed, stop_ns=int(CRASH * self.duration_ns), crashed=True)
        found[-2] = evolve(left, stop_ns=int(LEAVE * self.duration_ns))
        found.append(evolve(crashed, number=len(found), incarnation=f"{rng.getrandbits(128):032x}",
                            start_ns=int(RETURN * self.duration_ns)))
        return found

    def views(self, site: str) -> list[SiteView]:
        """The views of a site."""
        lives = [life for life in self.lives() if life.site == site]
        changes = sorted({0} | {life.start_ns for life in lives} | {life.stop_ns for life in lives})[:-1]
        found = []
        for counter, cut_ns in enumerate(changes, 1):
            members = tuple(sorted((life for life in lives if life.start_ns <= cut_ns < life.stop_ns),
                                   key=lambda life: (life.start_ns, life.number)))
            at_ns = cut_ns + self.pause_ns if cut_ns else 0
            found.append(SiteView(f"{counter:016x}|{members[0].incarnation}", cut_ns, at_ns, members))
        return found

    def outages(self) -> list[tuple[int, int]]:
        """The times, (first, stop), in which nothing passes between sites because a relay has crashed."""
        return [(life.stop_ns, life.stop_ns + 3 * self.pause_ns) for life in self.lives() if life.crashed]

    @property
    def period_ns(self) -> int:
        """The time between two messages of one member."""
        return len([name for _, names in self.sites for name in names]) * NS_PER_S // self.rate

    def planted(self) -> list[Fault]:
        """The planted faults, all far enough from each other and from view changes to be found apart."""
        return list(_planted(self)) if self.faults else []


def _planted(plan: SyntheticPlan) -> Iterator[Fault]:
    rng = Random(f"faults/{plan.seed}")
    lives = plan.lives()
    whole = [life for life in lives if life.start_ns == 0 and not life.crashed and life.stop_ns > plan.duration_ns]
    highest = plan.duration_ns // plan.period_ns
    coordinators = [view.members[0] for site, _ in plan.sites for view in plan.views(site)]
    others_of_sites = [life for life in whole if life not in coordinators]
    used: dict[int, list[int]] = {life.number: [] for life in whole}
    for kind in FAULT_KINDS:
        for turn in range(plan.faults):
            origin = whole[turn % len(whole)]
            others = [life for life in whole if life != origin]
            far = tuple(life for life in lives if life.site != origin.site)
            at_once = kind.startswith("r") or kind == "declared_lost"
            if kind == "other_set":
                yield _in_other_view(plan, origin, rng.choice([o for o in others if o.site == origin.site]))
                continue
            if kind == "skipped":
                origin = others_of_sites[turn % len(others_of_sites)]
                others = [life for life in whole if life.site == origin.site and life != origin]
            elif kind == "skipped_relayed":
                others = [life for life in others_of_sites if life.site != origin.site]
            first = _free_place(plan, rng, used[origin.number], highest)
            if kind in ("doubled", "r3_doubled", "skipped_relayed"):
                stop = first + 1
            else:
                stop = first + rng.randint(2, LONGEST_FAULT) if "order" in kind else first + rng.randint(
                    1, LONGEST_FAULT)
            moment_ns = first * plan.period_ns
            receivers = tuple(life for life in far if life.start_ns <= moment_ns < life.stop_ns) if at_once else (
                rng.choice(others),)
            yield Fault(kind, origin, first, stop, receivers)


def _free_place(plan: SyntheticPlan, rng: Random, used: list[int], highest: int) -> int:
    """A seqno away from other faults and from view changes."""
    cuts = [view.cut_ns for site, _ in plan.sites for view in plan.views(site)][1:]
    for _ in range(10_000):
        first = rng.randrange(APART, max(APART + 1, highest - 2 * APART))
        away = all(abs(first - other) >= APART for other in used)
        calm = all(abs(first * plan.period_ns - cut_ns) > 6 * plan.pause_ns for cut_ns in cuts if cut_ns)
        if away and calm:
            used.append(first)
            return first
    raise ValueError(f"{plan.messages} messages have no room for {plan.faults} faults of each kind")


def _in_other_view(plan: SyntheticPlan, origin: PlannedLife, receiver: PlannedLife) -> Fault:
    """A fault in the last message before a view change: one member delivers it after the change."""
    views = plan.views(origin.site)
    if len(views) < 2:
        raise ValueError("the fault other_set needs a view change: turnover must be true")
    last = (views[1].cut_ns - 1) // plan.period_ns + 1
    return Fault("other_set", origin, last, last + 1, (receiver,))
