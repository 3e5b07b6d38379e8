"""The pure parts of the comparison with JGroups: figures, stack files, counting, the command line."""
import json
from xml.etree import ElementTree

import pytest

from benchmarks.versus_jgroups import __main__ as command
from benchmarks.versus_jgroups import artifacts, stacks
from benchmarks.versus_jgroups.contenders import Ground, Ours
from benchmarks.versus_jgroups.multicast import Multicast
from benchmarks.versus_jgroups.relay import outcome
from benchmarks.versus_jgroups.streams import FLOOD, NUMBER_MASK, TAG, TAG_BYTES, Counts, InOrder, read_tag, tag_of
from benchmarks.versus_jgroups.table import Figures, Row, as_json, markdown, number, ratio

RATE = Row("multicast", "msgs/s")
LATENCY = Row("p50", "us", more_is_better=False)


def figures_of(row: Row, **columns: list[float | None]) -> Figures:
    figures = Figures(ours=["mine", "mine2"], theirs=["java2", "java5"])
    for column, runs in columns.items():
        for value in runs:
            figures.add(row, column, value)
    return figures


def ratio_of(row: Row, **columns: list[float | None]) -> float | None:
    figures = figures_of(row, **columns)
    return ratio(row, figures.cells[row], figures.ours, figures.theirs)


# --- figures --------------------------------------------------------------------------------------------------------

def test_the_ratio_is_to_the_best_jgroups_column_by_medians():
    assert ratio_of(RATE, java2=[100, 300, 110], java5=[200, 190, 10], mine=[380, 1, 400]) == 2.0


def test_where_less_is_better_the_best_is_the_least():
    assert ratio_of(LATENCY, java2=[100], java5=[50], mine=[75], mine2=[25]) == 0.5


def test_there_is_no_ratio_to_what_stalled_or_is_zero():
    assert ratio_of(RATE, java2=[None], java5=[None], mine=[5]) is None
    assert ratio_of(LATENCY, java2=[0], mine=[0]) is None
    assert ratio_of(RATE, java2=[3]) is None


def test_a_column_that_stalled_sometimes_counts_with_the_rest_and_is_marked():
    table = markdown(figures_of(RATE, java2=[None], java5=[None, 100, 300], mine=[400]))
    assert "| multicast, msgs/s | stalled | 200 (100-300), 1 of 3 stalled | 400 |  | 2.00 |" in table


def test_every_line_of_the_table_has_the_same_number_of_cells():
    figures = figures_of(RATE, java2=[1.0], mine=[2.0])
    figures.add(LATENCY, "java5", 3.0)
    lines = markdown(figures).splitlines()
    assert {line.count("|") for line in lines} == {7}
    assert len(lines) == 4


def test_the_document_has_every_run():
    document = json.loads(json.dumps(as_json(figures_of(RATE, java2=[1.0, None, 3.0], mine=[4.0]))))
    assert document[0]["columns"]["java2"] == {"median": 2.0, "min": 1.0, "max": 3.0, "runs": [1.0, 3.0], "stalled": 1}
    assert document[0]["ratio"] == 2.0


@pytest.mark.parametrize(("value", "text"), [(1_234_567, "1,230,000"), (999.6, "1,000"), (44.4, "44.4"), (0.5, "0.5")])
def test_numbers_have_three_digits(value, text):
    assert number(value) == text


def test_a_remark_is_made_once():
    figures = Figures([], [])
    figures.remark("java2", "slow")
    figures.remark("java2", "slow")
    assert figures.remarks == ["java2: slow"]


def test_trials_are_named_by_size_senders_and_way():
    assert Multicast(100, False, singly=True).what == "multicast 100 B, one sender, one by one"
    assert Multicast(10_000, True).what == "multicast 10 KB, all send, in batches"


# --- failover -------------------------------------------------------------------------------------------------------

TALLY = {"distinct": 10, "duplicates": 0, "out_of_order": 0, "gap_ns": 4 * 10**8, "last_ns": 5 * 10**9}
FLOODED = {"start_ns": 10**9, "end_ns": 9 * 10**9}


def test_a_stream_that_arrived_whole_has_the_longest_pause_between_two_messages_as_its_gap():
    assert outcome(TALLY, 10, FLOODED) == (0, 0, 0, 0.4)


def test_a_stream_that_never_came_back_has_its_gap_to_the_end():
    assert outcome(TALLY, 12, FLOODED) == (2, 0, 0, 4.0)


def test_where_nothing_came_at_all_the_gap_is_the_whole_stream():
    assert outcome(TALLY | {"distinct": 0, "last_ns": 0, "gap_ns": 0}, 12, FLOODED) == (12, 0, 0, 8.0)


