"""Typed services (blocks/service) on the simulator; `--profile services`, `--profile services-sites`, and what C1 to C5
say of them.

Every member calls, and serves, but for those of one site in some seeds with sites. A call has a number of its own, that
its method writes into the record of the run as it begins and as it has run to its end; each outcome at a caller is
judged by this record at once.

C1  A call runs at most once; one of an idempotent method at most once in an incarnation of a member for each attempt.
C2  After a definite error the method did not run to its end; if it was refused, it did not begin.
C3  A stream is a beginning of what its method gave, in order; its end comes after the last item, an error where it was.
C4  A call ends by its deadline, a call inside a method by that of the outer call.
C5  What waits to be read is bounded, and nothing is left of calls and streams that have ended.
C6  In the end each member knows what all members of all sites serve.
"""
from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence
from random import Random
from typing import Any

import attrs

import jgroups_py as jg
from jgroups_py.blocks.service import AsyncServices, Service, caller, method
from jgroups_py.blocks.service.base import CURRENT, WINDOW, CallContext
from jgroups_py.channel.aio import AsyncChannel
from jgroups_py.model.address import Address, ProxyUUID
from jgroups_py.model.errors import (
    ArgumentsError,
    ChannelError,
    NoMemberError,
    NoMethodError,
    NoServiceError,
    OverloadedError,
    RemoteError,
    RemoteFault,
)
from jgroups_py.model.units import NS_PER_S, millis
from jgroups_py.simulator.plan_parts import WHOLE, PlanPart
from jgroups_py.simulator.runner import APPLICATIONS, Outcome
from jgroups_py.testing.simulation.ledger import Broken
from jgroups_py.testing.simulation.trial import Trial

PROFILE, PROFILE_SITES = "services", "services-sites"
BEAT_S = 0.02                              # of the task that notices pauses of its process
SLACK_S = 0.1                              # how late the end of a call may be noticed
DELAYS = (0.0, 0.0, 0.001, 0.05, 0.5, 4.0)           # of methods, s
TIMEOUTS = (0.3, 2.0, 10.0, 30.0)
LAGS = (0.01, 0.5, 5.0)                    # of the receiver, s
SLOW_SHARE = 0.1                           # of the operations send a message that receivers handle slowly
BURST = (1, 1, 2, 5, 30)                   # calls at a time
ITEMS = (0, 1, 63, 64, 65, 200, 5000)      # of a stream
LONGEST_S = 35.0                           # that a reader goes on: what began late ends while the run waits for rest
REFUSED = (NoMemberError, NoMethodError, NoServiceError, OverloadedError, ArgumentsError)
SITE_WITHOUT = ("NYC", "SFO", "", "", "")  # of a seed: the site whose members serve nothing
TWICE = 2                                  # attempts that show that a call was tried again


class SoldOut(RemoteFault):
    """The declared error of the methods here."""

    call: int


@attrs.define(eq=False)
class Execution:
    """A method that began. server: the incarnation of its member; site: "" without sites."""

    server: str
    site: str = ""
    ended: bool = False
    items: int = 0


class ServicesRun:
    """The record of one seed."""

    def __init__(self, seed: int, profile: str = PROFILE) -> None:
        self.seed = seed
        self.site_without = SITE_WITHOUT[seed % len(SITE_WITHOUT)] if profile == PROFILE_SITES else ""
        self.calls = 0
        self.executions: dict[int, list[Execution]] = {}
        self.broken: list[Broken] = []
        self.counts: Counter[str] = Counter()
        self.members = 0
        self.services: list[AsyncServices] = []              # of all incarnations
        self.left_ns: dict[int, int] = {}                    # of calls inside methods: what the outer call had left

    async def start(self, ch: AsyncChannel) -> ServicesMember:
        """The application of a member that starts."""
        self.members += 1
        member = ServicesMember(self, ch, Random(f"{self.seed}/services/{self.members}"))
        await ch.connect("services")
        member.beating = asyncio.create_task(member.beat())
        return member

    def began(self, number: int, member: ServicesMember, attempts: int) -> Execution:
        """A method begins. attempts: how often one incarnation may run this call."""
        known, server = self.executions.setdefault(number, []), member.incarnation
        known.append(Execution(server, member.ch.site or ""))
        same = [one for one in known if one.server == server]
        if attempts and len(known) > attempts:
            self.broken.append(Broken("C1", f"call {number} runs {len(known)} times, at {known[0].server}, {server}"))
        elif len(same) > 1:
            self.counts["idempotent calls twice at a member"] += 1
        return known[-1]

    def check(self, members: list[ServicesMember]) -> None:
        """What was found since, and C5 for all streams."""
        for broken in self.broken:
            raise broken
        for member in members:
            for _, stream in member.services._streams.values():
                if len(stream.buffer._items) > WINDOW:
                    raise Broken("C5", f"{member.ch.name} keeps {len(stream.buffer._items)} items of a stream")

    def at_end(self, members: list[ServicesMember]) -> None:
        """C5: nothing is left. C6: all know what all serve."""
        for member in members:
            for other in members:
                if member.offered_by(other) != other.served_keys():
                    raise Broken("C6", f"{member.ch.name} knows of other methods at {other.ch.name} than it serves")
            left = {name: member.services.stats()[name] for name in ("running", "streams", "waiting")}
            if any(left.values()) or member.services.directory.under_way:
                raise Broken("C5", f"{member.ch.name} still has {left} when all calls have ended")


