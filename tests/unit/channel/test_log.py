"""Which lines of the log a channel's news are, and at which level."""
import logging

import pytest

from jgroups_py.channel.log import LOSSES, MINUTE_NS, ChannelLog
from jgroups_py.model.address import Address
from jgroups_py.model.outputs import (
    Closed,
    MessagesLost,
    MessagesSkipped,
    SiteStatusChanged,
    Unreachable,
    ViewInstalled,
)
from jgroups_py.model.view import MergeView, View, ViewId

A, B, C = (Address(bytes([number] * 16), name) for number, name in enumerate("ABC", 1))


def view(counter, *members, merges=()):
    made = ViewId(counter, members[0])
    return MergeView(made, members, tuple(merges)) if merges else View(made, members)


class Logged:
    """News, and what they wrote."""

    def __init__(self, caplog):
        self.now_ns = 0
        self.log = ChannelLog("A", "chat", lambda: self.now_ns)
        self.caplog = caplog

    def record(self, output, **more):
        """The lines that this makes: (level, text)."""
        self.caplog.clear()
        self.log.record(output, **more)
        return [(record.levelname, record.getMessage()) for record in self.caplog.records]


@pytest.fixture
def logged(caplog):
    caplog.set_level(logging.DEBUG, "jgroups_py")
    return Logged(caplog)


def test_a_start_is_debug_and_members_that_come_or_leave_are_info(logged):
    assert logged.record(ViewInstalled(view(0, A))) == [("DEBUG", "A@chat: view [A|0] (1) [A]")]
    assert logged.record(ViewInstalled(view(1, A, B))) == [("INFO", "A@chat: view [A|1] (2) [A, B]")]
    assert logged.record(ViewInstalled(view(2, A))) == [("INFO", "A@chat: view [A|2] (1) [A]")]


def test_a_member_that_failed_is_a_warning_with_its_name(logged):
    logged.record(ViewInstalled(view(0, A, B, C)))
    assert logged.record(ViewInstalled(view(1, A, C), (B,))) == [("WARNING",
                                                                  "A@chat: view [A|1] (2) [A, C]; failed: B")]


def test_a_merge_after_a_split_is_a_warning_and_names_the_members_that_are_back(logged):
    logged.record(ViewInstalled(view(0, A, B, C)))
    logged.record(ViewInstalled(view(1, A), (B, C)))
    merged = view(3, A, B, C, merges=(view(1, A), view(2, B, C)))
    assert logged.record(ViewInstalled(merged)) == [("WARNING", (
        "A@chat: the group was split and is one again: view Merge[A|3] (3) [A, B, C], 2 subgroups; back: B, C"))]


def test_what_a_member_missed_while_it_was_apart_is_a_warning(logged):
    logged.record(ViewInstalled(view(0, A, B)))
    merged = MergeView(ViewId(2, A), (A, B), (view(1, A), view(1, B)), {B: 7})
    assert logged.record(ViewInstalled(merged)) == [
        ("WARNING", "A@chat: this member has not got, and will not get, 7 multicasts of B"),
        ("INFO", "A@chat: view Merge[A|2] (2) [A, B], 2 subgroups")]


def test_groups_that_had_never_met_merge_at_info(logged):
    logged.record(ViewInstalled(view(0, A)))
    ((level, _),) = logged.record(ViewInstalled(view(1, A, B, merges=(view(0, A), view(0, B)))))
    assert level == "INFO"


@pytest.mark.parametrize(("status", "level"), [("UP", "INFO"), ("DOWN", "WARNING"), ("OFFLINE", "WARNING")])
def test_a_site_that_is_not_up_is_a_warning(logged, status, level):
    assert logged.record(SiteStatusChanged("SFO", status)) == [(level, f"A@chat: site SFO is {status}")]


@pytest.mark.parametrize(("output", "text"), [
    (MessagesLost("SFO", B, 5, 10), "messages 5 to 9 of B@SFO are lost for this member"),
    (MessagesLost("NYC", B, 5, 10, "SFO"), "messages 5 to 9 of B@NYC are lost for site SFO"),
    (MessagesSkipped(B, 7, 700), "7 messages (700 bytes) of B are lost: the application was too slow"),
    (Unreachable(C), "a message to C is lost: it is unreachable"),
])
def test_every_kind_of_loss_is_a_warning(logged, output, text):
    assert logged.record(output) == [("WARNING", f"A@chat: {text}")]


def test_thousands_of_losses_are_some_warnings_a_minute_and_the_last_gives_the_number_left_out(logged):
    lines = [logged.record(MessagesLost("SFO", B, 1, 2))[0] for _ in range(LOSSES + 5)]
    assert [level for level, _ in lines] == ["WARNING"] * LOSSES + ["DEBUG"] * 5
    assert [at for at, (_, text) in enumerate(lines) if "logged at DEBUG" in text] == [LOSSES - 1]
    logged.now_ns += MINUTE_NS
    assert logged.record(MessagesLost("SFO", B, 1, 2))[0][0] == "WARNING"


def test_an_end_that_the_application_did_not_request_is_a_warning_with_its_reason(logged):
    assert logged.record(Closed("left")) == []
    assert logged.record(Closed("no disk"), unrequested=True) == [("WARNING", "A@chat: the channel closed: no disk")]
