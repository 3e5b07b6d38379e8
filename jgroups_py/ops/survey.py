"""A survey: the state of all members of the group, and of the sites that are UP, requested through the group itself.

Any member may run one. Members that take part answer within milliseconds, even if their application blocks: a question
is answered inside a round of the loop, before the application's queue, and question and answer wait neither for credits
nor for the order of other messages (OOB, NO_FC). A member that is stopped or cut off is listed as silent.

Bounds: a member runs one survey at a time, and all callers share its result for FRESH_SECONDS; MOST_MEMBERS are asked;
a member answers MOST_ANSWERS a second, in ANSWER_BYTES at most. There are no orders. A question is a request of
blocks/rpc to a separate service, so members of versions without surveys can decode it.
"""
from __future__ import annotations

import json
import threading
import time
from collections.abc import Sequence
from functools import partial

import attrs

from jgroups_py import __version__
from jgroups_py.channel.base import BaseChannel
from jgroups_py.channel.block import Block, Connection
from jgroups_py.channel.session import Session
from jgroups_py.model.address import Address
from jgroups_py.model.batch import Batch, Flag
from jgroups_py.model.counters import counter, declare, drop, table
from jgroups_py.model.errors import NotConnectedError
from jgroups_py.model.outputs import Deliver, GlobalViewInstalled, Output
from jgroups_py.model.ports import MemberTable, SiteReporter, SuspicionTable, ViewSource
from jgroups_py.model.units import seconds
from jgroups_py.model.view import GlobalView
from jgroups_py.node.node import Node
from jgroups_py.ops.reports import Facts
from jgroups_py.ops.survey_answers import ANSWER_BYTES, parsed_answer, stack_digest
from jgroups_py.system.drops import LoggedCounters
from jgroups_py.wire.block_headers import SURVEY_SERVICE, Answer, Ask, Failure
from jgroups_py.wire.frame import VERSION

ANSWER_SECONDS = 1.0                        # after which members without an answer are listed as silent
FRESH_SECONDS = 0.5
STUCK_SECONDS = 1.0                         # for which a receiver with messages waiting has handled none
MOST_MEMBERS = 256
MOST_ANSWERS = 20                           # a second
MOST_SUSPECTS = 16                          # that an answer names
QUESTION = b"summary"
FLAGS = int(Flag.OOB | Flag.NO_FC)


@attrs.define(eq=False)
class SurveyRound:
    """One survey under way. asked: member -> its site; came: member -> (its answer, when); silent: members that do not
    answer. Times are of the wall clock."""

    number: int
    began: float
    asked: dict[Address, str | None] = attrs.Factory(dict)
    came: dict[Address, tuple[Facts, float]] = attrs.Factory(dict)
    silent: dict[Address, None] = attrs.Factory(dict)
    not_asked: int = 0
    sites: Facts | None = None              # as this member's site report has them
    error: str | None = None
    sent: bool = False
    done: threading.Event = attrs.Factory(threading.Event)

    def end_if_complete(self) -> None:
        """Wake the threads that wait, if all members have answered."""
        if self.sent and len(self.came) + len(self.silent) >= len(self.asked):
            self.done.set()