# --- stack files ----------------------------------------------------------------------------------------------------

FILES = {
    "udp.xml": '\n<config xmlns="urn:org:jgroups" xmlns:xsi="x" xsi:schemaLocation="y">'
               '<include file="${transport-config:base.xml}"/><!-- note --><PING/></config>',
    "base.xml": '<config xmlns="urn:org:jgroups"><UDP bind_addr="match-interface:eth0" tos="8"/></config>',
}


def test_includes_are_put_in_their_place_and_namespaces_go():
    root = stacks.flattened("udp.xml", FILES)
    assert [child.tag for child in root] == ["UDP", "PING"]
    assert not root.attrib


def test_only_what_is_listed_is_changed():
    root = stacks.changed(stacks.flattened("udp.xml", FILES), [stacks.Change("UDP", "bind_addr", "127.0.0.1", "why")])
    assert root[0].attrib == {"bind_addr": "127.0.0.1", "tos": "8"}


def test_a_change_of_a_protocol_that_is_not_there_is_an_error():
    with pytest.raises(ValueError, match="no TCPPING"):
        stacks.changed(stacks.flattened("udp.xml", FILES), [stacks.Change("TCPPING", "port_range", "0", "why")])


@pytest.mark.parametrize("transport", ["udp", "tcp"])
@pytest.mark.parametrize("major", [2, 5])
def test_every_stack_stays_on_loopback(major, transport):
    made = {change.attribute: change.value for change in stacks.changes(major, transport, stacks.Place())}
    assert made["bind_addr"] == "127.0.0.1"
    assert made.get("ip_ttl", "0") == "0"
    assert transport == "tcp" or made["ip_ttl"] == "0"


def test_the_stock_column_has_no_tuning():
    assert not [change for change in stacks.changes(5, "udp", stacks.Place(), tuned=False) if change.tuning]
    assert [change for change in stacks.changes(5, "udp", stacks.Place()) if change.tuning]


def test_relay_is_the_top_protocol_of_both_versions(tmp_path):
    old, new = (stacks.relay_stack(stacks.usual_relay(major), ElementTree.Element("config"), "NYC", ["NYC", "SFO"],
                                   tmp_path / "b.xml", tmp_path) for major in (2, 5))
    assert old[-1].tag == "RELAY"
    assert new[-1].tag == "relay.RELAY2"
    sites = ElementTree.parse(new[-1].attrib["config"]).getroot().iter("{urn:jgroups:relay:1.0}site")
    assert [site.attrib["name"] for site in sites] == ["NYC", "SFO"]


# --- counting -------------------------------------------------------------------------------------------------------

def payloads(*numbers: int, trial: int = 7, thread: int = 0) -> tuple[bytes, ...]:
    return tuple(tag_of(FLOOD, thread, trial, each).to_bytes(TAG_BYTES, "big") + b"rest" for each in numbers)


def test_the_tag_keeps_its_parts_apart():
    tag = tag_of(FLOOD, 255, 255, NUMBER_MASK)
    assert tag < 1 << 8 * TAG_BYTES
    assert read_tag(payloads(5)[0]) == tag_of(FLOOD, 0, 7, 5)


def test_counting_is_done_when_the_last_stream_is_complete():
    counts = Counts(7, streams=2, each=3)
    assert not counts.add("A", payloads(0, 1, 2))
    assert not counts.add("B", payloads(0, 1))
    assert counts.add("B", payloads(2))
    assert counts.figures()["messages"] == counts.figures()["distinct"] == 6
    assert counts.done_ns


def test_messages_that_arrive_twice_late_or_never_are_distinguished():
    counts = Counts(7, streams=1, each=9)
    counts.add("A", payloads(0, 1, 3, 2, 3, 6))
    figures = counts.figures()
    assert (figures["distinct"], figures["out_of_order"], figures["duplicates"]) == (5, 1, 1)


def test_a_late_message_can_complete_a_stream():
    counts = Counts(7, streams=1, each=3)
    assert not counts.add("A", payloads(0, 2))
    assert counts.add("A", payloads(1))


def test_messages_of_another_trial_are_strays_only():
    counts = Counts(7, streams=1, each=2)
    assert not counts.add("A", payloads(0, 1, trial=6))
    assert counts.figures() | {"last_ns": 0} == Counts(7, 1, 2).figures() | {"strays": 2}


def test_threads_of_one_sender_are_streams_of_their_own():
    counts = Counts(7, streams=2, each=1)
    assert not counts.add("A", payloads(0, thread=0))
    assert counts.add("A", payloads(0, thread=1))