class Recorded(Service, name="recorded", version="2"):
    """What members serve. how: "", "fault" or "error", of a method that fails."""

    def __init__(self, member: ServicesMember) -> None:
        self.member = member

    async def run(self, number: int, delay: float, how: str, attempts: int) -> int:
        """A method: begins, takes its time, fails or ends."""
        run = self.member.run
        execution, left_ns = run.began(number, self.member, attempts), self.member.left_ns()
        if left_ns is not None and left_ns > run.left_ns.get(number, left_ns) + millis(1):
            run.broken.append(Broken("C4", f"call {number} is given {left_ns} ns; the method that made it had "
                                           f"{run.left_ns[number]} left"))
        try:
            await asyncio.sleep(delay)
        except asyncio.CancelledError:
            run.counts["handlers cancelled"] += 1
            run.counts["handlers cancelled from another site"] += isinstance(caller(), ProxyUUID)
            raise
        if how == "fault":
            raise SoldOut(number)
        if how == "error":
            raise LookupError(number)
        execution.ended = True
        return number

    @method(raises=(SoldOut,), idempotent=True)
    async def look(self, number: int, delay: float, how: str = "") -> int:
        return await self.run(number, delay, how, 0)

    @method(raises=(SoldOut,))
    async def place(self, number: int, delay: float, how: str = "") -> int:
        return await self.run(number, delay, how, 1)

    @method(raises=(SoldOut,), once=True)
    async def charge(self, number: int, delay: float, how: str = "") -> int:
        return await self.run(number, delay, how, 1)

    @method()
    async def forward(self, number: int, delay: float) -> int:
        execution = self.member.run.began(number, self.member, 1)
        await self.member.judged(self.member.services.any(Recorded, timeout=100.0), "place", delay, "", 100.0)
        execution.ended = True
        return number

    @method()
    async def everywhere(self, number: int) -> int:
        self.member.run.began(number, self.member, 0).ended = True
        return number

    @method(raises=(SoldOut,))
    async def items(self, number: int, count: int, delay: float, how: str = "") -> AsyncIterator[tuple[int, int]]:
        execution = self.member.run.began(number, self.member, 1)
        for item in range(count):
            if delay and item % 50 == 49:
                await asyncio.sleep(delay)
            execution.items += 1
            yield number, item
        if how:
            raise SoldOut(number)
        execution.ended = True


class RecordedOfOld(Service, name="recorded", version="1"):
    """An older version: without most methods, and plain functions, which run at once."""

    def __init__(self, member: ServicesMember) -> None:
        self.member = member

    @method(idempotent=True)
    def look(self, number: int, delay: float) -> int:
        self.member.run.began(number, self.member, 0).ended = True
        return number

    @method()
    def place(self, number: int) -> int:
        raise AssertionError("a method with other parameters runs")