class Survey(Block):
    """See the module. One for a channel: `Survey.of`."""

    COUNTERS = declare(
        counter("questions_answered", "Surveys of other members that this one answered."),
        drop("questions_refused", "Surveys not answered: more than 20 in a second, or of an unknown kind."),
        drop("answers_unexpected", "Answers to no survey that is under way, or that cannot be read."),
    )

    @classmethod
    def of(cls, channel: BaseChannel) -> Survey:
        """The survey of a channel, made and attached if it has none."""
        for block in channel.blocks:
            if isinstance(block, Survey):
                return block
        made = cls(channel)
        channel.attach(made)
        return made

    def __init__(self, channel: BaseChannel) -> None:
        self.counters = LoggedCounters(table(self.COUNTERS))
        self._channel = channel
        self._digest = stack_digest(channel.spec)
        self._started = time.time()
        self._lock = threading.Lock()
        self._under_way: SurveyRound | None = None
        self._last: tuple[float, Facts] | None = None        # (monotonic time, result)
        self._number = 0
        self._second, self._answered = 0, 0                  # answers given in that second
        self._handled, self._moved_ns = -1, 0                # messages that the receiver has handled, since when
        self._connection: Connection | None = None
        self._everywhere: GlobalView | None = None           # the loop's; the receiver may get it later

    # --- asking, from any thread ------------------------------------------------------------------------------------

    def take(self) -> Facts:
        """The state of all members, after ANSWER_SECONDS at most.

        Raises:
            NotConnectedError: the channel is in no group, or its loop does not run.
        """
        session = self._channel.connection()
        with self._lock:
            if self._last is not None and time.monotonic() - self._last[0] < FRESH_SECONDS:
                return self._last[1]
            survey, is_first = self._under_way, self._under_way is None
            if survey is None:
                self._number += 1
                survey = self._under_way = SurveyRound(self._number, time.time())
                session.ask(partial(self._send, survey), lambda _: None)
        try:
            survey.done.wait(ANSWER_SECONDS)
        finally:
            if is_first:
                self._under_way = None
        with self._lock:
            if not survey.sent:
                raise NotConnectedError(survey.error or "the channel is leaving its group, or its loop does not run")
            result = self._result(survey)
            self._last = time.monotonic(), result
            return result

    def _send(self, survey: SurveyRound, node: Node) -> None:
        """On the loop: ask all members."""
        view = node.local.find(ViewSource).current_view()
        if view is None:
            survey.error = "the member is in no group"
            return survey.done.set()
        reporter: SiteReporter | None = node.local.find(SiteReporter)
        everywhere = self._everywhere
        members: list[tuple[Address, str | None]]
        if reporter is None:
            members = [(member, None) for member in view.members]
        else:
            report = reporter.site_report()
            survey.sites = report["sites"]
            members = [(member, report["site"]) for member in view.members]
            others = {} if everywhere is None else {
                site: there for site, there in everywhere.sites.items() if site != report["site"]}
            members += [(member, site) for site, there in sorted(others.items()) for member in there
                        if report["sites"].get(site, {}).get("status") == "UP"]
        survey.not_asked = max(0, len(members) - MOST_MEMBERS)
        survey.asked = dict(members[:MOST_MEMBERS])
        survey.sent = True
        connection = self._connection
        assert connection is not None, "a question is put to a connection"
        for member in survey.asked:
            if member == node.me:
                survey.came[member] = self._summary(node), time.time()
            else:
                node.send(Batch(node.me, member, (QUESTION,), (Ask(SURVEY_SERVICE, survey.number),), FLAGS),
                          connection.now_ns)
        return survey.end_if_complete()

    # --- the block --------------------------------------------------------------------------------------------------

    def begin(self, connection: Connection) -> None:
        self._connection = connection
        self._handled = -1
        self._last = None
        self._everywhere = self._channel.global_view

    def early(self, outputs: Sequence[Output]) -> Sequence[Output]:
        kept = [output for output in outputs if not self._handles(output)]
        self._look()
        return kept

    def _handles(self, output: Output) -> bool:
        if isinstance(output, GlobalViewInstalled):
            self._everywhere = output.view
        if not isinstance(output, Deliver) or not output.batch.headers:
            return False
        batch, header = output.batch, output.batch.headers[0]
        if not isinstance(header, Ask | Answer | Failure) or header.service != SURVEY_SERVICE:
            return False
        connection = self._connection
        if isinstance(header, Ask):
            if connection is not None:
                connection.ask(partial(self._answer, batch, header.first), lambda _: None)
        else:
            self._take_answer(batch, header)
        return True

    def _answer(self, question: Batch, number: int, node: Node) -> None:
        """On the loop: answer another member."""
        second = int(time.monotonic())
        if second != self._second:
            self._second, self._answered = second, 0
        self._answered += 1
        if self._answered > MOST_ANSWERS or question.payloads != (QUESTION,):
            return self.counters.drop("questions_refused", f"of {question.src}")
        self.counters.add("questions_answered")
        summary = self._summary(node)
        text = json.dumps(summary, separators=(",", ":")).encode()
        if len(text) > ANSWER_BYTES:
            text = json.dumps({**summary, "sites": {}, "cut": True}, separators=(",", ":")).encode()
        connection = self._connection
        assert connection is not None, "a question came over a connection"
        node.send(Batch(node.me, question.src, (text,), (Answer(SURVEY_SERVICE, number),), FLAGS), connection.now_ns)
        return None

    def _take_answer(self, batch: Batch, header: Answer | Failure) -> None:
        survey, now = self._under_way, time.time()
        if survey is None or header.first != survey.number or batch.src not in survey.asked:
            return self.counters.drop("answers_unexpected", f"of {batch.src}")
        if isinstance(header, Failure):                      # it has blocks/rpc, but no surveys
            survey.silent[batch.src] = None
        elif (facts := parsed_answer(batch)) is None:
            return self.counters.drop("answers_unexpected", f"of {batch.src}: it cannot be read")
        else:
            survey.silent.pop(batch.src, None)
            survey.came[batch.src] = facts, now
        return survey.end_if_complete()

    # --- answers ----------------------------------------------------------------------------------------------------

    def _look(self) -> None:
        """On the loop: record when the receiver last handled a message."""
        connection = self._connection
        if isinstance(connection, Session):
            handled = int(connection.dispatcher.counters.get("delivered", 0))
            if handled != self._handled or not connection.inbox.backlog_bytes:
                self._handled, self._moved_ns = handled, connection.now_ns

    def _summary(self, node: Node) -> Facts:
        """On the loop: the state of this member, in a few hundred bytes."""
        self._look()
        view = node.local.find(ViewSource).current_view()
        reporter: SiteReporter | None = node.local.find(SiteReporter)
        report = None if reporter is None else reporter.site_report()
        connection = self._connection
        backlog, stuck_ns, sent, sent_bytes, delivered_bytes = 0, 0, 0, 0, 0
        if isinstance(connection, Session):
            sent, sent_bytes = connection.sends.sent, connection.sends.payload_bytes
            delivered_bytes = int(connection.dispatcher.counters.get("delivered_bytes", 0))
            backlog = connection.inbox.backlog_bytes
            stuck_ns = connection.now_ns - self._moved_ns if backlog else 0
        return {
            "clock": time.time(), "version": __version__, "wire": VERSION, "stack": self._digest,
            "uptime_seconds": round(time.time() - self._started, 1), "view": None if view is None else str(view.id),
            "coordinator": view is not None and view.coordinator == node.me,
            "relay": bool(report and report["is_relay"]), "delivered": max(0, self._handled), "backlog_bytes": backlog,
            "stuck_seconds": round(stuck_ns / seconds(1), 1), "kept_back_bytes": node.pending_bytes(),
            "sent": sent, "sent_bytes": sent_bytes, "delivered_bytes": delivered_bytes,
            "suspects": [member.raw.hex() for member in suspected_by(node)[:MOST_SUSPECTS]],
            "sites": {} if report is None or not report["is_relay"] else {
                site: {name: figures[name] for name in ("status", "numbered", "acknowledged", "held", "lost")}
                for site, figures in report["sites"].items()}}

    def _result(self, survey: SurveyRound) -> Facts:
        came = dict(survey.came)                             # the loop may add to it
        members = [self._member(survey, came.get(member), member, site) for member, site in survey.asked.items()]
        last = max([survey.began, *(when for _, when in came.values())])
        accusers: dict[str, list[str]] = {}
        for member in members:
            for suspect in member.pop("suspects", ()):
                accusers.setdefault(suspect, []).append(member["name"])
        for member in members:
            member["suspected_by"] = accusers.get(member["uuid"], [])
        there = [member for member in members if "view" in member]
        by_site: dict[str | None, list[Facts]] = {}
        for member in there:
            by_site.setdefault(member["site"], []).append(member)

        def agree(name: str) -> bool:
            return all(len({member[name] for member in each}) <= 1 for each in by_site.values())
        return {
            "v": 1, "at": round(survey.began, 3), "asked_by": self._channel.name, "cluster": self._channel.cluster,
            "took_ms": round(1000 * (last - survey.began), 1), "members": members, "not_asked": survey.not_asked,
            "sites": {} if survey.sites is None else {site: facts["status"] for site, facts in survey.sites.items()},
            "agree": {"view": agree("view"), "stack": agree("stack"),
                      "version": len({member["version"] for member in there}) <= 1}}

    def _member(
        self, survey: SurveyRound, came: tuple[Facts, float] | None, member: Address, site: str | None,
    ) -> Facts:
        facts: Facts = {"site": site, "name": member.name or str(member), "uuid": member.raw.hex()}
        if came is None:
            return {**facts, "state": "silent" if member in survey.silent else "no answer"}
        answer, when = came
        is_blocked = answer["stuck_seconds"] >= STUCK_SECONDS
        return {**facts, "state": "blocked" if is_blocked else "alive", **answer,
                "rtt_ms": round(1000 * (when - survey.began), 1),
                "clock_offset_ms": round(1000 * (answer["clock"] - (survey.began + when) / 2), 1)}


def suspected_by(node: Node) -> list[Address]:
    """The members that a member suspects: of VERIFY_SUSPECT, and of SWIM without views."""
    suspicions: SuspicionTable | None = node.local.find(SuspicionTable)
    table: MemberTable | None = node.local.find(MemberTable)
    found = dict.fromkeys(() if suspicions is None else suspicions.suspected_members())
    for member in () if table is None else table.known_members():
        if member.state == "suspect":
            found.setdefault(member.address)
    return list(found)