def test_a_batch_may_hold_messages_of_several_threads():
    counts = Counts(7, streams=2, each=2)
    assert counts.add("A", payloads(0, thread=0) + payloads(0, 1, thread=1) + payloads(1, thread=0))


def one_by_one(counts: InOrder, *received: bytes) -> list[bool]:
    """As the receiver of peer.py does; whether each message completed the trial."""
    completed = []
    for payload in received:
        tag, = TAG.unpack_from(payload)
        expected = counts.next.get("A") == tag != counts.last
        if expected:
            counts.next["A"] = tag + 1
        completed.append(not expected and counts.add_one("A", payload))
    return completed


@pytest.mark.parametrize("numbers", [(0, 1, 2, 3), (0, 1, 1, 2, 3), (0, 2, 1, 3), (0, 1, 3), (0, 3, 1, 1, 2)])
def test_one_by_one_the_same_is_counted_as_in_batches(numbers):
    counts, plain = InOrder(7, 1, 4, last=tag_of(FLOOD, 0, 7, 3)), Counts(7, 1, 4)
    completed = one_by_one(counts, *payloads(*numbers))
    assert (True in completed) == plain.add("A", payloads(*numbers))
    assert counts.figures() | {"done_ns": 0} == plain.figures() | {"done_ns": 0}


def test_one_by_one_threads_of_one_sender_are_streams_of_their_own():
    counts = InOrder(7, 2, 2, last=tag_of(FLOOD, 0, 7, 1))
    mixed = zip(payloads(0, 1, thread=0), payloads(0, 1, thread=1), strict=True)
    assert one_by_one(counts, *[payload for pair in mixed for payload in pair]) == [False, False, False, True]


# --- command line and artifacts -------------------------------------------------------------------------------------

def test_an_unknown_suite_or_version_is_refused(capsys):
    for words in (["--only", "multicast,nothing"], ["--versions", "3"]):
        with pytest.raises(SystemExit):
            command.arguments(words)
    assert "--versions" in capsys.readouterr().err


def test_repetitions_override_those_of_quick():
    assert command.plan_of(command.arguments(["--quick"])).repetitions == 1
    assert command.plan_of(command.arguments(["--quick", "--repetitions", "3"])).repetitions == 3


def test_a_jar_that_is_not_the_pinned_one_is_refused_and_removed(tmp_path, monkeypatch):
    monkeypatch.setattr(artifacts, "CACHE", tmp_path)
    (tmp_path / "jars").mkdir()
    planted = tmp_path / "jars" / "jgroups-2.12.2.Final.jar"
    planted.write_bytes(b"something else")
    with pytest.raises(artifacts.MissingError, match="was pinned"):
        artifacts.jar(artifacts.RELEASES["2.12.2"])
    assert not planted.exists()


def test_missing_tools_are_named(monkeypatch):
    monkeypatch.setattr(artifacts.shutil, "which", lambda tool: None if tool == "mvn" else tool)
    with pytest.raises(artifacts.MissingError, match=r"not on the PATH: mvn\."):
        artifacts.check_tools()


def test_members_of_this_package_use_the_places_of_the_trial(tmp_path):
    place = stacks.Place("239.8.9.1", 21001, 21002)
    ground = Ground(tmp_path, "c", {"NYC": place, "SFO": place}, stacks.Place(port=21040))
    assert "mcast_port=21001" in Ours("udp").member(ground, "A", "NYC", relay=False)
    assert "initial_hosts=127.0.0.1[21002]" in Ours("tcp").member(ground, "A", "NYC", relay=False)
    assert "bridge_hosts=127.0.0.1[21040]" in Ours("udp").member(ground, "A", "NYC", relay=True)


def test_what_was_measured_before_ctrl_c_is_printed(monkeypatch, capsys):
    def half_a_run(args, plan, columns, folder, figures):
        figures.add(RATE, columns[0].label, 123_456.0)
        raise KeyboardInterrupt

    args = command.arguments([])
    monkeypatch.setattr(command, "arguments", lambda: args)
    monkeypatch.setattr(artifacts, "check_tools", lambda: "openjdk")
    monkeypatch.setattr(command, "contenders", lambda _: [Ours("udp")])
    monkeypatch.setattr(command, "measure", half_a_run)
    monkeypatch.setattr(command.signal, "signal", lambda *_: None)
    assert command.main() == 130
    printed = capsys.readouterr().out
    assert "123,000" in printed
    assert "stopped before its end" in printed