class ServicesMember:
    """One incarnation: serves, calls, and judges what comes back."""

    def __init__(self, run: ServicesRun, ch: AsyncChannel, rng: Random) -> None:
        self.run = run
        self.ch = ch
        self.rng = rng
        ch.receiver = self
        self.services = AsyncServices(ch)
        self.incarnation = f"{ch.name}#{run.members}"
        self.paused_s = 0.0                                  # how long its process stood still
        self.beating: asyncio.Task[None] | None = None
        run.services.append(self.services)
        if not run.site_without or ch.site != run.site_without:
            self.services.serve(RecordedOfOld(self) if rng.random() < 0.2 else Recorded(self))

    def served_keys(self) -> frozenset[bytes]:
        """The keys of the methods that it serves."""
        return frozenset(self.services._served)

    def offered_by(self, other: ServicesMember) -> frozenset[bytes]:
        """The keys of the methods that another member, or this one, serves as far as this one knows."""
        directory, site = self.services.directory, other.ch.site
        there = directory.members if site == self.ch.site else directory.sites.get(site or "", ())
        known = [directory.offers.get(one, ()) for one in there if one.name == other.ch.name]
        return frozenset(key for offers in known for offer in offers for key in offer.keys)

    async def beat(self) -> None:
        """Notice pauses of the process."""
        loop = asyncio.get_running_loop()
        while True:
            before = loop.time()
            await asyncio.sleep(BEAT_S)
            self.paused_s += max(0.0, loop.time() - before - 2 * BEAT_S)

    # --- calls ------------------------------------------------------------------------------------------------------

    async def act(self, rng: Random) -> None:
        """Some calls at once."""
        calls = [self.call(Random(rng.random())) for _ in range(rng.choice(BURST))]
        if rng.random() < SLOW_SHARE:
            with contextlib.suppress(ChannelError):
                await self.ch.send(b"", timeout=1.0)
        await asyncio.gather(*calls)

    async def receive(self, message: jg.Message) -> None:
        """A message of the application: what comes after it is handled late, as views are not."""
        await asyncio.sleep(self.rng.choice(LAGS))

    async def call(self, rng: Random) -> None:
        """A call of some kind, which may be given up."""
        timeout, patience = rng.choice(TIMEOUTS), rng.choice((None, None, None, 0.0, 0.01, 1.0))
        verb = rng.choice(("look", "look", "place", "place", "charge", "forward", "items", "all"))
        delay, how = rng.choice(DELAYS), rng.choice(("", "", "", "fault", "error"))
        stub = self.stub(rng, timeout)
        if verb == "items":
            begun = self.read(stub, rng.choice(ITEMS), rng.choice((0.0, 0.0, 0.01, 0.2)), how, rng)
        elif verb == "all":
            begun = self.ask_all(timeout)
        else:
            begun = self.judged(stub, verb, delay, how, timeout)
        try:
            async with asyncio.timeout(patience):
                await begun
        except TimeoutError:
            self.run.counts["cancelled by callers"] += 1

    def stub(self, rng: Random, timeout: float) -> Recorded:
        """A destination."""
        services, far = self.services, self.services.directory.sites
        if far and rng.random() < 0.7:
            return self.stub_with_sites(far, rng, timeout)
        if rng.random() < 0.4:
            return services.at(rng.choice(self.ch.members or (self.ch.me,)), Recorded, timeout=timeout)
        prefer = rng.choice(("least", "least", "local", "hash:a", "hash:b"))
        return services.any(Recorded, prefer=prefer, timeout=timeout)

    def stub_with_sites(self, far: Mapping[str, Sequence[Address]], rng: Random, timeout: float) -> Recorded:
        """A destination that may be at another site."""
        services, site = self.services, rng.choice(list(far))
        reach = rng.choice(("at", "site", "site", "nearest", "nearest"))
        if reach == "at" and far[site]:
            return services.at(rng.choice(list(far[site])), Recorded, timeout=timeout)
        prefer = rng.choice(("least", "least", "local", "hash:a"))
        if reach == "site":
            return services.site(rng.choice((site, site, self.ch.site or site)), Recorded, prefer=prefer,
                                 timeout=timeout)
        return services.nearest(Recorded, prefer=prefer, timeout=timeout)

    async def judged(self, stub: Recorded, verb: str, delay: float, how: str, timeout: float) -> None:
        """A call that has one answer. `how` is left out where it is "", so that older members know the call."""
        run = self.run
        run.calls += 1
        number, outer = run.calls, self.left_ns()
        if outer is not None:
            run.left_ns[number] = outer
        arguments = (number, delay, how) if how and verb != "forward" else (number, delay)
        error = await self.timed(getattr(stub, verb)(*arguments), number, timeout)
        known = run.executions.get(number, [])
        if len(known) >= TWICE:
            run.counts["tried elsewhere"] += 1
        if error is None:
            if not any(one.ended for one in known):
                self.breaks("C2", f"call {number} has a result, and its method did not run to its end")
            elif known[-1].site:
                run.counts["answered by the own site" if known[-1].site == self.ch.site else
                           "answered by another site"] += 1
        else:
            self.failed(number, error, known)

    def failed(self, number: int, error: ChannelError, known: list[Execution]) -> None:
        """C2: what an error says of what ran."""
        counts = self.run.counts
        counts["definite failures" if error.definite else "indefinite failures"] += 1
        counts["faults declared"] += isinstance(error, SoldOut)
        counts["no such method"] += isinstance(error, NoMethodError)
        counts["calls of no known member"] += isinstance(error, NoMemberError | NoServiceError)
        if error.definite and any(one.ended for one in known):
            self.breaks("C2", f"call {number} ran to its end; its caller got {error!r}, which is definite")
        if error.definite and isinstance(error, REFUSED) and known:
            self.breaks("C2", f"call {number} began at {known[0].server}; its caller got {error!r}")
        if isinstance(error, RemoteError) and error.kind not in ("LookupError", "RequestTimeoutError"):
            self.breaks("C2", f"call {number}: {error!r} is no error of the method")

    def left_ns(self) -> int | None:
        """Inside a method: the time until its deadline."""
        context = CURRENT.get()
        if not isinstance(context, CallContext):
            return None
        return context.deadline_ns - self.ch.connection().clock_ns()

    async def timed(self, call: Awaitable[Any], number: int, timeout: float) -> ChannelError | None:
        """C4: wait for a call; its error, None if it has its number as result."""
        loop = asyncio.get_running_loop()
        began, paused = loop.time(), self.paused_s
        left = timeout if number not in self.run.left_ns else min(timeout, self.run.left_ns[number] / NS_PER_S)
        error: ChannelError | None = None
        try:
            found = await call
        except ChannelError as failure:
            error = failure
        else:
            if found != number:
                self.breaks("C2", f"call {number} has the result {found!r}")
            self.run.counts["calls answered"] += 1
        took = loop.time() - began
        await asyncio.sleep(2 * BEAT_S)                      # so that a pause is noticed
        if took > max(0.0, left) + SLACK_S + self.paused_s - paused:
            self.breaks("C4", f"call {number} took {took:.3f} s, with a timeout of {left:.3f} s")
        return error

    async def ask_all(self, timeout: float) -> None:
        """A call of all members."""
        run = self.run
        run.calls += 1
        number = run.calls
        try:
            found = await self.services.all(Recorded.everywhere, timeout=timeout)(number)
        except ChannelError:
            return
        run.counts["answers of all"] += len(found.values)
        known = run.executions.get(number, [])
        if len(known) != len({one.server for one in known}):
            self.breaks("C1", f"call {number} of all members runs twice at one")
        if any(value != number for value in found.values.values()) or len(found.values) > len(known):
            self.breaks("C2", f"call {number} of all members has answers of members where it did not run")

    async def read(self, stub: Recorded, count: int, delay: float, how: str, rng: Random) -> None:
        """C3: read a stream, slowly or not, to its end or not."""
        run = self.run
        run.calls += 1
        number, got = run.calls, 0
        lag, enough = rng.choice((0.0, 0.0, 0.1)), rng.choice((10 ** 9, 10 ** 9, 0, 1, 64, 100))
        clock = asyncio.get_running_loop().time
        until = clock() + LONGEST_S
        stream = stub.items(number, count, delay, how) if how else stub.items(number, count, delay)
        ended: ChannelError | None = None
        try:
            async for item in stream:
                if item != (number, got):
                    self.breaks("C3", f"stream {number}: item {item} where {got} is next")
                got += 1
                if got > enough or clock() > until:
                    run.counts["streams given up"] += 1
                    return
                if lag and got % 64 == 0:
                    await asyncio.sleep(lag)
        except ChannelError as error:
            ended = error
        finally:
            await stream.aclose()                            # type: ignore[attr-defined]
        known = run.executions.get(number, [])
        if ended is None or isinstance(ended, SoldOut):
            run.counts["streams read"] += 1
            run.counts["streams read from another site"] += bool(known) and known[0].site != (self.ch.site or "")
            if got != count or not known or known[0].ended == bool(how) or bool(how) != (ended is not None):
                self.breaks("C3", f"stream {number} of {count} items ends after {got} with {ended!r}")
        else:
            run.counts["streams broken"] += bool(known)
            if known and got > known[0].items:
                self.breaks("C3", f"stream {number} brought {got} items of {known[0].items}")

    def breaks(self, guarantee: str, text: str) -> None:
        """A guarantee is broken; the check of the run raises it."""
        self.run.broken.append(Broken(guarantee, f"{self.incarnation}: {text}"))


async def act(member: ServicesMember, rng: Random) -> None:
    """The trial's `act`."""
    if member.ch.state is jg.ChannelState.CONNECTED:
        await member.act(rng)


def runner_of(profile: str) -> Any:
    """What runs a seed, or a part of it."""
    def run(seed: int, part: PlanPart = WHOLE, keep: bool = False) -> Outcome:
        shared = ServicesRun(seed, profile)
        trial = Trial(profile, shared.start, act, always=shared.check, at_end=shared.at_end)
        outcome = trial.run(seed, part, keep=keep)
        shared.counts["asked again"] += sum(one.counters.get("calls_asked_again", 0) for one in shared.services)
        return attrs.evolve(outcome, reached={**outcome.reached, **shared.counts})
    return run


APPLICATIONS.update({name: runner_of(name) for name in (PROFILE, PROFILE_SITES)})
